"""`gpu-policy why` on a real cluster with a scheduler and controllers: each situation has its one reason."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import gpu_policy
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, change, labels, remove_node
from tests.e2e.installation import Installation
from tests.e2e.objects import deployment, gpu_pod, job, pod

Raw = dict[str, Any]
Namespaces = Callable[[str], str]

CASES = {case["id"]: case for case in yaml.safe_load((Path(__file__).parent / "cases" / "why.yaml").read_text())}
POOL = "example.com/why"
H100, V100 = ("580.95.05", "NVIDIA-H100-80GB-HBM3", "9.0"), ("470.82.01", "Tesla-V100-SXM2-32GB", "7.0")
NODES: dict[str, tuple[str, tuple[str, str, str], int]] = {
    "why-old": ("mixed", V100, 8),
    "why-small": ("mixed", H100, 2),
    "why-busy": ("busy", H100, 4),
    "why-cordoned": ("cordoned", H100, 4),
    "why-gone": ("gone", H100, 4),
    "why-good": ("good", H100, 64),
}
"""Name -> pool, hardware and GPUs."""
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
RUNNING = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0, "state": {"running": {}}}
    ],
}


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Installation]:
    """The webhook, registered, with a scheduler, controllers, and nodes in every state."""
    plane = installation.plane
    plane.start_controller_manager()
    plane.start_scheduler()
    try:
        for name, (pool, hardware, gpus) in NODES.items():
            add_node(plane, name, {**labels(*hardware), POOL: pool}, gpus=gpus)
        change(plane, "why-cordoned", {"spec": {"unschedulable": True}})
        change(plane, "why-gone", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}}, subresource="/status")
        installation.register()
        eventually(installation.is_asked)
        yield installation
    finally:
        installation.unregister()
        for name in NODES:
            remove_node(plane, name)


def made(kind: str, name: str, gpus: int = 1, pool: str = "", image: str = "", **parts: Any) -> Raw:
    """An object as the cases write it."""
    spec = {"nodeSelector": {POOL: pool}, "tolerations": TOLERATIONS} if pool else {}
    raw = gpu_pod(name, gpus, **{**spec, **parts.get("spec", {})})
    if image:
        raw["spec"]["containers"][0]["image"] = image
    if kind != "Pod":
        raw = job(name, raw) if kind == "Job" else {**deployment(name, raw), "kind": kind}
        raw["spec"] |= parts.get("workload", {})
    return raw


@dataclass(frozen=True)
class Stage:
    """One namespace, in which situations are made."""

    plane: ControlPlane
    namespace: str

    def path(self, raw: Raw) -> str:
        version = raw["apiVersion"]
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        return f"{root}/namespaces/{self.namespace}/{raw['kind'].lower()}s"

    def create(self, raw: Raw) -> None:
        status, stored = self.plane.raw("POST", self.path(raw), raw)
        assert status == 201, stored

    def events(self) -> list[Raw]:
        return list(self.plane.raw("GET", f"/api/v1/namespaces/{self.namespace}/events")[1]["items"])

    def make(self, case: Raw) -> str:
        """Make a situation, and return what to ask about."""
        for row in case["make"]:
            if "apiVersion" in row:
                self.create(row)
                eventually(lambda row=row: "status" in self.plane.raw("GET", f"{self.path(row)}/few")[1])
            elif node := row.get("node"):
                held = gpu_pod(row["name"], 1, nodeName=node)
                self.create(held)
                status = f"{self.path(held)}/{row['name']}/status"
                assert self.plane.raw("PATCH", status, {"status": RUNNING})[0] == 200
            else:
                self.create(made(**row))
        if case.get("await") == "FailedCreate":
            eventually(lambda: any(one["reason"] == "FailedCreate" for one in self.events()))
        elif case.get("await"):
            eventually(lambda: case["await"] in str(self.plane.raw("GET", f"{self.path(gpu_pod(''))}/train-0")[1]))
        return str(case["ask"])

    def end(self) -> None:
        for kind in ("apps/v1/{}/deployments", "apps/v1/{}/statefulsets", "batch/v1/{}/jobs"):
            self.plane.raw("DELETE", f"/apis/{kind.format('namespaces/' + self.namespace)}")
        self.plane.raw("DELETE", f"/api/v1/namespaces/{self.namespace}/pods?gracePeriodSeconds=0")


@pytest.fixture
def stages(site: Installation, make_namespace: Namespaces) -> Iterator[Callable[..., Stage]]:
    """Makes stages whose objects are gone afterwards."""
    found: list[Stage] = []

    def make(prefix: str = "explained") -> Stage:
        found.append(Stage(site.plane, make_namespace(prefix)))
        return found[-1]

    yield make
    for stage in found:
        stage.end()


def why(site: Installation, *arguments: object, token: str = "") -> Raw:
    """The answer as JSON."""
    kubeconfig = site.plane.kubeconfig_for(token) if token else site.plane.kubeconfig
    done = gpu_policy("why", *arguments, "--kubeconfig", kubeconfig, "--policies", site.policies, "-o", "json")
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def without_events(site: Installation, target: str, stage: Stage) -> Raw:
    """The answer after all events are gone; empty if a controller wrote a new one meanwhile."""
    site.plane.raw("DELETE", f"/api/v1/namespaces/{stage.namespace}/events")
    answer = why(site, target, "-n", stage.namespace)
    return {} if any(clue["source"].startswith("event ") for clue in answer["evidence"]) else answer


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_situation_has_its_one_reason(site: Installation, stages: Callable[..., Stage], case: Raw) -> None:
    stage = stages(case.get("prefix", "explained"))
    target = stage.make(case)
    if case.get("forget"):
        answer = eventually(lambda: without_events(site, target, stage))
    else:
        answer = why(site, target, "-n", stage.namespace)
    assert answer["reason"] == case["reason"], answer
    text = json.dumps(answer, ensure_ascii=False).replace('\\"', '"')
    assert [word for word in case["said"] if word not in text] == []
    assert answer["missing"] == []
    sentences = [answer["message"], *(clue["message"] for clue in answer["evidence"])]
    assert [one for one in sentences if one.endswith((",", ". not found"))] == []


def test_the_role_view_suffices_for_the_namespace_and_says_what_more_rights_would_tell(
    site: Installation, stages: Callable[..., Stage]
) -> None:
    """Nothing about nodes, and the verbs that are missing."""
    stage = stages()
    site.plane.kubectl(
        "create", "rolebinding", "view", "--clusterrole=view", "--user=tenant", namespace=stage.namespace
    )
    target = stage.make(CASES["GPUs in use"])
    pods = f"/api/v1/namespaces/{stage.namespace}/pods"
    eventually(lambda: site.plane.raw("GET", pods, token=TENANT_TOKEN)[0] == 200)
    answer = why(site, target, "-n", stage.namespace, token=TENANT_TOKEN)
    assert answer["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in answer["message"]
    assert ("list", "nodes") in {(one["verb"], one["resource"]) for one in answer["missing"]}
    own = why(site, "holder-0", "-n", stage.namespace, token=TENANT_TOKEN)
    assert (own["reason"], [one["resource"] for one in own["missing"]]) == ("Healthy", ["nodes"])


def test_an_audit_of_the_cluster_gives_the_same_reasons_for_all_that_is_pending(
    site: Installation, stages: Callable[..., Stage]
) -> None:
    """Once for each owner and reason, with what is free in the whole cluster."""
    own = {}
    for name in ("GPUs in use", "a cordoned node", "a label that no node has"):
        stage = stages()
        stage.make(CASES[name])
        own[stage.namespace] = stage
    answers = {namespace: why(site, "train-0", "-n", namespace) for namespace in own}
    done = gpu_policy(
        *("audit", "--cluster", "--kubeconfig", site.plane.kubeconfig, "--policies", site.policies),
        *("--format", "json", "--fail-on", "never"),
    )
    assert done.exit_code == 0, done.stderr
    pending = {one["owner"]["namespace"]: one for one in json.loads(done.stdout)["pending"]}
    for namespace, answer in answers.items():
        found = pending[namespace]
        assert {key: found[key] for key in ("reason", "message", "remedy")} == {
            key: answer[key] for key in ("reason", "message", "remedy")
        }
        assert found["pods"] == {"count": 1, "names": ["train-0"]}


def test_a_cluster_in_a_file_is_explained_and_shown_as_the_cluster_itself(
    site: Installation, stages: Callable[..., Stage], tmp_path: Path
) -> None:
    stage, file = stages(), tmp_path / "cluster.json"
    targets = [stage.make(CASES[name]) for name in ("GPUs in use", "a refused Job")]
    answers = [why(site, target, "-n", stage.namespace) for target in targets]
    kinds = "nodes,runtimeclasses,priorityclasses,pods,jobs,deployments,replicasets,events"
    file.write_text(site.plane.kubectl("get", kinds, "-A", "-o", "json").stdout)
    sources = {"cluster": ("--kubeconfig", site.plane.kubeconfig), "file": ("--inventory", file)}
    for target, answer in zip(targets, answers, strict=True):
        done = gpu_policy(
            "why", target, "-n", stage.namespace, *sources["file"], "--policies", site.policies, "-o", "json"
        )
        assert {**json.loads(done.stdout), "evidence": []} == {**answer, "evidence": []}
    keys = ("used", "gated", "waiting", "refused", "onNodes", "free")
    shown: dict[str, Any] = {}

    def agree() -> bool:
        """Whether both show the same. Pods of other tests may go between the two."""
        file.write_text(site.plane.kubectl("get", kinds, "-A", "-o", "json").stdout)
        for name, source in sources.items():
            shown[name] = json.loads(gpu_policy("top", *source, "--policies", site.policies, "-o", "json").stdout)
        return [shown["file"][key] for key in keys] == [shown["cluster"][key] for key in keys]

    eventually(agree)
    (row,) = (one for one in shown["cluster"]["namespaces"] if one["namespace"] == stage.namespace)
    assert (row["waiting"] != "0", row["refused"]) == (True, ["Job train"])


def test_without_policies_those_of_the_installation_count(site: Installation, stages: Callable[..., Stage]) -> None:
    """They are read from the ConfigMap that its Deployment mounts; without one the answer says what is not known."""
    stage, home = stages(), stages("release")
    target = stage.make(CASES["a refused Job"])
    options = ("why", target, "-n", stage.namespace, "--kubeconfig", site.plane.kubeconfig, "-o", "json")
    options = (*options, "--installation", f"{home.namespace}/gpu-policy")
    (missing,) = json.loads(gpu_policy(*options).stdout)["missing"]
    assert missing["resource"] == "deployments.apps"
    files = {file.name: file.read_text() for file in site.policies.glob("*.yaml")}
    home.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies"}, "data": files})
    release = deployment("gpu-policy", pod("p", {}))
    spec = release["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "policies", "configMap": {"name": "policies"}}]
    spec["containers"][0] |= {
        "args": ["serve", "--policies=/policies"],
        "volumeMounts": [{"name": "policies", "mountPath": "/policies"}],
    }
    release["spec"]["replicas"] = 0
    home.create(release)
    answer = json.loads(gpu_policy(*options).stdout)
    assert answer["missing"] == []
    assert any("gpuLimits is set in explained.yaml:" in clue["message"] for clue in answer["evidence"])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param("train-1", "did you mean pod/train-0?", id="a name that is nearly right"),
        pytest.param("jobb/train", "did you mean job?", id="a kind that is nearly right"),
        pytest.param("deploy/train-0", "there is no Deployment train-0", id="the wrong kind"),
        pytest.param("same", "write deployment/same and job/same", id="two workloads"),
    ],
)
def test_a_name_that_means_nothing_is_answered_with_what_to_write(
    site: Installation, stages: Callable[..., Stage], written: str, said: str
) -> None:
    stage = stages()
    stage.create(gpu_pod("train-0", 1, schedulerName="nobody"))
    stage.create(made("Deployment", "same", workload={"replicas": 0}))
    stage.create(made("Job", "same", workload={"parallelism": 0}))
    done = gpu_policy("why", written, "-n", stage.namespace, "--kubeconfig", site.plane.kubeconfig)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr

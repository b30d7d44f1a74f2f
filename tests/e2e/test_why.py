"""`gpu-policy why` on a real cluster with a scheduler and controllers: each situation has its one reason."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.command_line import gpu_policy
from tests.e2e import why_nodes
from tests.e2e.control_plane import TENANT_TOKEN
from tests.e2e.custom_kinds import defined
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.objects import deployment, gpu_pod, job, pod
from tests.e2e.why_placement import busy, cordoned, fits_nowhere
from tests.e2e.why_refusals import refused_job
from tests.e2e.why_situations import SITUATIONS
from tests.e2e.why_stage import KINDS, Situation, Stage

Namespaces = Callable[[str], str]


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Installation]:
    """The webhook, registered, with a scheduler, controllers, and nodes in every state."""
    plane = installation.plane
    plane.start_controller_manager()
    plane.start_scheduler()
    with why_nodes.present(plane), defined(plane, KINDS):
        installation.register()
        eventually(installation.is_asked)
        yield installation
        installation.unregister()


def why(site: Installation, *arguments: object, token: str = "") -> dict:
    """The answer as JSON."""
    kubeconfig = site.plane.kubeconfig_for(token) if token else site.plane.kubeconfig
    done = gpu_policy("why", *arguments, "--kubeconfig", kubeconfig, "--policies", site.policies, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def asked(site: Installation, target: str, stage: Stage) -> dict:
    """The answer about something in a namespace."""
    return why(site, target, "-n", stage.namespace)


def without_events(site: Installation, target: str, stage: Stage) -> dict:
    """The answer after all events are gone; empty if a controller wrote a new one meanwhile."""
    stage.forget_events()
    answer = asked(site, target, stage)
    return {} if any(clue["source"].startswith("event ") for clue in answer["evidence"]) else answer


@pytest.mark.parametrize("case", SITUATIONS, ids=lambda case: case.id)
def test_each_situation_has_its_one_reason(site: Installation, make_namespace: Namespaces, case: Situation) -> None:
    """The reason, and what the evidence has to say."""
    stage = Stage(site.plane, make_namespace(case.prefix))
    try:
        target = case.stage(stage)
        answer = eventually(
            lambda: without_events(site, target, stage) if case.is_forgotten else asked(site, target, stage)
        )
        assert answer["reason"] == case.reason, answer
        assert [
            word for word in case.said if word not in json.dumps(answer, ensure_ascii=False).replace('\\"', '"')
        ] == []
        assert answer["missing"] == [], answer["missing"]
        sentences = [answer["message"], *(clue["message"] for clue in answer["evidence"])]
        assert [one for one in sentences if one.endswith((",", ". not found"))] == []
    finally:
        for kind in ("deployments", "statefulsets", "jobs"):
            api = "batch" if kind == "jobs" else "apps"
            site.plane.raw("DELETE", f"/apis/{api}/v1/namespaces/{stage.namespace}/{kind}")
        site.plane.raw(
            "PATCH", f"/api/v1/namespaces/{stage.namespace}/pods/train-0", {"metadata": {"finalizers": None}}
        )
        site.plane.raw("DELETE", f"/api/v1/namespaces/{stage.namespace}/pods?gracePeriodSeconds=0")


def test_the_role_view_suffices_for_the_namespace_and_says_what_more_rights_would_tell(
    site: Installation, make_namespace: Namespaces
) -> None:
    """Nothing about nodes, and the verbs that are missing."""
    stage = Stage(site.plane, make_namespace("explained"))
    subject = {"kind": "User", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"}}
    stage.create({**binding, "subjects": [subject], "roleRef": role})
    target = busy(stage)
    eventually(
        lambda: site.plane.raw("GET", f"/api/v1/namespaces/{stage.namespace}/pods", token=TENANT_TOKEN)[0] == 200
    )
    answer = why(site, target, "-n", stage.namespace, token=TENANT_TOKEN)
    assert answer["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in answer["message"]
    assert ("list", "nodes") in {(one["verb"], one["resource"]) for one in answer["missing"]}
    own = why(site, "holder-0", "-n", stage.namespace, token=TENANT_TOKEN)
    assert own["reason"] == "Healthy"
    assert [one["resource"] for one in own["missing"]] == ["nodes"]
    site.plane.raw("DELETE", f"/api/v1/namespaces/{stage.namespace}/pods?gracePeriodSeconds=0")


def test_an_audit_of_the_cluster_gives_the_same_reasons_for_all_that_is_pending(
    site: Installation, make_namespace: Namespaces
) -> None:
    """Once for each owner and reason, with what is free in the whole cluster."""
    stages = [Stage(site.plane, make_namespace("explained")) for _ in range(3)]
    targets = [situation(stage) for situation, stage in zip((busy, cordoned, fits_nowhere), stages, strict=True)]
    own = {
        stage.namespace: why(site, target, "-n", stage.namespace) for stage, target in zip(stages, targets, strict=True)
    }
    done = gpu_policy(
        *("audit", "--cluster", "--kubeconfig", site.plane.kubeconfig, "--policies", site.policies),
        *("--format", "json", "--fail-on", "never"),
    )
    assert done.exit_code == 0, done.stderr
    pending = {one["owner"]["namespace"]: one for one in json.loads(done.stdout)["pending"]}
    for namespace, answer in own.items():
        found = pending[namespace]
        assert (found["reason"], found["message"], found["remedy"]) == (
            answer["reason"],
            answer["message"],
            answer["remedy"],
        )
        assert found["pods"] == {"count": 1, "names": ["train-0"]}
    for stage in stages:
        site.plane.raw("DELETE", f"/api/v1/namespaces/{stage.namespace}/pods?gracePeriodSeconds=0")


def test_without_policies_those_of_the_installation_count(site: Installation, make_namespace: Namespaces) -> None:
    """They are read from the ConfigMap that its Deployment mounts; without one the answer says what is not known."""
    stage, home = Stage(site.plane, make_namespace("explained")), Stage(site.plane, make_namespace("release"))
    target = refused_job(stage)
    options = ("why", target, "-n", stage.namespace, "--kubeconfig", site.plane.kubeconfig, "-o", "json")
    options = (*options, "--installation", f"{home.namespace}/gpu-policy")
    (missing,) = json.loads(gpu_policy(*options).stdout)["missing"]
    assert missing["resource"] == "deployments.apps"
    files = {file.name: file.read_text() for file in site.policies.glob("*.yaml")}
    home.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies"}, "data": files})
    made = deployment("gpu-policy", pod("p", {}))
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "policies", "configMap": {"name": "policies"}}]
    spec["containers"][0] |= {
        "args": ["serve", "--policies=/policies"],
        "volumeMounts": [{"name": "policies", "mountPath": "/policies"}],
    }
    made["spec"]["replicas"] = 0
    home.create(made)
    answer = json.loads(gpu_policy(*options).stdout)
    assert answer["missing"] == []
    assert any("gpuLimits is set in explained.yaml:" in clue["message"] for clue in answer["evidence"])


def test_without_any_right_the_message_says_which_one_is_missing(
    site: Installation, make_namespace: Namespaces
) -> None:
    """Status 2, and no traceback."""
    namespace = make_namespace("explained")
    kubeconfig = site.plane.kubeconfig_for(TENANT_TOKEN)
    done = gpu_policy("why", "train-0", "-n", namespace, "--kubeconfig", kubeconfig, "--policies", site.policies)
    assert done.exit_code == 2
    assert "`get pods`" in done.stderr


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param("train-1", "did you mean pod/train-0?", id="a name that is nearly right"),
        pytest.param("jobb/train", "did you mean job?", id="a kind that is nearly right"),
        pytest.param("deploy/train-0", "there is no Deployment train-0", id="the wrong kind"),
        pytest.param("same", "write deployment/same and job/same", id="two workloads"),
        pytest.param("pod/", "is no kind/name", id="no name"),
        pytest.param("pod/..", "cannot be part of a path", id="no name of an object"),
    ],
)
def test_a_name_that_means_nothing_is_answered_with_what_to_write(
    site: Installation, make_namespace: Namespaces, written: str, said: str
) -> None:
    """Status 2, with the nearest name."""
    stage = Stage(site.plane, make_namespace("explained"))
    stage.create(gpu_pod("train-0", 1, schedulerName="nobody"))
    for made in (deployment("same", gpu_pod("p", 1)), job("same", gpu_pod("p", 1))):
        made["spec"] |= {"replicas": 0} if made["kind"] == "Deployment" else {"parallelism": 0}
        stage.create(made)
    done = gpu_policy("why", written, "-n", stage.namespace, "--kubeconfig", site.plane.kubeconfig)
    assert done.exit_code == 2
    assert said in done.stderr

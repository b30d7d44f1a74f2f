"""`gpu-policy audit`: exit statuses that scripts rely on, the same in every format, and errors without tracebacks."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.audit.audits import stored
from tests.audit.pretended_cluster import DEPLOYMENTS, SERVED, Cluster, pretended
from tests.build import NODES as NODE_OBJECTS
from tests.build import RUNTIME_CLASS, pod, workload
from tests.command_line import gpu_policy
from tests.facts.fake_api_server import NODES, PODS, always
from tests.facts.served_kinds import aggregated
from tests.golden import golden
from webhook.audit.writing import FORMATS

ROOT = Path(__file__).parents[2]
POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec:
  rules:
    tolerations: {mode: enforce}
    gpuLimits: {mode: enforce, maxPerPod: 4}
    visibleDevices: {mode: warn}
    gpuQuota: {mode: enforce, gpus: 8}
"""
BROKEN = "apiVersion: v1\nkind: Pod\n<<<<<<< HEAD\n"


def exposed() -> dict[str, Any]:
    raw = pod(1, name="exposed")
    raw["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return raw


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with policies and manifests, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for directory in ("policies", "strict"):
        (tmp_path / directory).mkdir()
    nodes = [{"apiVersion": "v1", "kind": "Node", **node} for node in NODE_OBJECTS]
    classes = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **RUNTIME_CLASS}
    files = {
        "policies/_default.yaml": POLICY,
        "strict/_default.yaml": POLICY.replace("maxPerPod: 4", "maxPerPod: 0"),
        "good.yaml": yaml.safe_dump(pod(1)),
        "warned.yaml": yaml.safe_dump(exposed()),
        "bad.yaml": yaml.safe_dump(workload("Deployment", pod(9))),
        "broken.yaml": BROKEN,
        "inventory.yaml": yaml.safe_dump({"kind": "List", "items": [*nodes, classes, pod(6, name="running")]}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*args: object, stdin: str | bytes | None = None) -> Result:
    return gpu_policy("audit", *args, stdin=stdin)


def report(*args: object, **kwargs: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*args, "--format", "json", **kwargs).stdout)
    return document


STATUSES = [
    pytest.param(["good.yaml"], 0, id="nothing"),
    pytest.param(["bad.yaml"], 1, id="refused"),
    pytest.param(["warned.yaml"], 0, id="warned"),
    pytest.param(["warned.yaml", "--fail-on", "warn"], 1, id="warned, and that matters"),
    pytest.param(["bad.yaml", "--fail-on", "warn"], 1, id="refused, where warnings matter"),
    pytest.param(["bad.yaml", "--fail-on", "never"], 0, id="refused, and nothing matters"),
    pytest.param(["bad.yaml", "broken.yaml", "good.yaml"], 2, id="refused and unreadable"),
    pytest.param(["broken.yaml", "--fail-on", "never"], 2, id="unreadable, and nothing matters"),
    pytest.param(["."], 2, id="directory with all of them"),
    pytest.param(["missing.yaml"], 2, id="missing file"),
    pytest.param(["good.yaml", "--against", "strict"], 0, id="compared"),
    pytest.param(["good.yaml", "--policies", "strict", "--against", "policies"], 1, id="compared, newly refused"),
]


TWICE = (
    yaml.safe_dump(pod(9)) + "spec:\n  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]\n"
)
"""A pod with too many GPUs whose last spec, which counts, has one."""


def test_a_key_that_stands_twice_is_judged_by_its_last_value_and_told(here: Path) -> None:
    (here / "twice.yaml").write_text(TWICE)
    result = run("twice.yaml")
    lines = [number for number, line in enumerate(TWICE.splitlines(), 1) if line == "spec:"]
    told = f"the key 'spec' is set twice in one map, in line {lines[0]} and in line {lines[1]}"
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: twice.yaml:{lines[1]}: {told}; kubectl uses the last value")
    assert "warning: twice.yaml" not in result.stdout
    strict = run("twice.yaml", "good.yaml", "--strict")
    assert (strict.exit_code, strict.stderr) == (2, "")


@pytest.mark.parametrize(("args", "status"), STATUSES)
def test_the_exit_status_says_what_was_found(here: Path, args: list[str], status: int) -> None:
    result = run(*args)
    assert (result.exit_code, bool(result.stdout)) == (status, True)


@pytest.mark.parametrize("form", FORMATS)
def test_the_exit_status_is_the_same_whatever_the_format(here: Path, form: str) -> None:
    assert [run(*args, "--format", form).exit_code for args in (["good.yaml"], ["bad.yaml"], ["."])] == [0, 1, 2]


@golden
def test_what_cannot_be_done_is_said_at_once_with_status_2(here: Path, args: tuple[str, ...], reason: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr


def test_an_api_server_that_is_not_there_is_said_so(here: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    (here / "config").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
    for args in (["--cluster"], ["good.yaml"]):
        result = run(*args, "--kubeconfig", "config")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "cannot be reached" in result.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_report_in_a_file_is_the_one_that_would_be_printed(here: Path, form: str) -> None:
    printed = run("bad.yaml", "--format", form).stdout
    result = run("bad.yaml", "--format", form, "--output", "report")
    assert (result.exit_code, result.stdout) == (1, "")
    written = (here / "report").read_text(encoding="utf-8")
    assert len(written.splitlines()) == len(printed.splitlines())
    assert sorted(path.name for path in here.iterdir() if "report" in path.name) == ["report"]


@golden
def test_who_sends_the_report_to_a_file_still_sees_why_the_audit_fails(here: Path, path: str, told: str) -> None:
    result = run(path, "--format", "sarif", "--output", "report")
    assert result.stderr.startswith(told)
    assert result.stderr.endswith("The report is in report.\n")


def test_a_report_replaces_another_and_keeps_its_permissions(here: Path) -> None:
    (here / "report").write_text("before")
    (here / "report").chmod(0o640)
    run("good.yaml", "--format", "json", "--output", "report")
    assert json.loads((here / "report").read_text())["counts"]["pods"] == 1
    assert (here / "report").stat().st_mode & 0o777 == 0o640


def test_a_link_to_a_report_stays_one(here: Path) -> None:
    (here / "real").write_text("before")
    (here / "link").symlink_to("real")
    run("good.yaml", "--output", "link")
    assert (here / "link").is_symlink()
    assert "1 pod" in (here / "real").read_text()


def status_in_a_shell(here: Path, redirected: str, **environment: str) -> tuple[int, str]:
    """Status and standard error of an audit of bad.yaml in a process of its own."""
    command = f"{sys.executable} -m webhook audit bad.yaml {redirected}"
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **environment}
    done = subprocess.run(
        ["bash", "-c", command], cwd=here, env=environment, capture_output=True, check=False, text=True
    )
    return done.returncode, done.stderr


@golden
def test_the_status_tells_of_findings_whatever_becomes_of_the_output(
    here: Path, redirected: str, expected: tuple[int, str]
) -> None:
    """Unless the report is lost: that is no answer."""
    many = "---\n".join(yaml.safe_dump(pod(9, name=f"p{number}")) for number in range(100))
    (here / "bad.yaml").write_text(many)
    assert status_in_a_shell(here, redirected) == expected


def test_the_inventory_tells_of_capacity_and_of_what_quotas_are_used(here: Path) -> None:
    found = report("good.yaml", "--inventory", "inventory.yaml")
    assert {row["driver"]: row["cuda"] for row in found["capacity"]}["580.95.05"] == "13.0"
    assert [(quota["quota"], quota["gpus"]["used"]) for quota in found["quotas"]] == [("team", "6")]


def test_pods_of_a_file_come_on_top_of_those_of_the_inventory(here: Path) -> None:
    (here / "two.yaml").write_text(yaml.safe_dump(pod(3, name="one-too-many")))
    assert run("two.yaml").exit_code == 0
    assert run("two.yaml", "--inventory", "inventory.yaml").exit_code == 1


# A live cluster; tests/e2e/test_audit.py has a real one.


@pytest.fixture
def cluster(here: Path) -> Iterator[Cluster]:
    with pretended(here) as cluster:
        cluster.server.objects[NODES] = [{"apiVersion": "v1", "kind": "Node", **node} for node in NODE_OBJECTS]
        cluster.server.objects[DEPLOYMENTS] = [stored(workload("Deployment", pod(9)), 1)]
        cluster.server.objects[PODS] = [stored(pod(2, name=f"p{number}"), 2 + number) for number in range(3)]
        yield cluster


def audit(here: Path, cluster: Cluster, *args: str) -> Result:
    return run("--cluster", "--kubeconfig", cluster.server.kubeconfig(here), "--format", "json", *args)


def test_a_cluster_is_audited_with_its_nodes_and_its_quotas(here: Path, cluster: Cluster) -> None:
    result = audit(here, cluster)
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, found["isOfCluster"], found["errors"]) == (1, "", True, [])
    assert (found["counts"]["pods"], found["counts"]["workloads"]) == (3, 1)
    assert [row["nodes"] for row in found["capacity"]] == [1, 1, 1]
    assert [quota["gpus"]["used"] for quota in found["quotas"]] == ["6"]


@pytest.mark.parametrize("path", [NODES, PODS, DEPLOYMENTS], ids=["nodes", "pods", "deployments"])
def test_what_may_not_be_listed_is_an_error_and_the_rest_is_audited(here: Path, cluster: Cluster, path: str) -> None:
    cluster.server.instead[path] = always(403, {"kind": "Status", "message": "forbidden: nobody may list this"})
    result = audit(here, cluster, "--fail-on", "never")
    found = json.loads(result.stdout)
    (error,) = found["errors"]
    assert (result.exit_code, "forbidden" in error["message"]) == (2, True)
    assert found["counts"]["pods"] + found["counts"]["workloads"] > 0


@pytest.mark.parametrize("is_made", [False, True])
def test_autoscalers_of_a_cluster_are_compared_with_quotas(here: Path, cluster: Cluster, is_made: bool) -> None:
    """One that KEDA or another controller made says what its maker says."""
    path, kind = "/apis/autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler"
    served = {**SERVED, "autoscaling": [("v2", {kind: "horizontalpodautoscalers"})]}
    cluster.server.instead["/api"] = cluster.server.instead["/apis"] = aggregated(served)
    deployment = stored(workload("Deployment", pod(1)), 1)
    cluster.server.objects[DEPLOYMENTS] = [deployment]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]}
    scaler = {"metadata": {"name": "h", "namespace": "team"}, "spec": {"scaleTargetRef": target, "maxReplicas": 9}}
    cluster.server.objects[path] = [stored(scaler, 8, {**deployment, "kind": "ScaledObject"} if is_made else None)]
    told = "maxReplicas of HorizontalPodAutoscaler h is 9, so 9 pods request 9 GPUs together"
    assert audit(here, cluster).stdout.count(told) == (not is_made)
    cluster.server.instead[path] = always(403, {"kind": "Status", "message": "forbidden"})
    assert [one["message"][:23] for one in json.loads(audit(here, cluster).stdout)["errors"]] == [kind]


def test_namespaces_are_left_out_or_looked_into_as_asked(here: Path, cluster: Cluster) -> None:
    system = stored(pod(9, namespace="kube-system"), 9)
    cluster.server.objects[PODS].append(system)
    assert json.loads(audit(here, cluster).stdout)["counts"]["pods"] == 3
    assert json.loads(audit(here, cluster, "--exclude-namespace", "").stdout)["counts"]["pods"] == 4
    assert json.loads(audit(here, cluster, "--exclude-namespace", "te*m").stdout)["counts"]["pods"] == 1


@pytest.mark.parametrize("form", FORMATS)
def test_the_page_of_audits_says_whom_a_format_is_for(form: str) -> None:
    page = (Path(__file__).parents[2] / "docs/audit.md").read_text(encoding="utf-8")
    assert any(line.startswith("| `") and f"`{form}`" in line.split("|")[1] for line in page.splitlines())

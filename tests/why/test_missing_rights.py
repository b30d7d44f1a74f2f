"""Rights that somebody lacks: what is asked for, how it is said, and that nothing uncertain is told as a fact."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.facts.fake_api_server import always
from tests.facts.served_kinds import aggregated
from tests.why.samples import node, pod, printed, workload
from tests.why.small_cluster import SERVED, SmallCluster, named, small_cluster
from webhook.audit.report import ObjectReference
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet
from webhook.why.explanation import Answer, Explanation, MissingAnswer, ReasonCode

CLASSES = {
    "node.k8s.io": [("v1", {"RuntimeClass": "runtimeclasses"})],
    "scheduling.k8s.io": [("v1", {"PriorityClass": "priorityclasses"})],
    "resource.k8s.io": [("v1", {"DeviceClass": "deviceclasses"})],
}
UNKNOWN = MissingAnswer("get", "deployments.apps", "gpu-policy", "which rules there are")
ALLOWED = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec: {rules: {priorityClass: {mode: enforce, allowed: [low]}}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SmallCluster]:
    """A cluster with classes, of which nobody may read what is not of a namespace."""
    with small_cluster(tmp_path) as cluster:
        cluster.server.instead["/api"] = cluster.server.instead["/apis"] = aggregated({**SERVED, **CLASSES})
        yield cluster


def forbid(cluster: SmallCluster, *paths: str) -> None:
    refused = always(403, {"message": "forbidden"})
    cluster.server.under = {**dict.fromkeys(paths, refused), **cluster.server.under}


def shown(answer: Answer) -> list[str]:
    text = printed(answer)
    return [line.strip() for line in text.splitlines() if "Not known" in line]


def priorities(directory: Path) -> PolicySet:
    """Policies that allow one PriorityClass, and pods without one if it is the default of the cluster."""
    (directory / "policies").mkdir()
    (directory / "policies" / "_default.yaml").write_text(ALLOWED)
    return load(directory / "policies")


def test_all_rights_that_are_missing_stand_in_one_line(cluster: SmallCluster) -> None:
    """In JSON each is an entry of its own."""
    forbid(cluster, "/api/v1/nodes", "/api/v1/pods", "/apis/node.k8s.io/v1/", "/apis/resource.k8s.io/v1/")
    cluster.add(pod())
    answer = cluster.why("train-0", UNKNOWN)
    assert [str(one.right) for one in answer.missing] == [
        "`list nodes` in the cluster",
        "`list runtimeclasses.node.k8s.io` in the cluster",
        "`list deviceclasses.resource.k8s.io` in the cluster",
        "`get deployments.apps` in namespace gpu-policy",
    ]
    (line,) = shown(answer)
    assert all(one.right in line and one.unknown in line for one in answer.missing)


def test_a_fault_that_several_requests_have_is_told_once() -> None:
    faults = [MissingAnswer("list", name, "", f"about {name}", "it is down") for name in ("nodes", "pods")]
    other = MissingAnswer("get", "x", "team", "about x", "it is slow")
    about = ObjectReference("team", "Pod", "train-0", "v1")
    answer = Answer(about, Explanation(ReasonCode.UNKNOWN, "m"), (*faults, other))
    assert shown(answer) == [
        "Not known: about nodes is not known: `list nodes` in the cluster failed: it is down; nor is known about pods",
        "Not known: about x is not known: `get x` in namespace team failed: it is slow",
    ]


def test_priority_classes_are_no_matter_of_a_pod(cluster: SmallCluster, tmp_path: Path) -> None:
    """They decide which pods are admitted, and not where these run."""
    forbid(cluster, "/apis/scheduling.k8s.io/v1/")
    cluster.add(node("a"), pod())
    assert cluster.why("train-0", priorities(tmp_path)).missing == ()


@pytest.mark.parametrize("sees_nodes", [True, False])
def test_nobody_is_refused_by_the_rule_of_priority_classes_while_these_are_unknown(
    cluster: SmallCluster, tmp_path: Path, sees_nodes: bool
) -> None:
    """The class that pods get without naming one is the default of the cluster, which may be allowed."""
    policies, top = priorities(tmp_path), named(workload(), "job")
    cluster.add(node("a"), top)
    if not sees_nodes:
        forbid(cluster, "/api/v1/nodes")
    assert str(cluster.why("job/job", policies).explanation.code) == "Refused"
    forbid(cluster, "/apis/scheduling.k8s.io/v1/")
    answer = cluster.why("job/job", policies)
    assert str(answer.explanation.code) == "NoPods"
    (missing,) = [one for one in answer.missing if one.resource != "nodes"]
    assert str(missing) == (
        "to know whether the rule priorityClass refuses its pods, you need "
        "`list priorityclasses.scheduling.k8s.io` in the cluster"
    )

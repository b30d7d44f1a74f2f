"""Why the pods of a whole cluster are Pending, for audits."""

from collections.abc import Iterable
from typing import Any

from tests.why.samples import POLICIES, node, pod
from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.documents import Document
from webhook.audit.owners import Owners
from webhook.audit.report import PendingPods
from webhook.facts.facts import ClusterFacts
from webhook.why.waiting_pods import MOST_GROUPS, WaitingPods

NODES = (node("a", 4),)


def explained(raws: Iterable[dict[str, Any]], scope: NamespaceScope = NamespaceScope()) -> tuple[PendingPods, ...]:  # noqa: B008  # a value
    waiting, facts = WaitingPods(POLICIES, scope), ClusterFacts.of(NODES)
    for one in NODES:
        waiting.add_node(one)
    documents = [Document("", number, 0, raw) for number, raw in enumerate(raws)]
    assert list(waiting.passing(documents, Owners(), facts)) == documents
    return waiting.explained(facts, 0.0)


def owned(name: str, namespace: str = "team", **more: Any) -> dict[str, Any]:
    raw = pod(2, name, **more)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    raw["metadata"] |= {"namespace": namespace, "ownerReferences": [reference]}
    return raw


def test_pods_of_one_owner_with_one_reason_are_told_once() -> None:
    """Running pods count as usage, whether they come before or after the Pending ones."""
    running = pod(3, "holder", nodeName="a", status={"phase": "Running"})
    (found,) = explained([*[owned(f"train-{number:02}") for number in range(20)], running, pod(0, "web")])
    assert (found.owner.title, found.reason, found.pods.count) == ("Job team/train", "Busy", 20)
    assert found.pods.names == ("train-00", "train-01", "train-02", "train-03", "train-04")
    assert "1 of 4 nvidia.com/gpu" in found.message


def test_the_gravest_reason_comes_first() -> None:
    lost = owned("lost", nodeSelector={"no": "where"})
    image = owned(
        "image",
        nodeName="a",
        status={"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
    )
    assert [one.reason for one in explained([image, lost])] == ["FitsNowhere", "ImageFailing"]


def test_of_a_part_of_the_namespaces_nobody_says_what_is_free() -> None:
    """Pods of the other namespaces may hold the rest."""
    running = pod(3, "holder", nodeName="a", status={"phase": "Running"})
    (found,) = explained([running, owned("train-0")], NamespaceScope(("team",)))
    assert found.reason == "NotScheduled"


def test_no_namespace_keeps_another_one_from_its_answer() -> None:
    """Neither by the number of its pods nor by their size; what was not looked at is counted."""
    many = [
        owned(f"p{number}", "evil", schedulerName=f"s{number}")
        | {"status": {"phase": "Pending", "reason": str(number)}}
        for number in range(MOST_GROUPS + 50)
    ]
    large = owned("large", "large")
    large["metadata"]["annotations"] = {"a": "x" * 2**20}
    found = {
        (one.owner.title, one.reason): one.pods.count
        for one in explained([*many, large, owned("train-0", nodeSelector={"no": "where"})])
    }
    assert found["Namespace evil", "Unknown"] == 50
    assert found["Namespace large", "Unknown"] == 1
    assert found["Job team/train", "FitsNowhere"] == 1


def test_queues_are_not_asked_so_a_pod_that_waits_in_one_says_what_it_says_itself() -> None:
    said = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "team-a is over its limit"}]}
    gated = pod(2, "gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    kai = pod(2, "kai", schedulerName="kai-scheduler", status=said)
    found = {one.pods.names[0]: (one.reason, one.message) for one in explained([gated, kai])}
    assert found == {
        "gated": ("Queued", "Kueue holds it back; it does not say why"),
        "kai": ("Queued", "KAI holds it back: team-a is over its limit"),
    }


def test_a_launcher_without_gpus_is_not_told_beside_its_workers() -> None:
    """docs/audit.md says so, and that `gpu-policy why` counts it."""
    launcher = owned("launcher")
    launcher["spec"]["containers"][0]["resources"] = {}
    (found,) = explained([launcher, owned("worker-0", nodeSelector={"no": "where"})])
    assert found.pods.names == ("worker-0",)

"""A real API server and a real scheduler as judges of the corpus of manifests."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.corpus import Manifest, facts_of, objects_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import change, remove_node
from webhook import engine
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Outcome
from webhook.policy.policy_set import Policy

Raw = dict[str, Any]

COPIES = 20
"""Of each node, so that as many pods find a node of their own at the same time, whatever others take."""
_ELSEWHERE = ("schedulerName", "priorityClassName", "priority", "serviceAccountName", "serviceAccount")
"""Fields of a pod spec that name objects or programs which are not here."""
_CLAIMED = ("persistentVolumeClaim", "ephemeral")


@dataclass(frozen=True)
class Candidate:
    """A pod as the engine completes it, and what is said of it."""

    title: str
    written: Raw
    outcome: Outcome

    @property
    def completed(self) -> Mapping[str, Any]:
        """The pod that would be created."""
        return self.outcome.object

    @property
    def unschedulable(self) -> str:
        """What `schedulable` says; empty where nothing."""
        return " ".join(str(one) for one in self.outcome.findings if one.rule == "schedulable")

    @property
    def is_left_to_the_scheduler(self) -> bool:
        """Whether nothing else decides where the pod runs: no queue, gate, name, claim, class, share or other pod."""
        pod, spec = pod_from_raw(self.completed), self.completed["spec"]
        affinity = spec.get("affinity") or {}
        near = any((affinity.get(key) or {}).get(_REQUIRED) for key in ("podAffinity", "podAntiAffinity"))
        spread = any(one.get("whenUnsatisfiable") != "ScheduleAnyway" for one in _items(spec, _SPREAD))
        decided = spec.get("nodeName") or spec.get("schedulingGates") or spec.get("resourceClaims")
        decided = decided or any(term.fields for term in pod.required or ()) or pod.is_held
        decided = decided or any(gpu.by_dra for gpu in pod.accelerators)
        return not (near or spread or decided or any(one.asks_gpu_attributes for one in pod.containers))


_REQUIRED, _SPREAD = "requiredDuringSchedulingIgnoredDuringExecution", "topologySpreadConstraints"


def candidates(corpus: Sequence[Manifest], cluster: str, policy: Policy) -> Iterator[Candidate]:
    """The GPU pods of the corpus that a server can be asked about."""
    number = 0
    for manifest in corpus:
        for template in manifest.templates():
            number += 1
            if template.unknown or template.is_per_node or template.is_queued:
                continue
            written = _alone(template.pod, f"m{number}")
            try:
                asks = bool(pod_from_raw(written, policy.accelerators).gpus)
            except ValueError:
                continue
            if asks:
                outcome = engine.simulate(written, policy, facts_of(cluster))
                yield Candidate(f"{manifest.name} {template.group}".strip(), written, outcome)


def _alone(pod: Mapping[str, Any], name: str) -> Raw:
    """The pod without what stands for other objects, which are not here."""
    found = pod.get("metadata") or {}
    metadata = {key: value for key, value in found.items() if key in ("labels", "annotations") and value}
    spec = {key: value for key, value in pod["spec"].items() if key not in _ELSEWHERE}
    if spec.get("volumes"):
        spec["volumes"] = [_emptied(volume) for volume in spec["volumes"]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def _emptied(volume: Raw) -> Raw:
    return {"name": volume["name"], "emptyDir": {}} if any(key in volume for key in _CLAIMED) else volume


def _items(spec: Mapping[str, Any], key: str) -> list[Raw]:
    return list(spec.get(key) or [])


@contextmanager
def standing(plane: ControlPlane, cluster: str) -> Iterator[None]:
    """The nodes of a cluster, each `COPIES` times, and its RuntimeClasses, as long as the block runs."""
    objects = objects_of(cluster)
    nodes = [_copy(one, number) for one in objects if one["kind"] == "Node" for number in range(COPIES)]
    classes = [one for one in objects if one["kind"] == "RuntimeClass"]
    try:
        for one in classes:
            _demand(plane, "/apis/node.k8s.io/v1/runtimeclasses", one)
        for node in nodes:
            _demand(plane, "/api/v1/nodes", {"metadata": node["metadata"]})
            change(plane, node["metadata"]["name"], {"status": node["status"]}, subresource="/status")
            change(plane, node["metadata"]["name"], {"spec": {"taints": node["spec"].get("taints", [])}})
        yield
    finally:
        for one in classes:
            plane.raw("DELETE", f"/apis/node.k8s.io/v1/runtimeclasses/{one['metadata']['name']}")
        for node in nodes:
            remove_node(plane, node["metadata"]["name"])


def _copy(node: Raw, number: int) -> Raw:
    """The node itself, or another that is called differently."""
    name = f"{node['metadata']['name']}-{number}" if number else node["metadata"]["name"]
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name}
    return {**node, "metadata": {"name": name, "labels": labels}}


def _demand(plane: ControlPlane, path: str, body: Mapping[str, Any]) -> None:
    status, answer = plane.raw("POST", path, body)
    assert status == 201, answer


class Judges:
    """The API server and the scheduler, in one namespace that has no webhook."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def complaint(self, pod: Mapping[str, Any]) -> str:
        """What the API server has against a pod; empty where it would take it."""
        status, answer = self._plane.raw("POST", f"{self._path}?dryRun=All", pod)
        return "" if status == 201 else str(answer["message"])

    def pending(self, pods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Create pods and await that each is either bound or found to be unschedulable while no other is on a node:
        name of those -> what the scheduler says.
        """
        with self._created(pods):
            eventually(lambda: all(_node(pod) or _reason(pod) for pod in self._found()))
            return self._unbound()

    def bound(self, pods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Create no more pods than there are copies of each node, and await that all are bound; name of those that are
        not after a while -> what the scheduler says.
        """
        assert len(pods) <= COPIES
        with self._created(pods):
            with suppress(AssertionError):
                eventually(lambda: all(map(_node, self._found())), seconds=30)
            return self._unbound()

    @contextmanager
    def _created(self, pods: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        for pod in pods:
            _demand(self._plane, self._path, pod)
        yield
        self._plane.raw("DELETE", f"{self._path}?gracePeriodSeconds=0")
        eventually(lambda: not self._found())

    def _unbound(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: _reason(pod) for pod in self._found() if not _node(pod)}

    def _found(self) -> list[Raw]:
        return list(self._plane.raw("GET", self._path)[1]["items"])


def _node(pod: Raw) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _reason(pod: Raw) -> str:
    """Why the scheduler finds no node; empty before it has looked."""
    conditions = pod.get("status", {}).get("conditions") or []
    return next((one["message"] for one in conditions if one.get("reason") == "Unschedulable"), "")

"""One namespace of a real cluster on which situations are staged for `gpu-policy why`, and the parts of their pods."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.custom_kinds import CustomKind
from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod

Raw = dict[str, Any]

KUEUE = CustomKind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
KAI = CustomKind("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups")
VOLCANO = CustomKind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
JOB_SET = CustomKind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
MPI_JOB = CustomKind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
KINDS = (KUEUE, KAI, VOLCANO, JOB_SET, MPI_JOB)


@dataclass(frozen=True)
class Stage:
    """One namespace of a real cluster."""

    plane: ControlPlane
    namespace: str

    def create(self, raw: Raw, path: str = "") -> Raw:
        """Create an object, and return it as it is stored."""
        version = raw["apiVersion"]
        api = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        plural = path or f"{raw['kind'].lower()}s"
        status, stored = self.plane.raw("POST", f"{api}/namespaces/{self.namespace}/{plural}", raw)
        assert status == 201, stored
        return dict(stored)

    def get(self, plural: str, name: str, api: str = "/api/v1") -> Raw:
        """An object as it is stored."""
        return dict(self.plane.raw("GET", f"{api}/namespaces/{self.namespace}/{plural}/{name}")[1])

    def set_status(self, name: str, **status: Any) -> str:
        """Write the status of a pod, as its kubelet would; returns its name."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        code, answer = self.plane.raw("PATCH", path, {"status": status})
        assert code == 200, answer
        return name

    def event(
        self, about: Raw, reason: str, message: str, kind: str = "Warning", at: str = "2026-11-01T10:00:00Z"
    ) -> None:
        """Write an event about an object."""
        reference = {"kind": about["kind"], "namespace": self.namespace, "name": about["metadata"]["name"]}
        metadata = {"generateName": "seen-", "namespace": self.namespace}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": metadata,
            "involvedObject": {**reference, "uid": about["metadata"]["uid"]},
            "reason": reason,
            "message": message,
            "type": kind,
            "lastTimestamp": at,
            "source": {"component": "staged"},
        }
        self.create(body, "events")

    def has_event(self, reason: str) -> bool:
        """Whether there is an event of this reason in the namespace."""
        found = self.plane.raw("GET", f"/api/v1/namespaces/{self.namespace}/events")[1]["items"]
        return any(one["reason"] == reason for one in found)

    def forget_events(self) -> None:
        """Delete the events, as the API server does after an hour. Controllers that try again write new ones."""
        self.plane.raw("DELETE", f"/api/v1/namespaces/{self.namespace}/events")

    def unscheduled(self, name: str) -> str:
        """The pod, after the scheduler has said that it finds no node."""
        eventually(
            lambda: any(
                one.get("reason") == "Unschedulable" for one in self.get("pods", name)["status"].get("conditions", ())
            )
        )
        return name


@dataclass(frozen=True)
class Situation:
    """`stage` makes it and returns what to ask about; `reason` is the answer, whose texts have all of `said`.

    `prefix` is the beginning of the namespace's name.
    """

    id: str
    stage: Callable[[Stage], str]
    reason: str
    said: tuple[str, ...]
    prefix: str = "explained"
    is_forgotten: bool = False
    """Whether events are gone when the question comes."""


def bound(stage: Stage, name: str, node: str, phase: str = "Running", **status: Any) -> Raw:
    """A pod on a node, with a status."""
    stored = stage.create(gpu_pod(name, 1, nodeName=node))
    stage.set_status(name, phase=phase, **status)
    return stored


def waiting(reason: str, message: str = "", **more: Any) -> list[Raw]:
    """The status of a container that waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return [
        {
            "name": "main",
            "image": "registry.example/trainer:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
            **more,
        }
    ]


def running(*, ready: bool = True) -> list[Raw]:
    """The status of a container that runs."""
    state = {"running": {"startedAt": "2026-11-01T10:00:00Z"}}
    return [
        {
            "name": "main",
            "image": "registry.example/trainer:1",
            "imageID": "x",
            "ready": ready,
            "restartCount": 0,
            "state": state,
            "started": True,
        }
    ]


def is_ready(status: str = "True") -> list[Raw]:
    """The condition of a pod that is ready, or not."""
    return [
        {
            "type": "Ready",
            "status": status,
            "message": "" if status == "True" else "containers with unready status: [main]",
        }
    ]

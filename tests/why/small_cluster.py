"""A cluster of a few objects behind a fake API server, for what `gpu-policy why` reads and concludes as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.facts.fake_api_server import FakeApiServer, Request, always, fake_api_server
from tests.facts.served_kinds import aggregated
from webhook.kubernetes.api_server import ApiServer
from webhook.policy.policy_set import PolicySet
from webhook.why.explanation import Answer, MissingAnswer
from webhook.why.gathering import explain

Raw = dict[str, Any]

SERVED = {
    "": [("v1", {"Pod": "pods"})],
    "apps": [("v1", {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"})],
    "batch": [("v1", {"CronJob": "cronjobs", "Job": "jobs"})],
    "jobset.x-k8s.io": [("v1alpha2", {"JobSet": "jobsets"})],
    "kubeflow.org": [("v2beta1", {"MPIJob": "mpijobs"}), ("v1", {"PyTorchJob": "pytorchjobs"})],
    "kueue.x-k8s.io": [("v1beta2", {"Workload": "workloads"})],
    "scheduling.k8s.io": [("v1beta1", {"PodGroup": "podgroups"})],
}
"""Group -> versions with the kinds that the cluster serves."""
_PLURALS = {kind: plural for versions in SERVED.values() for _, kinds in versions for kind, plural in kinds.items()}


class SmallCluster:
    """Objects of namespace team, nodes, and events about the objects."""

    def __init__(self, server: FakeApiServer, directory: Path) -> None:
        self.server, self._directory = server, directory
        self.events: list[Raw] = []
        self._by_path: dict[str, list[Raw]] = {}
        server.instead["/version"] = always(200, {"major": "1", "minor": "36"})
        server.instead["/api"] = server.instead["/apis"] = aggregated(SERVED)
        server.under["/"] = self._answer

    def add(self, *raws: Raw) -> None:
        for raw in raws:
            version, kind = raw.get("apiVersion", "v1"), raw.get("kind", "Node")
            api = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            place = "/nodes" if kind == "Node" else f"/namespaces/team/{_PLURALS[kind]}"
            self._by_path.setdefault(api + place, []).append(raw)

    def say(self, about: Raw, reason: str, message: str, last: str = "2026-11-01T10:00:00Z") -> None:
        kind = "Normal" if reason.startswith("Success") else "Warning"
        self.events.append(
            {
                "metadata": {"name": f"e{len(self.events)}", "namespace": "team"},
                "involvedObject": {"uid": about["metadata"]["uid"]},
                "reason": reason,
                "message": message,
                "type": kind,
                "lastTimestamp": last,
            }
        )

    def why(self, target: str, policies: PolicySet | MissingAnswer) -> Answer:
        return explain(ApiServer(self.server.kubeconfig(self._directory)), target, "team", policies)

    def asked(self, part: str) -> int:
        """How often a path with these letters was asked for."""
        return sum(part in path for path, _ in self.server.seen)

    def _answer(self, request: Request, path: str, query: dict[str, str]) -> None:
        folder, _, name = path.rpartition("/")
        named = [raw for raw in self._by_path.get(folder, ()) if raw["metadata"]["name"] == name]
        if "limit" not in query:
            request.send(200 if named else 404, named[0] if named else {"message": "not found"})
            return
        found = self._by_path.get(path, [])
        if path.endswith("/events"):
            uid = query.get("fieldSelector", "").removeprefix("involvedObject.uid=")
            found = [raw for raw in self.events if raw["involvedObject"]["uid"] == uid]
        elif path == "/api/v1/pods":
            found = [raw for key, raws in self._by_path.items() if key.endswith("/pods") for raw in raws]
            node = query.get("fieldSelector", "").partition("spec.nodeName=")[2].partition(",")[0]
            found = [raw for raw in found if node in ("", raw["spec"].get("nodeName"))]
        if "PartialObjectMetadataList" in request.headers["accept"]:
            found = [{"metadata": raw["metadata"]} for raw in found]
        request.send(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": found})


@contextmanager
def small_cluster(directory: Path) -> Iterator[SmallCluster]:
    with fake_api_server() as server:
        yield SmallCluster(server, directory)


def owned_by(owner: Raw, raw: Raw) -> Raw:
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [{**reference, "controller": True}]}}


def named(raw: Raw, name: str, **metadata: Any) -> Raw:
    """The object under another name, which is its uid as well."""
    return {**raw, "metadata": {**raw["metadata"], "name": name, "uid": name, "namespace": "team", **metadata}}

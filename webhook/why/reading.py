"""Reads a cluster with the rights of whoever asks. What cannot be read is noted, with the right that is missing.

Lists are read in pages, and never kept whole unless the caller keeps them.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote
from uuid import NAMESPACE_URL, uuid5

from webhook.audit.quota_report import quotas_in_use
from webhook.audit.report import ObjectReference
from webhook.engine.quota_usage import statuses
from webhook.kubernetes.api_errors import AnswerError, ApiServerError, RefusedError
from webhook.kubernetes.api_paths import segment
from webhook.kubernetes.api_server import JSON
from webhook.kubernetes.discovery import NODES, ApiResource, Discovery
from webhook.kubernetes.paged_list import Gets, Listed, PagedList, RetryingReader
from webhook.ledger.inventory import OBJECT_KINDS
from webhook.ledger.ledger_store import GpuPod
from webhook.model.json_parts import mapped, text
from webhook.policy.policy_set import PolicySet
from webhook.policy.show import PolicyStatuses
from webhook.why.explanation import MissingAnswer
from webhook.why.observed import SeenEvent

SECONDS = 15.0
"""Longest pause within an answer."""
_PAGE = 250
EVENTS = ApiResource("", "v1", "Event", "events", is_namespaced=True)
_BUSY_SECONDS = 2.0
"""Longest wait before a request is repeated: somebody waits at a terminal."""


class ClusterReader:
    """The API server, and everything that it did not say."""

    def __init__(self, server: Gets) -> None:
        self._gets = RetryingReader(server, lambda seconds: time.sleep(min(seconds, _BUSY_SECONDS)))
        self._discovery = Discovery(self._gets)
        self._missing: dict[tuple[str, str, str], MissingAnswer] = {}

    @property
    def missing(self) -> tuple[MissingAnswer, ...]:
        """What could not be read, each right once."""
        return tuple(one for one in self._missing.values() if one.unknown)

    def get(self, resource: ApiResource, namespace: str, name: str, unknown: str) -> dict[str, Any] | None:
        """An object; None where there is none, or where it cannot be read. `unknown` is what it would tell."""
        try:
            found = self._gets.get(f"{resource.path(namespace)}/{segment(name)}", {}, SECONDS)
        except ApiServerError as error:
            if error.status != 404:
                self._note("get", str(resource), namespace, unknown, error)
            return None
        return _typed(found, resource)

    def items(  # noqa: PLR0913  # all that a list is asked by
        self,
        resource: ApiResource | None,
        namespace: str,
        unknown: str,
        *,
        selector: str = "",
        labels: str = "",
        accept: str = JSON,
    ) -> Iterator[dict[str, Any]]:
        """The objects of a kind, as they arrive, without managed fields. A fault ends the list, and is noted.

        Nobody misses what a list without an `unknown` would tell. A cluster has no objects of a kind that is None.
        """
        if resource is None:
            return
        listed = Listed(resource.path(namespace), _PAGE, selector, accept, labels, goes_on=True)
        try:
            for raw in PagedList(self._gets, listed, lambda: SECONDS):
                if isinstance(raw, dict) and isinstance(raw.get("metadata"), dict):
                    yield _typed(raw, resource)
        except ApiServerError as error:
            self._note("list", str(resource), namespace, unknown, error)

    def find(self, group: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None where the cluster has none, or does not say, which is noted."""
        try:
            return self._discovery.find(group, kind)
        except ApiServerError as error:
            place = f"/apis/{group}" if group else "/api"
            unknown = f"whether the cluster has {kind} and other kinds of {group or 'Kubernetes'}"
            self._missing.setdefault(("get", place, ""), MissingAnswer("get", place, "", unknown, str(error)))
            return None

    def _note(self, verb: str, resource: str, namespace: str, unknown: str, error: ApiServerError) -> None:
        fault = "" if error.status == 403 else str(error)
        self._missing.setdefault((verb, resource, namespace), MissingAnswer(verb, resource, namespace, unknown, fault))

    def is_missing(self, verb: str, resource: str, namespace: str = "") -> bool:
        return (verb, resource, namespace) in self._missing

    def events(self, abouts: Iterable[ObjectReference]) -> tuple[SeenEvent, ...]:
        """The newest event of each reason about these objects, the newest first."""
        newest: dict[tuple[str, str], SeenEvent] = {}
        for about in abouts:
            selector = f"involvedObject.uid={about.uid}" if about.uid else f"involvedObject.name={about.name}"
            found = self.items(EVENTS, about.namespace, "what controllers and nodes said of it", selector=selector)
            for raw in found:
                event = SeenEvent.of(raw, about)
                known = newest.setdefault((about.uid, event.reason), event)
                if event.last >= known.last:
                    newest[about.uid, event.reason] = event
        return tuple(sorted(newest.values(), key=lambda event: event.last, reverse=True))


def _typed(raw: dict[str, Any], resource: ApiResource) -> dict[str, Any]:
    metadata = {key: value for key, value in mapped(raw, "metadata").items() if key != "managedFields"}
    return {**raw, "metadata": metadata, "apiVersion": resource.api_version, "kind": resource.kind}


_OF_THE_CLUSTER = {*OBJECT_KINDS, "Namespace"} - {"Pod", "ResourceClaim", "ResourceClaimTemplate"}
_SHORT = {"cronjobs": "cj", "daemonsets": "ds", "deployments": "deploy", "replicasets": "rs", "statefulsets": "sts"}
"""Short names of Kubernetes itself (kubernetes/kubernetes pkg/registry)."""


class InventoryServer:
    """Answers requests for the objects of a file as an API server does.

    Objects without a uid get one. A file without nodes or events says nothing of them; of other kinds it has all.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], tuple[str, str]] = {("", "pods"): ("v1", "Pod")}
        self._objects: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)

    def now(self) -> float:
        return time.time()

    def add(self, kind: str, raw: Any) -> None:
        """Learn an object, as `read_inventory` hands it out."""
        group, _, version = text(raw, "apiVersion").rpartition("/")
        metadata, resource = mapped(raw, "metadata"), f"{kind.lower()}s"
        if not metadata.get("name"):
            return
        namespace = {} if kind in _OF_THE_CLUSTER else {"namespace": metadata.get("namespace") or "default"}
        made = str(uuid5(NAMESPACE_URL, f"{resource}/{namespace.get('namespace', '')}/{metadata['name']}"))
        self._kinds.setdefault((group, resource), (version or "v1", kind))
        metadata = {**metadata, **namespace, "uid": metadata.get("uid") or made}
        self._objects[group, resource].append({**raw, "metadata": metadata})

    def add_statuses(self, policies: PolicySet, pods: Iterable[GpuPod]) -> None:
        """What the replicas would show of these policies and pods: usage of quotas, and exceptions."""
        pods = list(pods)
        shown = PolicyStatuses(policies)
        found = [("GPUQuota", *place, status) for place, status in statuses(quotas_in_use(policies, pods)).items()]
        names = {pod.namespace for pod in pods} | set(policies.names)
        found += [("EffectiveGPUPolicy", name, "effective", shown.of(name)) for name in sorted(names)]
        for kind, namespace, name, status in found:
            metadata = {"namespace": namespace, "name": name}
            self.add(kind, {"apiVersion": "gpupolicy.dev/v1alpha1", "metadata": metadata, "status": status})

    def get(self, path: str, query: Mapping[str, str], seconds: float, accept: str = JSON) -> dict[str, Any]:  # noqa: ARG002  # the contract
        root, *parts = map(unquote, path.strip("/").split("/"))
        if not parts:
            return {"kind": "APIGroupDiscoveryList", "items": [self._served(*one) for one in self._kinds.items()]}
        group, (_, *rest) = ("", parts) if root == "api" else (parts[0], parts[1:])
        namespace, rest = (rest[1], rest[2:]) if rest[0] == "namespaces" and len(rest) > 2 else ("", rest)
        found = self._objects[group, rest[0]]
        if not found and rest[0] in (NODES.name, EVENTS.name):
            raise AnswerError(f"the file has no {rest[0]}")
        found = [one for one in found if namespace in ("", text(one, "metadata", "namespace"))]
        if len(rest) == 1:
            return {"metadata": {"resourceVersion": "1"}, "items": [one for one in found if _is_selected(one, query)]}
        named = [one for one in found if text(one, "metadata", "name") == rest[1]]
        if not named:
            raise RefusedError(404, f"there is no {rest[1]}")
        return named[0]

    @staticmethod
    def _served(resource: tuple[str, str], kind: tuple[str, str]) -> dict[str, Any]:
        scope = "Cluster" if kind[1] in _OF_THE_CLUSTER else "Namespaced"
        one = {"resource": resource[1], "responseKind": {"kind": kind[1]}, "scope": scope, "verbs": ["list"]}
        one["shortNames"] = [_SHORT.get(resource[1], "")]
        return {"metadata": {"name": resource[0]}, "versions": [{"version": kind[0], "resources": [one]}]}


def _is_selected(raw: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Whether the selectors of a query, which know `=` and `!=`, select an object."""
    for one in filter(None, query.get("fieldSelector", "").split(",")):
        key, _, value = one.partition("=")
        if (text(raw, *key.rstrip("!").split(".")) == value) is key.endswith("!"):
            return False
    labels = [one.partition("=") for one in filter(None, query.get("labelSelector", "").split(","))]
    return all(text(raw, "metadata", "labels", key) == value for key, _, value in labels)

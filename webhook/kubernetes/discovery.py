"""The kinds that an API server serves, and their versions, from one answer for each of /api and /apis."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import path_of, segment
from webhook.kubernetes.api_server import JSON
from webhook.kubernetes.paged_list import Gets
from webhook.model.json_parts import listed, part

_SECONDS = 30.0
_LIST = "APIGroupDiscoveryList"
_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as={_LIST}" for version in ("v2", "v2beta1")
)


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind that can be listed, in the version that the API server prefers."""

    group: str
    version: str
    kind: str
    name: str
    is_namespaced: bool
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "") -> str:
        """The path of its list in one namespace, or without a name in the whole cluster."""
        api = "/".join([_root(self.group), *map(segment, filter(None, (self.group, self.version)))])
        return path_of(api, self.name, namespace=namespace or None)

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


PODS = ApiResource("", "v1", "Pod", "pods", True)


@dataclass(slots=True)
class _Served:
    """What is served below /api or /apis; `fault` says why nothing is known of it."""

    kinds: dict[tuple[str, str], ApiResource] = field(default_factory=dict)
    """Group and kind -> resource."""
    faults: dict[str, str] = field(default_factory=dict)
    """Group -> why some of its kinds are not known."""
    fault: str = ""


class Discovery:
    """The kinds that an API server serves and can list. They are read when first needed, and kept."""

    def __init__(self, server: Gets) -> None:
        self._server = server
        self._roots: dict[str, _Served] = {}

    def find(self, group: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None where the API server has no such kind.

        Raises ApiServerError where the kinds of the group are not known, for example if its own API server is down. The
        text names the group and says why.
        """
        root = _root(group)
        if root not in self._roots:
            self._roots[root] = self._ask(root)
        served = self._roots[root]
        resource = served.kinds.get((group, kind))
        if resource is None and (fault := served.fault or served.faults.get(group)):
            raise ApiServerError(fault)
        return resource

    def _ask(self, root: str) -> _Served:
        try:
            answer = self._server.get(root, {}, _SECONDS, f"{_AGGREGATED},{JSON}")
        except ApiServerError as error:
            remedy = "; the ClusterRole system:discovery allows it" if error.status == 403 else ""
            return _Served(fault=f"what the API server serves is not known: GET {root}: {error}{remedy}")
        if answer.get("kind") != _LIST:
            return _Served(fault=f"what the API server serves is not known: GET {root}: the answer is no {_LIST}")
        return _served(answer)


def _root(group: str) -> str:
    return "/apis" if group else "/api"


def _served(answer: Mapping[str, Any]) -> _Served:
    """What an answer with all groups says; of several versions of a kind, the first one holds."""
    served = _Served()
    for item in listed(answer, "items"):
        group = _text(item, "metadata", "name")
        for found in listed(item, "versions"):
            version = _text(found, "version")
            resources = list(_resources(found, group, version))
            for resource in resources:
                served.kinds.setdefault((group, resource.kind), resource)
            if not resources and part(found, "freshness") == "Stale":
                served.faults.setdefault(
                    group,
                    f"what the API group {group or 'v1'} serves as {version} is not known: the API server that "
                    "serves it does not answer (kubectl get apiservices)",
                )
    return served


def _resources(found: object, group: str, version: str) -> Iterator[ApiResource]:
    """The kinds of one version that can be listed."""
    for one in listed(found, "resources"):
        kind = _text(one, "responseKind", "kind")
        if kind and "list" in listed(one, "verbs"):
            names = tuple(name for name in listed(one, "shortNames") if isinstance(name, str))
            is_namespaced = part(one, "scope") == "Namespaced"
            yield ApiResource(group, version, kind, _text(one, "resource"), is_namespaced, names)


def _text(raw: object, *path: str) -> str:
    found = part(raw, *path)
    return found if isinstance(found, str) else ""

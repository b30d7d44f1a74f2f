"""The kinds that an API server serves, and their versions, from one answer for each of /api and /apis."""

from dataclasses import dataclass

from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import path_of, segment
from webhook.kubernetes.api_server import JSON
from webhook.kubernetes.paged_list import Gets
from webhook.model.json_parts import listed, text

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


NODES = ApiResource("", "v1", "Node", "nodes", is_namespaced=False)
PODS = ApiResource("", "v1", "Pod", "pods", True, ("po",))


class Discovery:
    """The kinds that an API server serves and can list. They are read when first needed, and kept."""

    def __init__(self, server: Gets) -> None:
        self._server = server
        self._asked: dict[str, str] = {}
        """/api and /apis as far as they were asked -> why nothing is known of their kinds; empty if they are known."""
        self._kinds: dict[tuple[str, str], ApiResource] = {}
        """Group and kind -> resource, in the first of several versions."""
        self._faults: dict[str, str] = {}
        """Group -> why some of its kinds are not known."""

    def find(self, group: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None where the API server has no such kind.

        Raises ApiServerError where the kinds of the group are not known, for example if its own API server is down. The
        text names the group and says why.
        """
        root = _root(group)
        if root not in self._asked:
            self._asked[root] = self._ask(root)
        resource = self._kinds.get((group, kind))
        if resource is None and (fault := self._asked[root] or self._faults.get(group)):
            raise ApiServerError(fault)
        return resource

    def _ask(self, root: str) -> str:
        """Learn all groups from one answer; returns why nothing is known of them, or an empty text."""
        unknown = f"what the API server serves is not known: GET {root}"
        try:
            answer = self._server.get(root, {}, _SECONDS, f"{_AGGREGATED},{JSON}")
        except ApiServerError as error:
            return f"{unknown}: {error}" + (
                "; the ClusterRole system:discovery allows it" if error.status == 403 else ""
            )
        if answer.get("kind") != _LIST:
            return f"{unknown}: the answer is no {_LIST}"
        for item in listed(answer, "items"):
            for version in listed(item, "versions"):
                self._learn(text(item, "metadata", "name"), version)
        return ""

    def _learn(self, group: str, raw: object) -> None:
        version, is_stale = text(raw, "version"), text(raw, "freshness") == "Stale"
        for one in listed(raw, "resources"):
            kind = text(one, "responseKind", "kind")
            if kind and "list" in listed(one, "verbs"):
                is_stale = False
                names = tuple(name for name in listed(one, "shortNames") if isinstance(name, str))
                is_namespaced = text(one, "scope") == "Namespaced"
                found = ApiResource(group, version, kind, text(one, "resource"), is_namespaced, names)
                self._kinds.setdefault((group, kind), found)
        if is_stale:
            self._faults.setdefault(
                group,
                f"what the API group {group or 'v1'} serves as {version} is not known: the API server that serves it "
                "does not answer (kubectl get apiservices)",
            )


def _root(group: str) -> str:
    return "/apis" if group else "/api"

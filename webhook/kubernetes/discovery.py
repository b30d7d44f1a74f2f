"""The kinds that an API server serves, and their versions.

They take two requests where one answer has all groups (Kubernetes 1.27 and newer), else one request for each version of
the groups that are looked up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.kubernetes.api_errors import AnswerError, ApiServerError
from webhook.kubernetes.api_paths import path_of, segment
from webhook.kubernetes.api_server import JSON
from webhook.kubernetes.paged_list import Gets

_SECONDS = 30.0
_AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
_NO_QUERY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind that can be listed, in the version that the API server prefers."""

    group: str
    version: str
    kind: str
    name: str
    is_namespaced: bool

    @property
    def api_version(self) -> str:
        """The apiVersion of objects of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "") -> str:
        """The path of its list in one namespace, or without a name in the whole cluster."""
        return path_of(_api(self.group, self.version), self.name, namespace=namespace or None)

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


PODS = ApiResource("", "v1", "Pod", "pods", True)


@dataclass(slots=True)
class _Version:
    """One version of a group. `kinds` is None until the kinds are read; `fault` says why they are not known."""

    group: str
    name: str
    kinds: dict[str, ApiResource] | None = None
    fault: str = ""


@dataclass(slots=True)
class _Groups:
    """The groups below /api or /apis."""

    versions: dict[str, list[_Version]] = field(default_factory=dict)
    fault: str = ""


class Discovery:
    """The kinds that an API server serves and can list. They are read when first needed, and kept."""

    def __init__(self, server: Gets) -> None:
        self._server = server
        self._roots: dict[str, _Groups] = {}

    def find(self, group: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None where the API server has no such kind.

        Raises ApiServerError where the kinds of the group are not known, for example if its own API server is down. The
        text names the group and says why.
        """
        groups = self._groups(group)
        if groups.fault:
            raise ApiServerError(groups.fault)
        fault = ""
        for version in groups.versions.get(group, ()):
            resource = self._kinds(version).get(kind)
            if resource is not None:
                return resource
            fault = fault or version.fault
        if fault:
            raise ApiServerError(fault)
        return None

    def _groups(self, group: str) -> _Groups:
        root = _root(group)
        if root not in self._roots:
            self._roots[root] = self._ask_for_groups(root)
        return self._roots[root]

    def _ask_for_groups(self, root: str) -> _Groups:
        try:
            try:
                answer = self._server.get(root, _NO_QUERY, _SECONDS, f"{_AGGREGATED},{JSON}")
            except AnswerError as error:
                if not error.is_too_long:
                    raise
                answer = self._server.get(root, _NO_QUERY, _SECONDS)
        except ApiServerError as error:
            return _Groups(fault=f"what the API server serves is not known: GET {root}: {error}{_remedy(error)}")
        groups = _Groups()
        for version in _aggregated(answer) if answer.get("kind") == "APIGroupDiscoveryList" else _plain(answer):
            groups.versions.setdefault(version.group, []).append(version)
        return groups

    def _kinds(self, version: _Version) -> Mapping[str, ApiResource]:
        """Name -> kind of one version. Empty where the kinds are not known; the version then has a fault."""
        if version.kinds is None:
            path = _api(version.group, version.name)
            try:
                answer = self._server.get(path, _NO_QUERY, _SECONDS)
            except ApiServerError as error:
                version.fault = _not_known(version, f"GET {path}: {error}{_remedy(error)}")
                answer = {}
            version.kinds = _by_kind(_resources(answer, version))
        return version.kinds


def _root(group: str) -> str:
    return "/apis" if group else "/api"


def _api(group: str, version: str) -> str:
    """The path of the kinds of a version."""
    return "/".join([_root(group), *map(segment, filter(None, (group, version)))])


def _remedy(error: ApiServerError) -> str:
    return "; the ClusterRole system:discovery allows it" if error.status == 403 else ""


def _not_known(version: _Version, why: str) -> str:
    return f"what the API group {version.group or 'v1'} serves as {version.name} is not known: {why}"


def _aggregated(answer: Mapping[str, Any]) -> Iterator[_Version]:
    """The versions in an answer with all groups."""
    for group in _maps(answer, "items"):
        metadata = group.get("metadata")
        name = _text(metadata, "name") if isinstance(metadata, dict) else ""
        for found in _maps(group, "versions"):
            version = _Version(name, _text(found, "version"))
            version.kinds = _by_kind(_aggregated_resources(found, version))
            if not version.kinds and found.get("freshness") == "Stale":
                version.fault = _not_known(
                    version, "the API server that serves it does not answer (kubectl get apiservices)"
                )
            yield version


def _aggregated_resources(found: Mapping[str, Any], version: _Version) -> Iterator[ApiResource]:
    for one in _maps(found, "resources"):
        response = one.get("responseKind")
        kind = _text(response, "kind") if isinstance(response, dict) else ""
        if kind and _is_listed(one):
            is_namespaced = one.get("scope") == "Namespaced"
            yield ApiResource(version.group, version.name, kind, _text(one, "resource"), is_namespaced)


def _plain(answer: Mapping[str, Any]) -> Iterator[_Version]:
    """The versions in the answer of every Kubernetes to /api or /apis; preferred versions come first."""
    if answer.get("kind") == "APIVersions":
        versions = answer.get("versions")
        yield from (_Version("", name) for name in versions or () if isinstance(name, str))
    for group in _maps(answer, "groups"):
        preferred = group.get("preferredVersion")
        first = _text(preferred, "version") if isinstance(preferred, dict) else ""
        names = [_text(version, "version") for version in _maps(group, "versions")]
        yield from (_Version(_text(group, "name"), name) for name in sorted(names, key=lambda name: name != first))


def _resources(answer: Mapping[str, Any], version: _Version) -> Iterator[ApiResource]:
    for one in _maps(answer, "resources"):
        name = _text(one, "name")
        if "/" not in name and _is_listed(one):
            is_namespaced = one.get("namespaced") is True
            yield ApiResource(version.group, version.name, _text(one, "kind"), name, is_namespaced)


def _by_kind(resources: Iterator[ApiResource]) -> dict[str, ApiResource]:
    kinds: dict[str, ApiResource] = {}
    for resource in resources:
        kinds.setdefault(resource.kind, resource)
    return kinds


def _is_listed(resource: Mapping[str, Any]) -> bool:
    verbs = resource.get("verbs")
    return isinstance(verbs, list) and "list" in verbs


def _maps(found: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The maps in a list; missing and malformed parts are skipped."""
    values = found.get(key)
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else iter(())


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""

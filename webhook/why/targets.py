"""Finds the pod or workload that a name on the command line means, as kubectl writes names: `train-0`, `job/train`."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import METADATA_LIST
from webhook.kubernetes.discovery import PODS, ApiResource
from webhook.model.wording import closest, cut, few, hint
from webhook.model.workloads import WORKLOADS
from webhook.why.observed import Raw, text
from webhook.why.reading import ClusterReader

_SHORT_NAMES = {
    "cj": "cronjobs",
    "deploy": "deployments",
    "ds": "daemonsets",
    "isvc": "inferenceservices",
    "lws": "leaderworkersets",
    "po": "pods",
    "rc": "replicationcontrollers",
    "ro": "rollouts",
    "rs": "replicasets",
    "sts": "statefulsets",
    "wf": "workflows",
}
_NOT_RUNNING = frozenset({"PodTemplate", "JobTemplate", "WorkflowTemplate", "TrainingRuntime", "ServingRuntime"})
"""Kinds that make no pods by themselves."""
_LONGEST_CHOICE = 600
"""Characters of kind and name, each of which has at most 253: what somebody is to write is not cut."""
_MOST_NAMES = 5_000
"""Names that are compared with a name that does not exist."""


class TargetError(ValueError):
    """The name means nothing, or several objects; the text says what to write instead."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked about: an object and its kind."""

    resource: ApiResource
    raw: Raw


def find_target(reader: ClusterReader, written: str, namespace: str) -> Target:
    """The pod of this name, else the workload of this name; or the object of the kind before a slash.

    Raises TargetError, and ApiServerError where the API server does not say whether there is such an object.
    """
    kind, slash, name = written.rpartition("/")
    if slash:
        return _of_kind(reader, kind, name, namespace, written)
    if not name:
        raise TargetError("the name is empty; write the name of a pod, or kind/name such as job/train")
    pod = _read(reader, PODS, namespace, name)
    if pod is not None:
        return Target(PODS, pod)
    found = [Target(kind, raw) for kind in _served(reader) if (raw := _try(reader, kind, namespace, name)) is not None]
    top = [one for one in found if not _is_made_by(one, found)]
    if len(top) == 1:
        return top[0]
    if top:
        choices = few([f"{_spelled(one.resource, found)}/{name}" for one in top], _LONGEST_CHOICE)
        raise TargetError(f"{cut(name)} is the name of several workloads in namespace {namespace}; write {choices}")
    raise TargetError(_no_such(reader, [PODS, *_served(reader)], name, namespace, "pod or workload"))


def _of_kind(reader: ClusterReader, kind: str, name: str, namespace: str, written: str) -> Target:
    kinds = list(_meant(reader, kind))
    if not name or "/" in kind:
        raise TargetError(f"{cut(written)} is no kind/name; write one such as job/train or pod/train-0")
    if not kinds:
        known = sorted({"pod", *(one.kind.lower() for one in _served(reader))})
        also = hint(kind.partition(".")[0], known)
        raise TargetError(
            f"the cluster has no kind of pods or workloads that is called {cut(kind)}{also}; kinds are "
            f"{', '.join(known)}. For another kind, name one of its pods{_not_looked_at(reader)}"
        )
    found = [Target(one, raw) for one in kinds if (raw := _read(reader, one, namespace, name)) is not None]
    if len(found) > 1:
        choices = few([f"{one.resource}/{name}" for one in found], _LONGEST_CHOICE)
        raise TargetError(f"{cut(written)} may be several objects in namespace {namespace}; write {choices}")
    if not found:
        raise TargetError(_no_such(reader, kinds, name, namespace, kinds[0].kind))
    return found[0]


def _meant(reader: ClusterReader, written: str) -> Iterator[ApiResource]:
    """The kinds that a word such as `job`, `jobs`, `Job`, `jobs.batch` or `po` means."""
    word, _, group = written.lower().partition(".")
    word = _SHORT_NAMES.get(word, word)
    for one in (PODS, *_served(reader)):
        names = {one.name, one.kind.lower()}
        group_of_version = one.group == group or (bool(group) and group == f"{one.version}.{one.group}".rstrip("."))
        if word in names and (not group or group_of_version):
            yield one


def _served(reader: ClusterReader) -> list[ApiResource]:
    """The kinds of workloads that the cluster serves, in the order of the table."""
    rows = [one for one in WORKLOADS.values() if one.is_namespaced and one.kind not in _NOT_RUNNING]
    found = (reader.find(one.group, one.kind) for one in rows)
    return [one for one in found if one is not None and one.is_namespaced]


def _read(reader: ClusterReader, resource: ApiResource, namespace: str, name: str) -> Raw | None:
    """The object; None if there is none. Raises ApiServerError, and TargetError for what can be no name."""
    try:
        found = reader.get(resource, namespace, name, f"what {resource.kind} {name} is")
    except ValueError as error:
        raise TargetError(str(error)) from None
    if found is None and reader.is_missing("get", str(resource), namespace):
        fault = next(str(one) for one in reader.missing if one.verb == "get" and one.resource == str(resource))
        raise ApiServerError(fault)
    return found


def _try(reader: ClusterReader, resource: ApiResource, namespace: str, name: str) -> Raw | None:
    """The object; None if there is none, or it may not be read."""
    return reader.get(resource, namespace, name, f"whether there is a {resource.kind} {name}")


def _is_made_by(one: Target, others: list[Target]) -> bool:
    """Whether another of these objects made this one, as a JobSet makes a Job of its name."""
    uids = {text(other.raw, "metadata", "uid") for other in others if other is not one}
    owners = one.raw["metadata"].get("ownerReferences")
    return any(text(owner, "uid") in uids for owner in (owners if isinstance(owners, list) else ()))


def _spelled(resource: ApiResource, among: list[Target]) -> str:
    """The kind, with its group where another of these objects has a kind of the same name."""
    alike = [one for one in among if one.resource.name == resource.name]
    return str(resource) if len(alike) > 1 else resource.kind.lower()


def _no_such(reader: ClusterReader, kinds: list[ApiResource], name: str, namespace: str, what: str) -> str:
    """The message about a name that does not exist, with the nearest name that does."""
    unsure = _not_looked_at(reader)
    names: dict[str, str] = {}
    for kind in kinds:
        for raw in reader.items(kind, namespace, f"which names of {kind.name} exist", accept=METADATA_LIST):
            names.setdefault(text(raw, "metadata", "name"), kind.kind.lower())
            if len(names) >= _MOST_NAMES:
                break
    near = closest(name[:253], names)
    also = f"; did you mean {names[near]}/{near}?" if near else ""
    if not near:
        also = "; check the name and --namespace" if names else f"; the namespace has no {what}: check --namespace"
    among = " among the kinds that could be read" if unsure else ""
    return f"there is no {what} {cut(name)} in namespace {namespace}{among}{also}{unsure}"


def _not_looked_at(reader: ClusterReader) -> str:
    """The end of a message that something does not exist: where nobody could look; empty if everything was seen."""
    lacks = [f"`get {one.resource}`" for one in reader.missing if one.verb == "get" and not one.fault]
    said = f". You may not read all kinds; the rights that are missing are {few(lacks)}" if lacks else ""
    faults = [str(one) for one in reader.missing if one.fault]
    return said + "".join(f". Besides, {fault}" for fault in faults[:3])

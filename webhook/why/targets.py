"""Finds the pod or workload that a name on the command line means, as kubectl writes names: `train-0`, `job/train`."""

from collections.abc import Iterable, Iterator

from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import METADATA_LIST
from webhook.kubernetes.discovery import PODS, ApiResource
from webhook.model.json_parts import listed, text
from webhook.model.wording import closest, cut, few, hint
from webhook.model.workloads import WORKLOADS
from webhook.why.observed import Raw
from webhook.why.reading import ClusterReader

_NOT_RUNNING = frozenset({"PodTemplate", "JobTemplate", "WorkflowTemplate", "TrainingRuntime", "ServingRuntime"})
"""Kinds that make no pods by themselves."""
_LONGEST_CHOICE = 600
"""Most characters of a choice: kind and name have at most 253 each, and a text to copy is not cut."""

Target = tuple[ApiResource, Raw]
"""An object and its kind."""


class TargetError(ValueError):
    """The name means nothing, or several objects; the text says what to write instead."""


def find_target(reader: ClusterReader, written: str, namespace: str) -> Target:
    """The pod of this name, else the workload of this name; or the object of the kind before a slash.

    Raises TargetError, and ApiServerError where the API server does not say whether there is such an object.
    """
    kind, slash, name = written.rpartition("/")
    if slash:
        return _of_kind(reader, kind, name, namespace, written)
    if not name:
        raise TargetError("the name is empty; write the name of a pod, or kind/name such as job/train")
    if found := _existing(reader, [PODS], namespace, name):
        return found[0]
    workloads = _served(reader)
    several: list[Target] = [
        (one, raw)
        for one in workloads
        if (raw := reader.get(one, namespace, name, f"whether there is a {one.kind} {name}")) is not None
    ]
    uids = {text(raw, "metadata", "uid") for _, raw in several}
    makers = [{text(owner, "uid") for owner in listed(raw, "metadata", "ownerReferences")} for _, raw in several]
    top = [one for one, of in zip(several, makers, strict=True) if not of & uids]  # a JobSet makes a Job of its name
    if len(top) == 1:
        return top[0]
    if top:
        names = [one.name for one, _ in several]
        kinds = (str(one) if names.count(one.name) > 1 else one.kind.lower() for one, _ in top)
        choices = few([f"{kind}/{name}" for kind in kinds], _LONGEST_CHOICE)
        raise TargetError(f"{cut(name)} is the name of several workloads in namespace {namespace}; write {choices}")
    raise _no_such(reader, [PODS, *workloads], name, namespace, "pod or workload")


def _of_kind(reader: ClusterReader, kind: str, name: str, namespace: str, written: str) -> Target:
    if not name or "/" in kind:
        raise TargetError(f"{cut(written)} is no kind/name; write one such as job/train or pod/train-0")
    kinds = list(_meant(reader, kind))
    if not kinds:
        known = sorted({"pod", *(one.kind.lower() for one in _served(reader))})
        also = hint(kind.partition(".")[0], known)
        raise TargetError(
            f"the cluster has no kind of pods or workloads that is called {cut(kind)}{also}; kinds are "
            f"{', '.join(known)}. For another kind, name one of its pods{_not_looked_at(reader)}"
        )
    found = _existing(reader, kinds, namespace, name)
    if not found:
        raise _no_such(reader, kinds, name, namespace, kinds[0].kind)
    if len(found) > 1:
        choices = few([f"{one}/{name}" for one, _ in found], _LONGEST_CHOICE)
        raise TargetError(f"{cut(written)} may be several objects in namespace {namespace}; write {choices}")
    return found[0]


def _meant(reader: ClusterReader, written: str) -> Iterator[ApiResource]:
    """The kinds that a word such as `job`, `jobs`, `Job`, `jobs.batch` or `po` means."""
    word, _, group = written.lower().partition(".")
    for one in (PODS, *_served(reader)):
        groups = ("", one.group, f"{one.version}.{one.group}".rstrip("."))
        if word in (one.name, one.kind.lower(), *one.short_names) and group in groups:
            yield one


def _served(reader: ClusterReader) -> list[ApiResource]:
    rows = [one for one in WORKLOADS.values() if one.is_namespaced and one.kind not in _NOT_RUNNING]
    found = (reader.find(one.group, one.kind) for one in rows)
    return [one for one in found if one is not None and one.is_namespaced]


def _existing(reader: ClusterReader, kinds: Iterable[ApiResource], namespace: str, name: str) -> list[Target]:
    """The objects of this name. Raises ApiServerError, and TargetError for what can be no name."""
    found: list[Target] = []
    for one in kinds:
        try:
            raw = reader.get(one, namespace, name, f"what {one.kind} {name} is")
        except ValueError as error:
            raise TargetError(str(error)) from None
        if raw is not None:
            found.append((one, raw))
        elif reader.is_missing("get", str(one), namespace):
            raise ApiServerError(
                next(
                    str(missing) for missing in reader.missing if missing.verb == "get" and missing.resource == str(one)
                )
            )
    return found


def _no_such(reader: ClusterReader, kinds: list[ApiResource], name: str, namespace: str, what: str) -> TargetError:
    """The error about a name that does not exist, with the nearest name that does."""
    unsure = _not_looked_at(reader)
    names: dict[str, str] = {}
    for kind in kinds:
        for raw in reader.items(kind, namespace, f"which names of {kind.name} exist", accept=METADATA_LIST):
            names.setdefault(text(raw, "metadata", "name"), kind.kind.lower())
    near = closest(name[:253], names)
    also = f"; did you mean {names[near]}/{near}?" if near else ""
    if not near:
        also = "; check the name and --namespace" if names else f"; the namespace has no {what}: check --namespace"
    among = " among the kinds that could be read" if unsure else ""
    return TargetError(f"there is no {what} {cut(name)} in namespace {namespace}{among}{also}{unsure}")


def _not_looked_at(reader: ClusterReader) -> str:
    """The end of a message that something does not exist: where nobody could look; empty if everything was seen."""
    lacks = [f"`get {one.resource}`" for one in reader.missing if one.verb == "get" and not one.fault]
    said = f". You may not read all kinds; the rights that are missing are {few(lacks)}" if lacks else ""
    faults = [str(one) for one in reader.missing if one.fault]
    return said + "".join(f". Besides, {fault}" for fault in faults[:3])

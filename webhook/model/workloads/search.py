"""Pod templates in objects of unknown kinds: found by their shape, and only where the shape is certain.

A pod spec has a list `containers` of maps, each with a container's name and something to run or to request, and can be
read as a pod spec. Objects that only describe containers (patterns of policies, schemas of kinds) do not have such
lists. Parts that are merged into other pods (patches, the containers of a Prometheus) are no whole pods, and skipped.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from webhook.model.json_parts import mapped, named, part, short
from webhook.model.pod import APP, INIT
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import ShapeError
from webhook.model.workloads.controllers import PERHAPS_A_PART, labelled
from webhook.model.workloads.template import Template, is_placeholder, settled, settled_template

_SOUND = 10
"""Specs that are tried for each wanted template: if none can be read as a pod spec, the search ends."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CONTAINER = {"image": str, "command": list, "args": list, "resources": dict}
_NAMES = re.compile(r"\[[^]]*\]")
"""Names and numbers in lists. Readers name the parts of a list by other keys than `name`."""
_PASSED_OVER = frozenset({"metadata", "status", "values", "valuesObject"})
"""Keys that are not searched; the last two hold values for charts."""
_MERGED = re.compile(r"(^p|P)atch|(^o|O)verride|(^o|O)verlay")
"""Keys of parts that are merged over a template elsewhere."""
_FOREIGN_GROUPS = (
    "admission.k8s.io",  # reviews show objects that others make
    "admissionregistration.k8s.io",
    "apiextensions.crossplane.io",  # compositions are filled in
    "apiextensions.k8s.io",
    "auto.gke.io",
    "gatekeeper.sh",
    "kyverno.io",  # its rules say how the containers of others have to look
    "policy.open-cluster-management.io",
    "types.kubefed.io",  # what these three hold runs in other clusters
    "work.karmada.io",
    "work.open-cluster-management.io",
)
_FOREIGN_KINDS = frozenset({("apps", "ControllerRevision"), ("", "Pod"), ("", "ConfigMap"), ("", "Secret")})
_SCHEMA = "CustomResourceDefinition"
_USUAL = frozenset({"spec", "template", "podTemplate", "podTemplateSpec", "podSpec"})


class _Spot(NamedTuple):
    """A part of an object, its key or number in the part above, and the part above."""

    value: Any
    key: str | int
    above: "_Spot | None"

    @property
    def name(self) -> str:
        return short(self.key) if isinstance(self.key, str) else named(self.value) or str(self.key)

    @property
    def path(self) -> str:
        """Its place in the object, such as `spec.jobs[train].template.spec`."""
        words: list[str] = []
        spot = self
        while spot.above is not None:
            words.append(f".{spot.name}" if isinstance(spot.key, str) else f"[{spot.name}]")
            spot = spot.above
        return "".join(reversed(words)).removeprefix(".")


def search(raw: Mapping[str, Any], most: int | None = None) -> Iterator[Template]:
    """The pod templates in an object, in their order.

    `most`: the caller takes only this many, so the search may end earlier.
    """
    group, kind = str(raw.get("apiVersion")).rpartition("/")[0], str(raw.get("kind"))
    if (group, kind) in _FOREIGN_KINDS or any(group == one or group.endswith(f".{one}") for one in _FOREIGN_GROUPS):
        return
    found = list(islice(_found(raw, _is_pod_spec), None if most is None else most * _SOUND))
    names = [_group(spot) if len(found) > 1 else "" for spot in found]
    times = Counter(names)
    for spot, name in zip(found, names, strict=True):
        template = Template(_pod_at(spot), spot.path, group=name if times[name] == 1 else "")
        settled = labelled(_object_around(spot), settled_template(template))
        marked = (replace(one, labels={**PERHAPS_A_PART, **one.labels}) for one in settled)
        yield from (one for one in marked if _reads_as_pod(one.pod))


def unread_gpus(
    raw: Mapping[str, Any], templates: Sequence[Template], is_gpu: Callable[[str], object]
) -> tuple[str, str] | None:
    """The first place of resources in an object that are in none of its templates and name a GPU, and that name.

    None where there is none. For kinds in the table: the templates of others were found by a search.
    """
    if templates and all(template.is_validated for template in templates):
        return None  # the API server has refused what is misplaced
    places = {f"{one.path}.{key}" for one in templates for key in (INIT, APP, "resources")}
    places |= {place for one in templates for key, place in one.elsewhere.items() if key.startswith("spec")}
    read = tuple(_NAMES.sub("[]", place) for place in places)
    for spot in _found(raw, lambda spot: spot.key == "resources"):
        amounts = {**mapped(spot.value, "requests"), **mapped(spot.value, "limits")}
        gpu = next((name for name in amounts if is_gpu(name) and not is_placeholder(amounts[name])), None)
        if gpu and not _NAMES.sub("[]", spot.path).startswith(read) and not _is_left_out(spot.above):
            return spot.path, gpu
    return None


def _is_left_out(spot: _Spot | None) -> bool:
    while spot is not None:
        value, spot = spot.value, spot.above
        if "podSpecPatch" in mapped(value) or part(value, "enabled") is False or settled({"spec": value}) is None:
            return True
    return False


def number_of_specs(raw: Mapping[str, Any]) -> int:
    """The number of parts of an object that look like the spec of a pod."""
    return sum(1 for _ in _found(raw, _is_pod_spec))


def _pod_at(spot: _Spot) -> Mapping[str, Any]:
    """The pod of a spec, with the metadata beside the spec unless it is the metadata of the whole object."""
    above = spot.above
    if spot.key == "spec" and above is not None and above.above is not None:
        return {"metadata": part(above.value, "metadata"), "spec": spot.value}
    return {"spec": spot.value}


def _object_around(spot: _Spot) -> Mapping[str, Any]:
    """The complete object around a spec in the searched object, such as the job of an experiment; empty for none."""
    inside, above = spot, spot.above
    while above is not None and above.above is not None:
        inside, above = above, above.above
        if isinstance(part(inside.value, "apiVersion"), str) and isinstance(part(inside.value, "kind"), str):
            return mapped(inside.value)
    return {}


def _found(raw: Mapping[str, Any], is_end: Callable[[_Spot], bool]) -> Iterator[_Spot]:
    """The parts at which a search ends, such as pod specs. Nothing is searched inside them."""
    open_parts = [iter([_Spot(raw, "", None)])]
    while open_parts:
        spot = next(open_parts[-1], None)
        if spot is None:
            open_parts.pop()
        elif is_end(spot):
            yield spot
        else:
            open_parts.append(_inside(spot))


def _inside(spot: _Spot) -> Iterator[_Spot]:
    value = spot.value
    if isinstance(value, list):
        for index, item in enumerate(value):
            if item and isinstance(item, (dict, list)):
                yield _Spot(item, index, spot)
    elif value.get("kind") != _SCHEMA:
        for key, item in value.items():
            if item and isinstance(item, (dict, list)) and key not in _PASSED_OVER and not _MERGED.search(key):
                yield _Spot(item, key, spot)


def _is_pod_spec(spot: _Spot) -> bool:
    containers = part(spot.value, "containers")
    if not isinstance(containers, list) or not containers or not all(map(_is_container, containers)):
        return False
    above = spot.above
    if spot.key == "spec" and above is not None and above.above is not None and part(above.value, "kind") is None:
        return True
    return all(isinstance(part(one, "image"), str) for one in containers)


def _is_container(value: object) -> bool:
    name = part(value, "name")
    return (
        isinstance(name, str)
        and _LABEL.fullmatch(name) is not None
        and any(isinstance(part(value, key), kind) for key, kind in _CONTAINER.items())
    )


def _reads_as_pod(pod: Mapping[str, Any]) -> bool:
    try:
        pod_from_raw(pod)
    except ShapeError:
        return False
    return True


def _group(spot: _Spot) -> str:
    above: _Spot | None = spot
    while above is not None and above.key in _USUAL:
        above = above.above
    return above.name if above is not None else ""

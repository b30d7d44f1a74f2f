"""All that a judgement reads of a pod is in what pods alike have in common: every read is noted, and tried.

Pods are given to the phases as maps that note which of their parts are asked for. Each part that was asked for is then
changed, and the pod has to be another one by `likeness_of`. So a rule that reads something new cannot make a
plan take pods for alike that are not.
"""

import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.admission.alike_pods import BY_INDEX, EVERY, INDEX, NOTHING, TOKEN, WARNING, Images, owned
from tests.corpus import facts_of, read_corpus
from webhook import engine
from webhook.admission import phases
from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.phases import Decision
from webhook.model.likeness import NUMBERS, likeness_of
from webhook.model.shape import ShapeError
from webhook.policy.loader import load

Object = dict[str, Any]
Place = tuple[str | int, ...]

KEYS, HAS = "every key", "whether it has "
"""Stand in the place of a key where all keys of a map are asked for, and before one of which only that is asked."""
SHIPPED = load(Path(__file__).parents[2] / "policies")
SETS = {"every": EVERY, "by index": BY_INDEX, "warning": WARNING, "shipped": SHIPPED, "nothing": NOTHING}
FROM = {"every": (NOTHING, SHIPPED), "shipped": (EVERY,)}
"""Recent policy sets, by the one in force."""
FACTS = facts_of("mixed")
_COPYING = {("draft.py", "__init__"), ("draft.py", "_reach"), ("quota_claims.py", "claims_of")}
"""Who copies a map as a whole, of which nothing follows; what is asked of the copy's parts is noted."""

_OF_NO_CONSEQUENCE = {("status",)}
"""Of the status only the start is read, and one without a start is like none."""


class Noted(dict[str, Any]):
    """A map that notes what is asked of it. The reader of pods takes it for a plain one."""

    __class__ = property(lambda _: dict)

    def __init__(self, raw: Mapping[str, Any], place: Place, places: set[Place]) -> None:
        super().__init__({key: noted(value, (*place, key), places) for key, value in raw.items()})
        self._place = place
        self._places = places

    def _note(self, key: object) -> None:
        frame = sys._getframe(2)
        if (Path(frame.f_code.co_filename).name, frame.f_code.co_name) not in _COPYING or key == "metadata":
            self._places.add((*self._place, str(key)))

    def get(self, key: str, default: Any = None) -> Any:
        self._places.add((*self._place, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(f"{HAS}{key}")
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._note(KEYS)
        return super().__iter__()

    def keys(self) -> Any:
        self._note(KEYS)
        return super().keys()

    def _whole(self) -> None:
        for key in (KEYS, *super().keys()):
            self._places.add((*self._place, key))

    def values(self) -> Any:
        self._whole()
        return super().values()

    def items(self) -> Any:
        self._whole()
        return super().items()

    def __eq__(self, other: object) -> bool:
        self._whole()
        return super().__eq__(other)

    __hash__ = None


def noted(value: Any, place: Place, places: set[Place]) -> Any:
    """The value with maps that note."""
    if isinstance(value, dict):
        return Noted(value, place, places)
    if isinstance(value, list):
        return [noted(one, (*place, at), places) for at, one in enumerate(value)]
    return value


class NotedRequest:
    """A request that notes what is asked of it."""

    def __init__(self, request: AdmissionRequest) -> None:
        self._request = request
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.asked.add(name)
        return getattr(self._request, name)


def reads(phase: str, raw: Object, name: str) -> tuple[set[Place], set[str]]:
    """The places of a pod that a phase reads, and the parts of the request."""
    places: set[Place] = set()
    decide: Callable[..., Decision] = {"mutate": phases.mutate, "validate": phases.validate}[phase]
    raw = noted(raw, (), places)
    places.clear()
    asked = NotedRequest(
        AdmissionRequest(
            "u", "CREATE", "team-b", "n", "v1", "Pod", "", "ann", ("system:authenticated",), True, raw, None
        )
    )
    decide(asked, SETS[name], FACTS.with_images(Images(), "team-b"), FROM.get(name, ()))
    return places, asked.asked


def changes(raw: Object, place: Place) -> Iterator[Object]:
    """The pod with something else at a place."""
    *above, last = place
    parent: Any = raw
    for part in above:
        parent = parent[part]
    key = str(last).removeprefix(HAS)
    if last == KEYS:
        yield _with(raw, (*above, "example.com/new"), "x")
        yield from (_with(raw, (*above, one), absent=True) for one in parent if parent[one] is not None)
    elif (key != last and key in parent) or isinstance(parent.get(key), (dict, list)):
        yield _with(raw, (*above, key), absent=True)
    else:
        yield _with(raw, (*above, key), "another" if parent.get(key) != "another" else "one")


def _with(raw: Object, place: Place, value: object = None, *, absent: bool = False) -> Object:
    changed = copy.deepcopy(raw)
    parent: Any = changed
    for key in place[:-1]:
        parent = parent[key]
    if absent:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return changed


@cache
def bare_pods() -> tuple[tuple[str, Object], ...]:
    """The pods of all manifests."""
    found = []
    for manifest in read_corpus():
        for number, template in enumerate(manifest.templates()):
            try:
                engine.mutate(template.made, EVERY.default, FACTS)
            except ShapeError:
                continue
            found.append((f"{manifest.name} {number}", json.loads(json.dumps(template.made, default=str))))
    return tuple(found)


def dressed(raw: Object, kind: str) -> Object:
    """The pod as a controller makes it and an API server hands it on, with parts that nothing should read."""
    raw = copy.deepcopy(raw)
    metadata = raw["metadata"] = {**(raw.get("metadata") or {}), **owned({}, kind)["metadata"]}
    metadata |= {
        "name": "p-0",
        "generateName": "p-",
        "uid": "u",
        "creationTimestamp": None,
        "managedFields": [{"a": {}}],
    }
    metadata["finalizers"] = ["example.com/f"]
    for part in ("labels", "annotations"):
        numbers = dict.fromkeys((INDEX, *NUMBERS.get(kind, ())), "0")
        metadata[part] = {**(metadata.get(part) or {}), **numbers}
    raw["status"] = {"phase": "Pending", "conditions": [{"type": "a"}], "containerStatuses": [{"name": "c"}]}
    spec = raw["spec"] = {**raw["spec"], "hostname": "p-0", "subdomain": "s", "serviceAccountName": "default"}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
    token = {"name": TOKEN, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    shared = {"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    disk = {"name": "disk", "hostPath": {"path": "/dev/nvidia0"}}
    spec["volumes"] = [*(spec.get("volumes") or ()), claim, token, shared, disk]
    return raw


def dozens() -> list[tuple[str, Object]]:
    """Every seventh pod of the manifests, as different controllers make them."""
    kinds = ("Job", "ReplicaSet", "StatefulSet", "PyTorchJob", "DaemonSet")
    some = bare_pods()[::7]
    return [(f"{name}, {kinds[at % 5]}", dressed(raw, kinds[at % 5])) for at, (name, raw) in enumerate(some)]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_whatever_a_decision_reads_of_a_pod_tells_it_from_others(phase: str, name: str) -> None:
    missed: dict[Place, str] = {}
    seen: set[Place] = set()
    using = SETS[name]
    policies = [one.for_namespace("team-b") for one in (using, *FROM.get(name, ()))]
    labels = frozenset().union(*(one.labels for one in policies))
    for title, bare in dozens():
        raw = bare if phase == "mutate" else json.loads(json.dumps(engine.mutate(bare, using.default, FACTS).object))
        said = likeness_of(raw, labels)
        assert said is not None, title
        found, _ = reads(phase, raw, name)
        seen |= {tuple("*" if isinstance(key, int) else key for key in place) for place in found}
        for place in found - _OF_NO_CONSEQUENCE:
            for other in changes(raw, place):
                like = likeness_of(other, labels)
                if like is not None and like.text == said.text:
                    missed[place] = title
    assert missed == {}
    read = {
        ("spec", "containers", "*", "image"),
        ("metadata", "annotations"),
        ("spec", "volumes", "*", "emptyDir", "medium"),
    }
    assert read <= seen


@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_of_a_request_nothing_is_read_but_what_is_remembered_with_a_decision(phase: str) -> None:
    """The namespace and the object; the rest is the same for all that are remembered."""
    same = {"operation", "subresource", "user_groups", "api_version", "kind", "old_object"}
    asked = set().union(*(reads(phase, raw, "every")[1] for _, raw in dozens()[:5]))
    assert asked <= {"namespace", "object"} | same
    assert asked >= {"namespace", "object"}


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_numbers_of_a_controller_lead_to_no_other_decision(kind: str) -> None:
    """Annotations are looked through by the beginnings of their keys, and these numbers begin with none of them."""
    for title, bare in bare_pods()[::20]:
        raw = dressed(bare, kind)
        other = copy.deepcopy(raw)
        for part in ("labels", "annotations"):
            for key in NUMBERS[kind]:
                other["metadata"][part][key] = "nvidia.com/gpu=all"
        outcomes = [engine.mutate(one, EVERY.default, FACTS) for one in (raw, other)]
        assert outcomes[0].patch == outcomes[1].patch, title
        assert outcomes[0].findings == outcomes[1].findings, title

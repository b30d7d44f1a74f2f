"""One review for each number of a seed: a drawn pod, broken in some places or none, in a request of some kind."""

import copy
import json
import random
from dataclasses import dataclass
from typing import Any

from tests.lab.fuzz import pods
from tests.lab.fuzz.big_pods import grown
from tests.lab.fuzz.world import SETTINGS

Raw = dict[str, Any]

JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "\x00\x1b[31m\u202e",
    "a" * 300,
    [],
    [None],
    [[]],
    {},
    {"": None},
    {"name": {}},
    [{"key": 1}],
)
"""What stands where something else belongs."""


@dataclass(frozen=True)
class Case:
    """A review of a fuzz run. `is_sound`: an API server would read its object, so that nothing malformed is found."""

    number: int
    review: Raw
    is_sound: bool

    @property
    def object(self) -> Raw:
        """The pod that is reviewed; empty where the envelope is broken."""
        request = self.review.get("request")
        found = request.get("object") if isinstance(request, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def namespace(self) -> str:
        """Where the pod is to be."""
        request = self.review["request"]
        return str(request.get("namespace", ""))

    def body(self, obj: Any = None, **request: Any) -> bytes:
        """The review on the wire, with another object or other fields of the request."""
        if obj is None and not request:
            return json.dumps(self.review).encode()
        changed = {**self.review["request"], **({} if obj is None else {"object": obj}), **request}
        return json.dumps({**self.review, "request": changed}).encode()


def case(seed: int, number: int) -> Case:
    """The review of this number; the same on every machine."""
    draw = random.Random(f"{seed}/{number}")
    drawn = pods.after_gpu_nodes(draw) if draw.random() < 0.1 else pods.pod(draw)
    if draw.random() < 0.02:
        drawn = grown(draw, drawn)
    drawn = json.loads(json.dumps(drawn))  # no two parts of it are one object
    is_sound = draw.random() < 0.7
    if not is_sound:
        box = {"object": drawn}
        for _ in range(draw.choice((1, 1, 2, 3))):
            _break(draw, box)
        drawn = box["object"]
    review = _review(draw, drawn)
    if draw.random() < 0.03:
        is_sound = False
        _break(draw, review)
    return Case(number, review, is_sound)


def _review(draw: random.Random, drawn: Any) -> Raw:
    operation = "UPDATE" if draw.random() < 0.08 else "CREATE"
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{draw.randrange(16**12):012x}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": draw.choice(list(SETTINGS)),
        "name": draw.choice(("p", "")),
        "operation": operation,
        "userInfo": {"username": "ada", "groups": draw.choice((["system:authenticated"], ["system:nodes"], []))},
        "object": drawn,
        "oldObject": _old(draw, drawn) if operation == "UPDATE" else None,
        "dryRun": draw.random() < 0.5,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _old(draw: random.Random, drawn: Any) -> Any:
    """What was stored before an update: the same, or the same with another part."""
    old = copy.deepcopy(drawn)
    if isinstance(old, dict) and draw.random() < 0.5:
        old["metadata"] = {"name": "p", "labels": {"app": "before"}}
    return old


def _break(draw: random.Random, box: Raw) -> None:
    """Replace, remove, double or wrap one part of a JSON value."""
    *above, last = draw.choice(_places(box)[1:])
    parent: Any = box
    for key in above:
        parent = parent[key]
    match draw.randrange(6):
        case 0 | 1 | 2:
            parent[last] = copy.deepcopy(draw.choice(JUNK))
        case 3 if isinstance(parent, list):
            parent.insert(last, copy.deepcopy(parent[last]))
        case 3 | 4 if len(parent) > 1 or above:
            del parent[last]
        case 5:
            parent[last] = draw.choice(([parent[last]], {"value": parent[last]}))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value, itself included; of long lists those of the first entries."""
    found = [path]
    if isinstance(value, dict):
        for key in list(value)[:20]:
            found += _places(value[key], (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value[:20]):
            found += _places(one, (*path, index))
    return found

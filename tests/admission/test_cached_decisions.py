"""A cached decision equals a fresh one to the byte, whatever changes between two pods of a controller."""

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.admission.alike_pods import (
    EVERY,
    INDEX,
    PHASES,
    SETS,
    TOKEN,
    Images,
    Object,
    owner_of,
    remembering,
)
from tests.reviews import FACTS, NODES, RUNTIME_CLASS, WITHOUT_CLASSES, request, wanting_pod
from tests.rules.every_rule import policy_sets
from tests.strategies import (
    IMAGES,
    broken_pods,
    checked_on_pods,
    examples,
    image_sights,
    pods,
    requests_only,
    service_pods,
)
from webhook import engine
from webhook.admission import decision_cache
from webhook.admission.admission_review import AdmissionRequest, render
from webhook.admission.phases import Decision
from webhook.engine.quota_claims import QuotaClaims
from webhook.facts.facts import ClusterFacts
from webhook.model.image import ImageInfo
from webhook.model.likeness import NUMBERS
from webhook.model.shape import ShapeError
from webhook.policy.policy_set import PolicySet


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No controller is given up, so that what tells pods apart is the only reason to decide about them one by one."""
    monkeypatch.setattr(decision_cache, "TRIES", 10_000)


SNAPSHOTS = (FACTS, WITHOUT_CLASSES, ClusterFacts.of(NODES[:1], [RUNTIME_CLASS]))


class History(list[tuple[AdmissionRequest, tuple[PolicySet, ...], ClusterFacts, Images]]):
    """Requests, and what each is decided by."""

    def __repr__(self) -> str:
        return json.dumps([one.object for one, *_ in self])  # policies and clusters would fill the screen


def told(decide: Callable[[], Decision]) -> tuple[bytes, object, QuotaClaims] | str:
    """The answer to the byte, and what is counted and logged of its outcome; the error of a malformed pod."""
    try:
        decision = decide()
    except ShapeError as error:
        return str(error)
    outcome = decision.outcome
    said = outcome and (outcome.policy.hash, outcome.findings, outcome.injected)
    return render("uid", decision.answer), said, decision.claims


@st.composite
def numbered_pods(draw: st.DrawFn) -> Object:
    """A pod as some controller makes it, with the volume of its service account."""
    raw = copy.deepcopy(draw(pods() | service_pods() | requests_only() | st.builds(wanting_pod)))
    metadata = raw["metadata"] = dict(raw["metadata"] or {})
    owner = draw(st.sampled_from((*NUMBERS, "ReplicaSet")))
    metadata["ownerReferences"] = owner_of(owner)
    for part in ("labels", "annotations"):
        metadata[part] = {**(metadata.get(part) or {}), INDEX: "0", "apps.kubernetes.io/pod-index": "0"}
    source = draw(st.sampled_from(({"projected": {"sources": []}}, {"emptyDir": {"medium": "Memory"}})))
    raw["spec"]["volumes"] = [*(raw["spec"].get("volumes") or ()), {"name": TOKEN, **source}]
    paths = ("/var/run/secrets/kubernetes.io/serviceaccount", "/dev/shm", "/run/nvidia-container-devices/all")
    first = raw["spec"]["containers"][0]
    mount = {"name": TOKEN, "mountPath": draw(st.sampled_from(paths))}
    first["volumeMounts"] = [*(first.get("volumeMounts") or ()), mount]
    return raw


def _put(*path: Any, value: Any) -> Callable[[Object], None]:
    def change(raw: Object) -> None:
        *above, last = path
        parent: Any = raw
        for key in above:
            parent = parent[key]
        parent[last] = value

    return change


def _renamed(name: str) -> Callable[[Object], None]:
    """Give the volume of the service account another name, wherever it stands."""

    def change(raw: Object) -> None:
        text = json.dumps(raw).replace(TOKEN, name)
        raw.clear()
        raw.update(json.loads(text))

    return change


def _with_env(value: str) -> Callable[[Object], None]:
    def change(raw: Object) -> None:
        first = raw["spec"]["containers"][0]
        first["env"] = [*(first.get("env") or ()), {"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]

    return change


def _source(value: Object) -> Callable[[Object], None]:
    def change(raw: Object) -> None:
        raw["spec"]["volumes"][-1] = {"name": TOKEN, **value}

    return change


CHANGES = (
    _put("metadata", "name", value="p-1"),
    _put("spec", "hostname", value="p-1"),
    _renamed("kube-api-access-vwxyz"),
    _renamed("kube-api-access-longer"),
    _with_env(TOKEN),
    _with_env(f'"name":"{TOKEN}"'),
    _with_env("kube-api-access-vwxyz"),
    _source({"persistentVolumeClaim": {"claimName": "data-1"}}),
    _source({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
    _source({"emptyDir": {"medium": "Memory", "sizeLimit": "900Gi"}}),
    _source({"hostPath": {"path": "/dev/nvidia0"}}),
    *(
        _put("metadata", part, key, value="1")
        for part in ("labels", "annotations")
        for key in (INDEX, "apps.kubernetes.io/pod-index", "a")
    ),
    _put("metadata", "labels", "kueue.x-k8s.io/queue-name", value="q"),
    _put("metadata", "annotations", "cdi.k8s.io/a", value="nvidia.com/gpu=all"),
    _put("metadata", "annotations", "cuda.gpupolicy.dev/c0", value="none"),
    _put("metadata", "annotations", "gpupolicy.dev/policy", value="other@1"),
    _put("metadata", "namespace", value="elsewhere"),
    *(_put("metadata", "ownerReferences", value=owner_of(kind)) for kind in ("ReplicaSet", "DaemonSet", "Job")),
    _put("status", value={"startTime": "2026-01-01T00:00:00Z"}),
    *(
        _put("spec", part, value=value)
        for part in ("volumes", "tolerations", "containers", "nodeSelector", "hostIPC", "nodeName")
        for value in (None, [], {}, "", "n1", True, [None], [{}])
    ),
)
"""What tells pods of one controller apart, and what tells other pods apart."""


@st.composite
def changed(draw: st.DrawFn, raw: Object) -> Object:
    """The pod with one thing about it changed, and by chance with a second one."""
    raw = copy.deepcopy(raw)
    if draw(st.integers(0, 3)) == 0:
        draw(st.sampled_from(CHANGES[:14]))(raw)
    draw(st.sampled_from(CHANGES))(raw)
    return raw


@st.composite
def states(draw: st.DrawFn) -> tuple[tuple[PolicySet, ...], ClusterFacts, dict[str, ImageInfo]]:
    """Policies, a cluster, and what is known of images."""
    sets = draw(st.sampled_from(SETS) | st.tuples(policy_sets()))
    known = draw(st.dictionaries(st.sampled_from(IMAGES[:3]), image_sights(), max_size=1))
    return sets, draw(st.sampled_from(SNAPSHOTS)), known


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Requests about pods that are alike or nearly so, while policies, the cluster and images change."""
    first = draw(numbered_pods())
    first = (_completed(first) or first) if draw(st.booleans()) else first
    raws = [first, *(draw(changed(first)) for _ in range(3))]
    broken = draw(broken_pods())
    if isinstance(broken, dict) and _is_json(broken):
        raws.append(broken)
    namespaces = st.sampled_from(("team", "team", "team", "other"))
    asked = [request(raw, namespace=draw(namespaces), kind=("", "v1", "Pod")) for raw in raws]
    sets, snapshot, images = draw(states())
    steps = [(one, sets, snapshot, images) for one in (*asked, *asked)]
    other_sets, other_snapshot, other_images = draw(states())
    steps += [(asked[0], sets, other_snapshot, images), (asked[0], sets, other_snapshot, other_images)]
    steps += [(asked[0], other_sets, other_snapshot, other_images), *steps[:2]]
    return History([(one, sets, snapshot, Images(images)) for one, sets, snapshot, images in steps])


def _completed(raw: Object) -> Object | None:
    """The pod as it comes to the validating phase; None for one that does not get there."""
    try:
        outcome = engine.mutate(raw, EVERY.default, FACTS)
    except ShapeError:
        return None
    return None if outcome.refusals else dict(outcome.object)


def _is_json(raw: Object) -> bool:
    """Whether a server can read it: no number in it is too large for one."""
    try:
        return orjson.loads(json.dumps(raw, allow_nan=False)) is not None
    except ValueError:
        return False


class Tally:
    """How many of the generated requests were answered from the cache; without them nothing is compared."""

    decided = 0
    asked = 0


@pytest.mark.parametrize("phase", PHASES)
def test_a_remembered_decision_is_the_same_to_the_byte_as_a_fresh_one(phase: str) -> None:
    tally = Tally()

    @settings(checked_on_pods, max_examples=examples(100), phases=[Phase.explicit, Phase.reuse, Phase.generate])
    @given(histories())
    def compare(history: History) -> None:
        decide, memory = remembering(phase)
        for asked, sets, snapshot, images in history:
            facts = snapshot.with_images(images, asked.namespace)
            fresh = told(partial(PHASES[phase], asked, sets[0], facts, sets[1:]))
            by_itself, images.asked = set(images.asked), []
            assert told(partial(memory.decision, asked, sets, facts)) == fresh
            assert set(images.asked) == by_itself
        tally.asked += len(history)
        tally.decided += decide.times

    compare()
    assert tally.decided < tally.asked * 0.9

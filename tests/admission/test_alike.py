"""Pods alike are decided about once, and are told what each would have been told by itself."""

import copy
import gc
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.reviews import FACTS, NODES, RUNTIME_CLASS, WITHOUT_CLASSES, pod, policy, request, wanting_pod
from tests.rules.every_rule import INJECTING, policy_sets
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
from webhook.admission import alike, phases
from webhook.admission.alike import Alike
from webhook.admission.phases import Decision
from webhook.admission.review import AdmissionRequest, render
from webhook.engine import complete
from webhook.engine.quota_claims import QuotaClaims
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.likeness import LONGEST, NUMBERS, likeness_of
from webhook.model.shape import ShapeError
from webhook.policy.policy_set import PolicySet
from webhook.rules.rule import Facts

Object = dict[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"
TOKEN = "kube-api-access-abcde"
PHASES = {"mutate": phases.mutate, "validate": phases.validate}


def injecting(**settings_of: Mapping[str, Any]) -> PolicySet:
    """Every rule enforced, with something to inject, and with these settings."""
    rules = {key: {"mode": "enforce", **values, **settings_of.get(key, {})} for key, values in INJECTING.items()}
    others = {key: {"mode": "warn"} for key in ("schedulable", "memoryAndCpu", "imagePinning", "sharedGpus")}
    return PolicySet.of(policy({**others, **rules}), {})


EVERY = injecting()
NOTHING = PolicySet.of(policy({}), {})
BY_INDEX = injecting(timeLimit={"selectors": [{INDEX: "0"}, {"apps.kubernetes.io/pod-index": "0"}]})
WARNING = PolicySet.of(
    policy({"gpuQuota": {"gpus": 1}, **{key: {**INJECTING[key]} for key in INJECTING}}, mode="warn"), {}
)
ALONE = PolicySet.of(policy({"runtimeClass": {"mode": "enforce"}}), {})
SETS = ((EVERY,), (BY_INDEX,), (WARNING,), (EVERY, BY_INDEX), (ALONE, EVERY))
SNAPSHOTS = (FACTS, WITHOUT_CLASSES, ClusterFacts.of(NODES[:1], [RUNTIME_CLASS]))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No controller is given up, so that what tells pods apart is the only reason to decide about them one by one."""
    monkeypatch.setattr(alike, "TRIES", 10_000)


class Images:
    """What is known of images, which changes; and which were asked about."""

    def __init__(self, known: Mapping[str, ImageInfo] | None = None) -> None:
        self.known = dict(known or {})
        self.asked: list[str] = []

    def info(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # the protocol
        self.asked.append(text)
        return self.known.get(text, NOT_LOOKED_UP)


class History(list[tuple[AdmissionRequest, tuple[PolicySet, ...], ClusterFacts, Images]]):
    """Requests, and what each is decided by."""

    def __repr__(self) -> str:
        return json.dumps([one.object for one, *_ in self])  # policies and clusters would fill the screen


class Counted:
    """A phase that counts how often it has decided."""

    def __init__(self, phase: str) -> None:
        self.times = 0
        self._decide = PHASES[phase]

    def __call__(
        self, request: AdmissionRequest, policies: PolicySet, facts: Facts, recent: Sequence[PolicySet] = ()
    ) -> Decision:
        self.times += 1
        return self._decide(request, policies, facts, recent)


def remembering(phase: str = "mutate", *, uid: str = "1") -> tuple[Counted, Alike]:
    """A phase that remembers, and how often it decides from now on: it has met the first pod of the controller."""
    decide = Counted(phase)
    memory = Alike(decide)
    for namespace in ("team", "other"):
        memory.decision(request(owned(pod(1), uid=uid), namespace=namespace), (NOTHING,), FACTS)
    assert decide.times == 2
    decide.times = 0
    return decide, memory


def owned(raw: Object, kind: str = "ReplicaSet", *, uid: str = "1") -> Object:
    """The pod as one that a controller made, unless it says itself who did."""
    own = [{"kind": kind, "name": "o", "uid": uid, "controller": True}]
    return {**raw, "metadata": {"ownerReferences": own, **(raw.get("metadata") or {})}}


def told(decide: Callable[[], Decision]) -> tuple[bytes, object, QuotaClaims] | str:
    """The answer to the byte, and what is counted and logged of its outcome; the error of a malformed pod."""
    try:
        decision = decide()
    except ShapeError as error:
        return str(error)
    outcome = decision.outcome
    said = outcome and (outcome.policy.hash, outcome.findings, outcome.injected)
    return render("uid", decision.answer), said, decision.claims


# Generated pods


def _owned(kind: str) -> list[Object]:
    return [{"kind": kind, "name": "o", "uid": "1", "controller": True}]


@st.composite
def numbered_pods(draw: st.DrawFn) -> Object:
    """A pod as some controller makes it, with the volume of its service account."""
    raw = copy.deepcopy(draw(pods() | service_pods() | requests_only() | st.builds(wanting_pod)))
    metadata = raw["metadata"] = dict(raw["metadata"] or {})
    owner = draw(st.sampled_from((*NUMBERS, "ReplicaSet")))
    metadata["ownerReferences"] = _owned(owner)
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
    *(_put("metadata", "ownerReferences", value=_owned(kind)) for kind in ("ReplicaSet", "DaemonSet", "Job")),
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
        outcome = complete(raw, EVERY.default, FACTS)
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
    """How many of the generated requests were answered from memory, without which nothing is compared."""

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


# Which pods are alike


def asks(*raws: Object, phase: str = "mutate", sets: tuple[PolicySet, ...] = (EVERY,)) -> int:
    """How often a phase decides about these pods of a controller; they come completed to the validating one."""
    decide, memory = remembering(phase)
    for raw in map(owned, raws):
        asked = raw if phase == "mutate" else complete(raw, sets[0].default, FACTS).object
        memory.decision(request(asked), sets, FACTS)
    return decide.times


def made_by(kind: str, number: str) -> Object:
    """One of the pods that a controller numbers."""
    numbers = dict.fromkeys(NUMBERS.get(kind, (INDEX,)), number)
    owner = {"kind": kind, "name": "o", "uid": "1", "controller": True}
    return pod(2, name=f"p-{number}", labels={"app": "a", **numbers}, annotations=numbers, ownerReferences=[owner])


def with_token(name: str, at: str = "/var/run/secrets/kubernetes.io/serviceaccount", **source: Any) -> Object:
    """A pod with the volume of its service account, or with another one of that name."""
    raw = pod(2, spec={"volumes": [{"name": name, **(source or {"projected": {"sources": []}})}]})
    raw["spec"]["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": at}]
    return raw


def claiming(name: str) -> Object:
    return pod(2, spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pod(2), pod(2, name="other", uid="2", generateName="x-"), id="name"),
        pytest.param(pod(2, spec={"hostname": "p-0"}), pod(2, spec={"hostname": "p-1"}), id="host name"),
        pytest.param(with_token(TOKEN), with_token("kube-api-access-vwxyz"), id="volume of the service account"),
        pytest.param(claiming("data-0"), claiming("data-1"), id="volume claim"),
        *(pytest.param(made_by(kind, "0"), made_by(kind, "1"), id=f"number in a {kind}") for kind in NUMBERS),
    ],
)
@pytest.mark.parametrize("phase", PHASES)
def test_pods_that_one_controller_makes_are_decided_about_once(phase: str, one: Object, other: Object) -> None:
    assert asks(one, other, one, phase=phase) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pod(2), pod(1), id="GPUs"),
        pytest.param(pod(2), pod(2, labels={"a": "b"}), id="label"),
        pytest.param(pod(2), pod(2, annotations={"a": "b"}), id="annotation"),
        pytest.param(pod(2), pod(2, namespace="other"), id="namespace that the pod says"),
        pytest.param(made_by("ReplicaSet", "0"), made_by("ReplicaSet", "1"), id="number in a ReplicaSet"),
        pytest.param(made_by("Job", "0"), made_by("StatefulSet", "0"), id="owner"),
        pytest.param(
            made_by("Job", "0"), pod(2, labels={"app": "a"}, ownerReferences=_owned("Job")), id="numbered or not"
        ),
        pytest.param(with_token(TOKEN), with_token(TOKEN, "/data"), id="where a volume is mounted"),
        pytest.param(with_token(TOKEN), with_token("kube-api-access-longer"), id="name that no service account has"),
        *(
            pytest.param(with_token(TOKEN), with_token(TOKEN, **source), id=f"source of a volume: {of}")
            for of, source in {
                "memory": {"emptyDir": {"medium": "Memory"}},
                "on the node": {"hostPath": {"path": "/dev/nvidia0"}},
            }.items()
        ),
        pytest.param(
            with_token(TOKEN, emptyDir={"medium": "Memory", "sizeLimit": "1Gi"}),
            with_token(TOKEN, emptyDir={"medium": "Memory", "sizeLimit": "2Gi"}),
            id="size of a volume in memory",
        ),
        pytest.param(owned(pod(2), "ReplicaSet"), owned(pod(2), "DaemonSet"), id="kind of the owner"),
        pytest.param(pod(2), {**pod(2), "status": {"startTime": "2026-01-01T00:00:00Z"}}, id="started"),
        pytest.param(
            pod(2, spec={"volumes": [{"name": "d", "hostPath": {"path": "/a"}}]}),
            pod(2, spec={"volumes": [{"name": "d", "hostPath": {"path": "/dev/nvidia0"}}]}),
            id="path on the node",
        ),
    ],
)
def test_pods_that_differ_in_what_somebody_reads_are_decided_about_one_by_one(one: Object, other: Object) -> None:
    assert asks(one, other) == 2


@pytest.mark.parametrize(
    "place",
    [
        ("metadata", "labels", "name"),
        ("metadata", "annotations", "name"),
        ("spec", "nodeSelector", "name"),
        ("spec", "containers", 0, "image"),
        ("spec", "containers", 0, "name"),
        ("spec", "containers", 0, "env", 0, "name"),
        ("spec", "containers", 0, "env", 0, "value"),
        ("spec", "containers", 0, "volumeMounts", 0, "mountPath"),
        ("spec", "containers", 0, "volumeMounts", 0, "subPath"),
        ("spec", "resourceClaims", 0, "name"),
        ("spec", "tolerations", 0, "key"),
        ("spec", "priorityClassName"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_the_name_of_the_volume_is_left_out_only_where_it_stands_for_the_volume(place: tuple[str | int, ...]) -> None:
    """One that stands elsewhere, too, is a name of the author's choice, which somebody may tell pods by."""

    def named(name: str) -> Object:
        raw = with_token(name)
        raw["metadata"] |= {"labels": {}, "annotations": {}}
        raw["spec"] |= {"nodeSelector": {}, "resourceClaims": [{}], "tolerations": [{}]}
        raw["spec"]["containers"][0]["env"] = [{"name": "a", "value": "b"}]
        *above, last = place
        parent: Any = raw
        for key in above:
            parent = parent[key]
        parent[last] = name
        return owned(raw)

    one, other = (likeness_of(named(name)) for name in (TOKEN, "kube-api-access-vwxyz"))
    assert one is not None
    assert other is not None
    assert one.text != other.text


def test_a_label_that_the_policy_tells_pods_by_is_no_mere_number() -> None:
    assert asks(made_by("Job", "0"), made_by("Job", "1"), sets=(BY_INDEX,)) == 2
    assert asks(made_by("Job", "0"), made_by("Job", "1"), sets=(EVERY, BY_INDEX)) == 2


def test_an_answer_that_names_the_volume_of_a_service_account_is_that_of_one_pod() -> None:
    memory = {"medium": "Memory"}
    mounted = [with_token(name, "/dev/shm", emptyDir=memory) for name in (TOKEN, "kube-api-access-vwxyz")]
    for raw in mounted:
        raw["spec"]["containers"].append({**raw["spec"]["containers"][0], "name": "c1", "volumeMounts": []})
    assert asks(*mounted) == 2


def test_namespaces_share_nothing_of_what_is_remembered() -> None:
    decide, memory = remembering()
    for namespace in ("team", "other"):
        memory.decision(request(owned(pod(2)), namespace=namespace), (EVERY,), FACTS)
    assert decide.times == 2


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(owned(pod(2)), "UPDATE", old=owned(pod(1))), id="update"),
        pytest.param(request(owned(pod(2)), subResource="resize"), id="subresource"),
        pytest.param(request(owned(pod(2)), groups=["system:nodes"]), id="kubelet"),
        pytest.param(request(owned(pod(2, annotations={"a": "x" * LONGEST}))), id="long"),
        pytest.param(request(pod(2)), id="made by no controller"),
        pytest.param(request(owned(pod(2), uid="x" * 65)), id="uid that is none"),
        pytest.param(request({**owned(pod(2)), "kind": "Podlike"}), id="another kind"),
    ],
)
def test_only_pods_that_come_in_numbers_are_remembered(asked: AdmissionRequest) -> None:
    decide, memory = remembering("validate")
    for _ in range(2):
        memory.decision(asked, (NOTHING,), FACTS)
    assert decide.times == 2


def test_a_refused_pod_is_judged_anew_every_time() -> None:
    assert asks(pod(-1), pod(-1)) == 2


# What is forgotten


def test_what_is_remembered_has_a_bound_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST_KEPT", 4)
    some = [pod(2, labels={"a": str(number)}) for number in range(4)]
    assert asks(*some, *some) == 4
    assert asks(*some, pod(2), *some) == 9


def test_what_is_remembered_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [pod(2, labels={"a": str(number)}) for number in range(4)]
    monkeypatch.setattr(alike, "MOST_BYTES", 60_000)
    assert asks(*some, *some) == 4
    monkeypatch.setattr(alike, "MOST_BYTES", 20_000)
    assert asks(*some, *some) == 8
    monkeypatch.setattr(alike, "MOST_BYTES", 1_000)
    assert asks(pod(2), pod(2)) == 2


def test_another_snapshot_or_policy_is_decided_by_at_once() -> None:
    decide, memory = remembering()
    asked = request(owned(pod(2)))
    states = [(SETS[0], FACTS), (SETS[0], WITHOUT_CLASSES), (SETS[1], WITHOUT_CLASSES), (SETS[3], WITHOUT_CLASSES)]
    states += [((SETS[3][1], SETS[3][0]), WITHOUT_CLASSES), ((injecting(),), FACTS), ((injecting(),), FACTS)]
    states += [((EVERY,), WITHOUT_CLASSES), ((EVERY, BY_INDEX), WITHOUT_CLASSES), ((EVERY,), WITHOUT_CLASSES)]
    for sets, snapshot in states:
        for _ in range(2):
            memory.decision(asked, sets, snapshot)
    assert decide.times == len(states)


def test_other_news_of_an_image_make_a_new_decision() -> None:
    (decide, memory), images = remembering(), Images()
    for pending in (True, True, False, False):
        images.known["registry.example.com/train:1"] = ImageInfo(is_pending=pending)
        memory.decision(request(owned(pod(2))), (EVERY,), FACTS.with_images(images))
    assert decide.times == 2


def test_no_snapshot_is_kept_alive_by_decisions() -> None:
    snapshot = Snapshot.of(NODES)
    _, memory = remembering()
    for _ in range(2):
        memory.decision(request(owned(pod(2))), (EVERY,), ClusterFacts(snapshot))
    gone = weakref.ref(snapshot)
    del snapshot
    gc.collect()
    assert gone() is None


def test_controllers_that_were_met_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST_MET", 2)
    decide, memory = remembering()
    for uid in ("1", "2", "3", "1", "1", "1"):
        memory.decision(request(owned(pod(2), uid=uid)), (EVERY,), FACTS)
    assert decide.times == 4


def test_a_dry_run_that_is_remembered_has_no_image_looked_up_and_the_next_pod_has() -> None:
    decide, memory = remembering()
    dry, wet = Images(), Images()
    for images in (dry, wet):
        asked = request(owned(pod(2)), dryRun=images is dry)
        memory.decision(asked, (EVERY,), FACTS.with_images(images))
    assert decide.times == 1
    assert set(dry.asked) == set(wet.asked) != set()


def test_a_controller_is_given_up_whose_pods_are_like_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "TRIES", 2)
    apart = [pod(2, labels={"a": str(number)}) for number in range(3)]
    assert asks(apart[0], apart[1], apart[0], apart[1]) == 4
    assert asks(apart[0], apart[0], apart[1], apart[0], apart[1]) == 2
    assert asks(apart[0], apart[0], apart[1], apart[2], apart[0]) == 4


def test_a_remembered_decision_is_about_the_pod_that_was_asked_about() -> None:
    """Whatever is counted and logged of it is of this pod, and the ledgers are asked about it."""
    _, memory = remembering()
    for name in ("a", "b", "c"):
        asked = request(owned(pod(2, name=name)))
        outcome = memory.decision(asked, (NOTHING,), FACTS).outcome
        assert outcome is not None
        assert outcome.object == asked.object

"""Pods that are alike are decided about once, and get the answers that each would get by itself."""

import gc
import weakref
from typing import Any

import pytest

from tests.admission.alike_pods import (
    BY_INDEX,
    EVERY,
    INDEX,
    NOTHING,
    PHASES,
    SETS,
    TOKEN,
    Images,
    Object,
    injecting,
    owned,
    owner_of,
    remembering,
)
from tests.reviews import FACTS, NODES, WITHOUT_CLASSES, pod, request
from webhook import engine
from webhook.admission import decision_cache
from webhook.admission.admission_review import AdmissionRequest
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot
from webhook.model.image import ImageInfo
from webhook.model.likeness import LONGEST, NUMBERS, likeness_of
from webhook.policy.policy_set import PolicySet


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No controller is given up, so that what tells pods apart is the only reason to decide about them one by one."""
    monkeypatch.setattr(decision_cache, "TRIES", 10_000)


# Which pods are alike


def asks(*raws: Object, phase: str = "mutate", sets: tuple[PolicySet, ...] = (EVERY,)) -> int:
    """How often a phase decides about these pods of a controller. The validating phase gets completed pods."""
    decide, memory = remembering(phase)
    for raw in map(owned, raws):
        asked = raw if phase == "mutate" else engine.mutate(raw, sets[0].default, FACTS).object
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
            made_by("Job", "0"), pod(2, labels={"app": "a"}, ownerReferences=owner_of("Job")), id="numbered or not"
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
    monkeypatch.setattr(decision_cache, "MOST_KEPT", 4)
    some = [pod(2, labels={"a": str(number)}) for number in range(4)]
    assert asks(*some, *some) == 4
    assert asks(*some, pod(2), *some) == 9


def test_what_is_remembered_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [pod(2, labels={"a": str(number)}) for number in range(4)]
    monkeypatch.setattr(decision_cache, "MOST_BYTES", 70_000)
    assert asks(*some, *some) == 4
    monkeypatch.setattr(decision_cache, "MOST_BYTES", 20_000)
    assert asks(*some, *some) == 8
    monkeypatch.setattr(decision_cache, "MOST_BYTES", 1_000)
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
    monkeypatch.setattr(decision_cache, "MOST_MET", 2)
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
    monkeypatch.setattr(decision_cache, "TRIES", 2)
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

"""A claim that Kubernetes makes for a pod has the pod's exceptions; a claim that says so of itself has not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.build import FACTS, request
from tests.engine.test_exceptions import END, ENTRY, written
from tests.facts.claim_samples import claiming_pod, made_for, stored_claim
from tests.golden import each
from webhook.admission import claim_phase
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse
from webhook.admission.claim_phase import CONTROLLERS, SCHEDULER, PodLookUp, PodsOfClaims, PodUnknownError
from webhook.admission.phases import Decision
from webhook.admission.watchdog import TimeBudget
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.model.claims import ClaimOwner, claim_owner
from webhook.model.subject import PodSubject, subject_of

NOW = END - 1
LABELLED = {**ENTRY, "match": {"labels": {"app": "bert"}}}
MADE_BY = min(CONTROLLERS)
BERT = {**claiming_pod("p"), "kind": "Pod", "apiVersion": "v1"}
BERT["metadata"] = {**BERT["metadata"], "labels": {"app": "bert"}}


class Pods:
    """Stored pods by name, which counts how often it is asked."""

    def __init__(self, *pods: Mapping[str, Any]) -> None:
        self.pods = {one["metadata"]["name"]: one for one in pods}
        self.asked: list[tuple[str, str]] = []

    def subject(self, namespace: str, owner: ClaimOwner, seconds: float) -> PodSubject | None:
        assert 0 < seconds <= 1
        self.asked.append((namespace, owner.name))
        found = self.pods.get(owner.name)
        return subject_of(found) if found is not None and owner.is_of(found) else None


def made(count: int = 9, **changes: Any) -> dict[str, Any]:
    raw = made_for("p", stored_claim("c", count, namespace="team"))
    raw["metadata"] |= changes
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}


def by(user: str, raw: dict[str, Any]) -> AdmissionRequest:
    return request(raw, userInfo={"username": user, "groups": ["system:authenticated"]})


def answer(tmp_path: Path, raw: dict[str, Any], pods: Pods, user: str = MADE_BY, entry: Any = LABELLED) -> Decision:
    look_up = PodLookUp(pods, "team", TimeBudget())
    decision = claim_phase.claims(by(user, raw), written(tmp_path, entry), FACTS, NOW, look_up)
    return look_up.explained(decision)


@pytest.mark.parametrize("user", sorted(CONTROLLERS))
def test_a_claim_of_an_excepted_pod_is_admitted_and_says_why(tmp_path: Path, user: str) -> None:
    decision = answer(tmp_path, made(), pods := Pods(BERT), user)
    assert decision.answer.is_allowed
    assert any("by exception bert-legacy, OPS-123" in one for one in decision.answer.warnings)
    assert "bert-legacy" in decision.answer.audit_annotations["exceptions"]
    assert pods.asked == [("team", "p")]


@pytest.mark.parametrize("user", ["eve", "system:serviceaccount:team:resource-claim-controller", SCHEDULER])
def test_whoever_else_makes_a_claim_for_an_excepted_pod_gets_nothing(tmp_path: Path, user: str) -> None:
    assert not answer(tmp_path, made(), pods := Pods(BERT), user).answer.is_allowed
    assert pods.asked == []


NO_TEMPLATE = {**BERT, "spec": {**BERT["spec"], "resourceClaims": [{"name": "gpus", "resourceClaimName": "c"}]}}
OF_ANOTHER_NAME = {**BERT, "metadata": {**BERT["metadata"], "uid": "another"}}


@each(
    "stored",
    {
        "no pod": (),
        "a pod of the same name that came later": (OF_ANOTHER_NAME,),
        "a pod that names an existing claim": (NO_TEMPLATE,),
        "a": ({**BERT, "spec": {"resourceClaims": [{"name": "other", "resourceClaimTemplateName": "t"}]}},),
    },
)
def test_a_claim_of_no_such_pod_is_judged_by_itself_and_says_so(tmp_path: Path, stored: Any) -> None:
    refused = answer(tmp_path, made(), Pods(*stored)).answer
    assert not refused.is_allowed
    assert refused.code == 403
    assert "Note: no exception of pod p counts, because no pod with this uid and claim is stored." in refused.message


def test_a_pod_without_the_exception_does_not_help_its_claim(tmp_path: Path) -> None:
    other = {**BERT, "metadata": {**BERT["metadata"], "labels": {"app": "gpt"}}}
    refused = answer(tmp_path, made(), Pods(other)).answer
    assert (refused.is_allowed, "Note:" in refused.message) == (False, False)


def test_nothing_is_asked_about_claims_that_no_exception_can_change(tmp_path: Path) -> None:
    pods = Pods(BERT)
    assert answer(tmp_path, made(8), pods).answer.is_allowed
    assert not answer(tmp_path, made(), pods, entry={**LABELLED, "rules": ["tolerations"]}).answer.is_allowed
    assert not answer(tmp_path, made(), pods, entry={**LABELLED, "namespaces": ["others"]}).answer.is_allowed
    assert not answer(tmp_path, made(), pods, entry={**LABELLED, "until": "2027-01-10"}).answer.is_allowed
    assert pods.asked == []


def test_an_exception_to_containers_holds_for_claims_only_if_all_with_gpus_are_meant(tmp_path: Path) -> None:
    spec = {
        "containers": [
            {"name": "a", "image": "x:1", "resources": {"claims": [{"name": "gpus"}]}},
            {"name": "b", "image": "y:1", "resources": {"limits": {"nvidia.com/gpu": 1}}},
        ],
        "resourceClaims": BERT["spec"]["resourceClaims"],
    }
    stored = {**BERT, "spec": spec}
    one = {**ENTRY, "match": {"containers": ["a"]}}
    assert not answer(tmp_path, made(), Pods(stored), entry=one).answer.is_allowed
    assert answer(tmp_path, made(), Pods(stored), entry={**ENTRY, "match": {"containers": ["?"]}}).answer.is_allowed


@pytest.mark.parametrize(("error", "code"), [(UnreachableError("away"), 503), (RefusedError(403, "no"), 500)])
def test_a_pod_that_cannot_be_read_makes_the_refusal_a_fault_with_a_reason(
    tmp_path: Path, error: ApiServerError, code: int
) -> None:
    class Away(Pods):
        def subject(self, *_: object) -> PodSubject | None:
            raise PodUnknownError("the pod cannot be read", error.code)

    refused = answer(tmp_path, made(), Away()).answer
    assert refused.code == code
    assert refused.message.endswith("whether an exception holds for pod p, because the pod cannot be read.")
    assert "at most 8" in refused.message


def test_a_claim_without_a_pod_has_no_owner() -> None:
    owner = made()["metadata"]["ownerReferences"][0]
    assert claim_owner(made()) == ClaimOwner("p", owner["uid"], "gpus")
    for change in ({"kind": "PodGroup"}, {"apiVersion": "v2"}, {"name": 7}, {"uid": ""}, {"controller": False}):
        assert claim_owner(made(ownerReferences=[{**owner, **change}])) is None
    assert claim_owner({"metadata": {"ownerReferences": "x"}}) is None


class Server:
    """Answers one read, or fails."""

    def __init__(self, answer: Mapping[str, Any] | ApiServerError) -> None:
        self.answer, self.paths = answer, list[str]()

    def get(self, path: str, *_: object) -> Mapping[str, Any]:
        self.paths.append(path)
        if isinstance(self.answer, ApiServerError):
            raise self.answer
        return self.answer


def test_the_pod_of_a_claim_is_read_as_it_is_stored() -> None:
    owner = claim_owner(made())
    assert owner is not None
    server: Any = Server(BERT)
    assert PodsOfClaims(server).subject("team", owner, 1.0) == subject_of(BERT)
    assert server.paths == ["/api/v1/namespaces/team/pods/p"]
    other: Any = Server(OF_ANOTHER_NAME)
    assert PodsOfClaims(other).subject("team", owner, 1.0) is None


def test_a_read_that_fails_is_not_taken_for_absence() -> None:
    owner = claim_owner(made())
    assert owner is not None
    server: Any = Server(ApiServerError("away"))
    with pytest.raises(PodUnknownError, match="cannot be read"):
        PodsOfClaims(server).subject("team", owner, 1.0)


def test_only_few_pods_are_read_at_a_time() -> None:
    owner = claim_owner(made())
    assert owner is not None
    within: list[str] = []
    reader: Any

    class Nested(Server):
        def get(self, *_: object) -> Mapping[str, Any]:
            try:
                reader.subject("team", owner, 0.01)
            except PodUnknownError as error:
                within.append(str(error))
            return self.answer if isinstance(self.answer, dict) else {}

    server: Any = Nested(json.loads(json.dumps(BERT)))
    reader = PodsOfClaims(server)
    assert reader.subject("team", owner, 1.0) is not None
    assert within == ["too many pods are being looked up; Kubernetes tries again"]


def test_the_answer_of_a_refusal_stays_an_answer() -> None:
    look_up = PodLookUp(None, "team", TimeBudget())
    allowed = Decision(AdmissionResponse(is_allowed=True))
    assert look_up(ClaimOwner("p", "1", "gpus")) is None
    assert look_up.explained(allowed) is allowed

"""Quotas count GPUs that come by resource claims: those of pods, those that people claim, and each of them once."""

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.e2e.claimed import API, Raw, claim, claiming, path_of, requests, template
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import COMMAND
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import PATIENCE
from tests.e2e.quota_site import QuotaSite
from webhook.ledger.entries import entries_in
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Quota, QuotaScope


class Team:
    """A namespace with a quota of 4 GPUs."""

    def __init__(self, quotas: QuotaSite, name: str) -> None:
        self.plane, self.quotas, self.name = quotas.plane, quotas, name

    def tried(self, raw: Raw) -> tuple[int, str]:
        """Status and message of a create."""
        status, answer = self.plane.raw("POST", f"{path_of(self.name, raw)}?timeout={PATIENCE}s", raw)
        return status, str(answer.get("message", ""))

    def make(self, raw: Raw) -> None:
        assert self.tried(raw) == (201, "")

    def drop(self, raw: Raw) -> None:
        path = f"{path_of(self.name, raw)}/{raw['metadata']['name']}?gracePeriodSeconds=0"
        status, said = self.plane.raw("DELETE", path)
        assert status in {200, 202}, said

    def claims(self) -> list[Raw]:
        return list(self.plane.raw("GET", f"{API}/namespaces/{self.name}/resourceclaims")[1]["items"])

    def used(self) -> int:
        """The GPUs that the ledger has."""
        ledger = self.quotas.ledger(f"namespace.{self.name}")
        counts = entries_in(ledger).counts if ledger else {}
        return Usage.of(counts, Quota(QuotaScope.NAMESPACE, self.name, (self.name,), ())).units


@pytest.fixture
def team(
    quotas: QuotaSite, cluster: ControlPlane, make_namespace: Callable[[str], str]
) -> Team:  # whose controllers make claims
    return Team(quotas, make_namespace("few"))


def knows(team: Team, name: str) -> None:
    """Return when every replica knows a template: pods with it are told of its devices."""
    raw = claiming("known", resourceClaimTemplateName=name)
    path = f"{path_of(team.name, raw)}?dryRun=All"

    def is_known() -> bool:
        return "requests 5 GPUs" in str(team.plane.raw("POST", path, raw)[1].get("message"))

    eventually(lambda: all(is_known() for _ in range(9)))


def events(team: Team) -> str:
    """What has happened in the namespace, in words."""
    found = team.plane.raw("GET", f"/api/v1/namespaces/{team.name}/events")[1]["items"]
    return " ".join(one["message"] for one in found)


def audited(team: Team) -> Raw:
    """The report of an audit of the namespace."""
    policies = team.quotas.replicas.running[0].policies.directory
    command = ["audit", "--cluster", f"--kubeconfig={team.plane.kubeconfig}", f"--policies={policies}", "--format=json"]
    done = subprocess.run([*COMMAND, *command, f"--namespace={team.name}"], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def test_a_pod_brings_what_its_template_requests_and_the_claim_takes_the_room_over(team: Team) -> None:
    team.make(template("five", requests(5)))
    knows(team, "five")
    status, said = team.tried(claiming("a", resourceClaimTemplateName="five"))
    assert status == 403
    assert "gpuQuota: spec: requests 5 GPUs; the GPU quota allows 4 GPUs in all" in said
    team.drop(template("five", {}))
    team.make(template("five", requests(3)))
    eventually(lambda: team.tried(claiming("a", resourceClaimTemplateName="five"))[0] == 201)
    eventually(lambda: len(team.claims()) == 1)
    eventually(lambda: team.used() == 3)
    (made,) = team.claims()
    assert team.quotas.entered(f"namespace.{team.name}") == {made["metadata"]["uid"]}
    status, said = team.tried(gpu_pod("beyond", 2))
    assert (status, "requested 2, used 3 of 4 (1 free)" in said) == (403, True), said
    team.make(gpu_pod("last", 1))
    team.drop(claiming("a"))
    eventually(lambda: team.claims() == [])
    eventually(lambda: team.used() == 1)
    team.make(gpu_pod("others", 3))


def test_a_claim_that_somebody_makes_counts_until_it_is_deleted(team: Team) -> None:
    status, said = team.tried(claim("five", requests(5)))
    assert status == 403
    assert "requests 5 GPUs; GPU quota" in said
    team.make(claim("three", requests(3)))
    team.make(claiming("a", resourceClaimName="three"))
    team.make(claiming("b", resourceClaimName="three"))
    assert team.used() == 3
    status, said = team.tried(claim("two", requests(2)))
    assert "exceeded GPU quota" in said
    assert "largest: claim three 3" in said
    team.drop(claiming("a"))
    team.drop(claiming("b"))
    assert team.tried(gpu_pod("two", 2))[0] == 403
    team.drop(claim("three", {}))
    team.make(gpu_pod("two", 2))


def test_a_template_that_is_swapped_between_pod_and_claim_brings_nothing_more(team: Team) -> None:
    """The pod comes before its template, so that nothing is known of it."""
    team.make(claiming("early", resourceClaimTemplateName="late"))
    team.make(template("late", requests(5)))

    eventually(lambda: "requests 5 GPUs; GPU quota" in events(team))
    assert team.claims() == []
    assert team.used() == 0


def test_the_annotations_of_a_template_exempt_its_claim_from_nothing(team: Team) -> None:
    """Kubernetes copies them into the claim. The template comes after the pod, so that the pod is admitted."""
    pod = claiming("early", resourceClaimTemplateName="late")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    team.make(pod)
    late = template("late", requests(4))
    late["spec"]["metadata"] = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    team.make(late)
    eventually(lambda: "exceeded GPU quota" in events(team))
    assert (team.claims(), team.used()) == ([], 1)


def test_a_claim_whose_deletion_hangs_counts_until_it_is_gone(team: Team) -> None:
    raw = claim("four", requests(4))
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    team.make(raw)
    team.drop(raw)
    (leaving,) = team.claims()
    assert leaving["metadata"]["deletionTimestamp"]
    for _ in range(3):
        assert team.tried(gpu_pod("more", 1))[0] == 403
        time.sleep(3)
    assert team.plane.raw("PATCH", f"{path_of(team.name, raw)}/four", {"metadata": {"finalizers": None}})[0] == 200
    eventually(lambda: team.tried(gpu_pod("more", 4))[0] == 201)


def test_an_audit_and_the_objects_for_tenants_have_claims_beside_pods(team: Team) -> None:
    team.make(claim("three", requests(3)))
    team.make(gpu_pod("one", 1))
    path = f"/apis/gpupolicy.dev/v1alpha1/namespaces/{team.name}/gpuquotas"

    def shown() -> list[Raw]:
        found = team.plane.raw("GET", path)[1].get("items", ())
        return [one.get("status", {}).get("gpus", {}) for one in found]

    amount = {"hard": "4", "used": "4", "byClaims": "3"}
    eventually(lambda: shown() == [amount])
    (quota,) = audited(team)["quotas"]
    assert quota["gpus"] == amount


def test_the_claim_of_an_excepted_pod_is_excepted_and_no_other_one(
    quotas: QuotaSite, cluster: ControlPlane, make_namespace: Callable[[str], str]
) -> None:
    """The exception is about a label of the pod, which its claim does not have."""
    team = Team(quotas, make_namespace("capped"))
    team.make(template("five", requests(5)))
    usual, large = (claiming(name, resourceClaimTemplateName="five") for name in ("usual", "large"))
    large["metadata"]["labels"] = {"size": "large"}
    eventually(lambda: team.tried(usual)[0] == 403)
    team.make(large)
    eventually(lambda: len(team.claims()) == 1)
    eventually(lambda: team.used() == 5)
    (made,) = team.claims()
    forged = claim("forged", requests(5))
    forged["metadata"] |= {key: made["metadata"][key] for key in ("annotations", "ownerReferences")}
    status, said = team.tried(forged)
    assert (status, "requests 5 GPUs; the policy allows at most 2" in said) == (403, True), said
    found = [one for one in audited(team)["findings"] if one["rule"] == "gpuLimits"]
    assert {(one["object"]["kind"], one["level"]) for one in found} == {("Pod", "skip"), ("ResourceClaim", "skip")}

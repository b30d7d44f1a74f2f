"""Replicas are replaced while pods are created, and the API server restarts: nobody loses a pod by it."""

from tests.e2e.objects import gpu_pod
from tests.e2e.steady_load import TOO_MANY
from tests.lab.soak.site import SECONDS, Site

CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/gpu-policy"
    for kind in ("mutating", "validating")
]


def test_a_quiet_minute_is_shared_by_all_replicas(site: Site) -> None:
    """What the other figures are measured by, and the proof that every replica is asked."""
    with site.under_load("nothing happens") as account:
        pass
    account.demand_no_gap()
    assert all(replica.metric("gpu_policy_requests_total") > 0 for replica in site.replicas.running)


def test_replicas_replaced_one_by_one_lose_no_create(site: Site) -> None:
    """Again and again, as in a rolling update with room for one more: one ends when its successor is ready."""
    with site.under_load("replicas replaced one by one, with room for one more") as account:
        while not account.load.lasted(SECONDS):
            site.replicas.replace_one_by_one()
    account.demand_no_gap()


def test_replicas_restarted_one_by_one_lose_no_create(site: Site) -> None:
    """Without room for one more: two serve while the third restarts."""
    with site.under_load("replicas restarted one by one, in their places") as account:
        while not account.load.lasted(SECONDS):
            site.replicas.restart_one_by_one()
    account.demand_no_gap()


def test_configurations_are_still_there_after_every_replica_has_ended(site: Site) -> None:
    """As they were, so that nothing is admitted unjudged where an answer is required, until replicas are back."""
    pods = f"/api/v1/namespaces/{site.namespace}/pods?dryRun=All"
    before = [site.plane.raw("GET", path) for path in CONFIGURATIONS]
    assert [status for status, _ in before] == [200, 200]
    assert site.replicas.stop() == [0, 0, 0, None]
    assert [site.plane.raw("GET", path) for path in CONFIGURATIONS] == before
    status, answer = site.plane.raw("POST", pods, gpu_pod("unanswered"))
    assert status == 500
    assert 'failed calling webhook "mutate.gpupolicy.dev"' in answer["message"]
    site.replicas.start()
    site.wait_for_members()
    assert site.plane.raw("POST", pods, gpu_pod("answered"))[0] == 201
    assert site.plane.raw("POST", pods, gpu_pod("forbidden", TOO_MANY))[0] == 403


def test_an_api_server_that_restarts_finds_every_replica_ready(site: Site) -> None:
    """Creates that find no API server do not count; all others are answered, by replicas that stayed ready."""
    with site.under_load("the API server restarts twice") as account, site.replicas.readiness_watched() as unready:
        for moment in (SECONDS / 6, SECONDS * 2 / 3):
            account.load.go_on_for(moment)
            site.plane.restart_apiserver()
    account.demand_no_gap(api_server_away=True)
    assert unready == []
    assert account.creates[-1].is_as_it_should_be

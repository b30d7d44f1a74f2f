"""Quotas in the validating phase: which pods get an entry and when, what is answered without a ledger, and metrics."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from tests.admission.quota_desk import FULL, KEY, Site, full, policy_file, running, shared_quotas_file
from tests.build import NAMESPACE, pod, review, workload
from tests.golden import each
from tests.ledger.bookkeeping import eventually
from tests.operation import Operated, operated
from webhook.ledger.context import LedgerTiming
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.verdicts import AlreadyStored, LedgerFull, TooManyUnconfirmed, Verdict
from webhook.policy.policy_store import HELD_SECONDS
from webhook.quota.quotas import Excess, Limit, Measure
from webhook.replica.quota_service import intervals_for, quotas_in_force


def test_of_two_pods_that_do_not_fit_together_the_second_is_refused(site: Site) -> None:
    assert site.validate(2, 1) == ""
    assert site.validate(1, 2) == full(1)
    assert site.entered == {1}


def test_a_refusal_names_pods_of_the_namespace_and_of_no_other(site: Site) -> None:
    shared_quotas_file(site.directory, {"name": "all", "namespaces": ["*"], "gpus": 67})
    site.policies.check()
    message = site.validate(2)
    assert message == (
        "gpuQuota: spec: exceeded GPU quota 'all': requested 2, used 66 of 67 (1 free); largest: running 2; free some "
        "or request 1."
    )


def test_a_refusal_that_names_nobody_says_what_was_asked_and_what_the_limit_is(tmp_path: Path) -> None:
    site = Site(tmp_path, tells_usage=False)
    shared_quotas_file(site.directory, {"name": "all", "namespaces": ["*"], "gpus": 67})
    site.policies.check()
    said = site.validate(3)
    assert said.split("\n") == [
        "2 violations:",
        f"- gpuQuota: spec: exceeded GPU quota '{NAMESPACE}': requested 3, more than is free of 4; free some or "
        "request less.",
        "- gpuQuota: spec: exceeded GPU quota 'all': requested 3, more than is free of 67; free some or request less.",
    ]
    assert not [word for word in ("running", "foreign", "other", "used", "66", "(") if word in said]


def test_a_namespace_with_a_stored_pod_is_known(site: Site) -> None:
    assert [site.desk.has_pods_in(name) for name in (NAMESPACE, "other", "made-up")] == [True, True, False]


def test_a_call_that_is_repeated_counts_once(site: Site) -> None:
    assert [site.validate(2, 1) for _ in range(3)] == [""] * 3
    assert site.entered == {1}


def test_a_pod_without_a_uid_goes_by_that_of_its_request(site: Site) -> None:
    for uid in ("705ab4f5-6393-11e8-b7cc-42010a800001", "no uuid at all"):
        for metadata in ({"name": "p"}, {"name": "p", "uid": 7}):
            answer = site.client.post("/validate", json=review(pod(1) | {"metadata": metadata}, uid=uid))
            assert answer.json["response"]["allowed"]
    assert len(site.store.read(KEY, 1).entries.by_uid) == 1 + 2


@pytest.mark.parametrize(("gpus", "message"), [(2, ""), (3, FULL)], ids=["fits", "does not"])
def test_a_dry_run_gets_the_same_answer_and_leaves_nothing(site: Site, gpus: int, message: str) -> None:
    assert site.validate(gpus, 1, dryRun=True) == message
    assert MemoryStore.read_all(site.store, 1) == {}, "not even a ledger is begun"
    assert site.validate(gpus, 2) == message


@each(
    "parts",
    {
        "an update": {"operation": "UPDATE", "old": pod(2)},
        "a deletion": {"operation": "DELETE"},
        "its status": {"subResource": "status", "operation": "UPDATE", "old": pod(2)},
        "its binding": {"subResource": "binding"},
        "its resize": {"subResource": "resize", "operation": "UPDATE", "old": pod(2)},
        "a namespace without a quota": {"namespace": "unlimited"},
    },
)
def test_nothing_but_the_creation_of_a_pod_under_a_quota_is_entered(site: Site, parts: dict[str, Any]) -> None:
    assert site.validate(2, 1, **parts) == ""
    assert site.store.calls == []


@each(
    "path, obj",
    {
        "the mutating phase": ("/mutate", pod(2)),
        "a Deployment": ("/mutate", workload("Deployment", pod(2))),
        "a pod without GPUs": ("/validate", pod(0)),
        "a Job": ("/validate", workload("Job", pod(2))),
        "a Job where it is judged": ("/workloads", workload("Job", pod(2))),
    },
)
def test_no_ledger_is_read_for_anything_else(site: Site, path: str, obj: dict[str, Any]) -> None:
    assert site.ask(path, obj)["allowed"]
    assert site.store.calls == []


def test_what_a_node_shows_of_a_static_pod_is_not_judged_and_not_entered(site: Site) -> None:
    raw = pod(64, annotations={"kubernetes.io/config.mirror": "x"})
    assert site.ask("/validate", raw, groups=["system:nodes"])["allowed"]
    assert site.store.calls == []


def test_a_pod_that_a_rule_refuses_is_not_entered(site: Site) -> None:
    limits = {"mode": "enforce", "maxPerPod": 1}
    policy_file(site.directory, NAMESPACE, gpuQuota={"mode": "enforce", "gpus": 40}, gpuLimits=limits)
    site.policies.check()
    assert site.validate(2).startswith("gpuLimits: ")
    assert site.store.calls == []


def test_a_pod_that_never_fits_is_refused_without_its_ledger(site: Site) -> None:
    assert site.validate(5).startswith("gpuQuota: spec: requests 5 GPUs; ")
    assert site.store.calls == []


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_what_is_not_enforced_is_entered_and_said_to_the_author_or_the_audit_log(tmp_path: Path, mode: str) -> None:
    site = Site(tmp_path, mode=mode)
    response = site.ask("/validate", pod(3))
    assert response["allowed"]
    said = response["warnings"] if mode == "warn" else [response["auditAnnotations"]["audited"] + "."]
    assert said == [FULL]
    assert site.entered == {1}


def test_a_deployment_whose_pods_will_not_all_fit_is_warned_of_when_it_is_applied(site: Site) -> None:
    raw = workload("Deployment", pod(2))
    raw["spec"]["replicas"] = 3
    response = site.ask("/workloads", raw)
    (warning,) = response["warnings"]
    assert (response["allowed"], "its 3 pods request 6 GPUs together" in warning) == (True, True)


# What operators and tenants are shown.


def test_what_is_used_allowed_and_refused_is_in_the_metrics(site: Site) -> None:
    site.validate(2, 1)
    site.validate(1, 2)
    site.desk.start()
    eventually(lambda: site.value("entries", quota=KEY) == 2)
    assert site.value("used", quota=KEY, limit="gpus") == 4
    assert site.value("hard", quota=KEY, limit="gpus") == 4
    assert site.value("refused_total", quota=KEY) == 1
    assert site.value("conflicts_total", quota=KEY) == 0
    assert site.value("ledger_duration_seconds_count", operation="reserve") == 2
    assert site.value("ledger_duration_seconds_count", operation="look_up") >= 1
    age = site.value("reconcile_age_seconds")
    assert age is not None


def test_a_write_that_another_replica_was_before_is_counted(site: Site) -> None:
    site.validate(1, 1)
    assert site.value("conflicts_total", quota=KEY) == 0
    site.store.remove(KEY, site.store.read(KEY, 1), 1)
    assert site.validate(1, 2) == ""
    assert site.value("conflicts_total", quota=KEY) == 1


def test_tenants_are_shown_every_quota_of_their_namespaces(site: Site) -> None:
    shared_quotas_file(site.directory, {"name": "shared", "namespaces": [NAMESPACE, "x-*"], "gpus": 9})
    site.policies.check()
    site.desk.start()
    eventually(lambda: bool(site.shown.standings))
    shown = {key: (one["mode"], one["gpus"]["used"]) for (_, key), one in site.shown.standings[0].items()}
    assert shown == {KEY: ("enforce", "2"), "shared.shared": ("enforce", "2")}


def test_a_quota_that_comes_with_a_reload_is_kept_from_then_on(tmp_path: Path) -> None:
    site = Site(tmp_path, mode="disabled")
    assert site.validate(8) == ""
    site.desk.start()
    eventually(lambda: site.shown.standings == [{}])
    assert site.store.calls == []
    policy_file(tmp_path, NAMESPACE, gpuQuota={"mode": "enforce", "gpus": 4})
    site.policies.check()
    assert site.validate(3) == FULL
    site.desk.close()
    assert site.shown.life == ["started", "closed"]


# How often ledgers are reconciled.


def test_a_replica_that_was_just_started_may_be_the_first_one_with_its_policies(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other replicas may use earlier policies for three minutes. Until then, no entry is changed."""
    assert not quotas_in_force(site.policies).are_settled
    started = site.policies.status.loaded_at_monotonic
    monkeypatch.setattr("webhook.replica.quota_service.time.monotonic", lambda: started + HELD_SECONDS + 1)
    assert quotas_in_force(site.policies).are_settled


@pytest.mark.parametrize(("in_flight", "idle"), [(90.0, 600.0), (1000.0, 2000.0)], ids=["usual", "very long"])
def test_no_ledger_is_removed_while_what_was_entered_in_it_may_be_in_flight(in_flight: float, idle: float) -> None:
    assert idle == intervals_for(LedgerTiming(in_flight=in_flight)).idle


# The command.


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """`gpu-policy serve --inventory`, in whose inventory two of four GPUs are in use."""
    directory = tmp_path_factory.mktemp("replica")
    inventory = directory / "cluster.yaml"
    inventory.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [running("running", 2)]}))
    replica = Operated(directory, f"--inventory={inventory}")
    policy_file(replica.policies, NAMESPACE, gpuQuota={"mode": "enforce", "gpus": 4})
    try:
        replica.start()
        yield replica
    finally:
        replica.stop()


def test_a_replica_with_an_inventory_counts_its_pods_and_keeps_ledgers_in_memory(replica: Operated) -> None:
    said = []
    for number, gpus in enumerate((3, 2, 2), start=1):
        raw = pod(gpus, uid=str(UUID(int=number)))
        status, _, body = replica.ask("/validate?timeout=10s", review(raw))
        assert status == 200
        said.append(json.loads(body)["response"].get("status", {}).get("message", ""))
    assert said == [FULL, "", full(2)]
    assert replica.metric("gpu_policy_quota_refused_total", quota=KEY) == 2
    eventually(lambda: replica.metric("gpu_policy_quota_hard", quota=KEY, limit="gpus") == 4)


def test_ledgers_of_a_cluster_and_an_inventory_exclude_each_other(tmp_path: Path) -> None:
    inventory = tmp_path / "cluster.yaml"
    inventory.write_text("")
    with pytest.raises(RuntimeError, match="--inventory keeps ledgers in memory"):  # noqa: SIM117  # it never answers
        with operated(tmp_path, f"--inventory={inventory}", "--quota-ledgers=gpu-policy"):
            pass


def _answered(site: Site, monkeypatch: pytest.MonkeyPatch, verdict: Verdict) -> dict[str, Any]:
    """The status of a refusal for this verdict of the ledger."""
    monkeypatch.setattr(Ledgers, "reserve", lambda *_, **__: (verdict,))
    status: dict[str, Any] = site.ask("/validate", pod(1))["status"]
    return status


def test_a_name_that_exists_is_refused_as_the_api_server_does(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    status = _answered(site, monkeypatch, AlreadyStored("trainer"))
    assert status == {"code": 409, "reason": "AlreadyExists", "message": 'pods "trainer" already exists'}


def unconfirmed(held: int) -> TooManyUnconfirmed:
    return TooManyUnconfirmed(Excess(Limit(Measure.GPUS, "", Fraction(4)), Fraction(1), Fraction(held)), Fraction(2))


@each(
    "verdict, code, said",
    {
        "entries without pods": (
            unconfirmed(2),
            429,
            (
                "requested 1, while pods of this namespace that were admitted but are not created yet hold 2; such "
                "pods may hold 2, half of what is free for the namespace. Try again in a moment"
            ),
        ),
        "pods that were given up": (
            unconfirmed(0),
            403,
            (
                "requested 1, and pods of this namespace were admitted lately and never created; such pods may hold 2, "
                "half of what is free for the namespace. Find out what refuses them"
            ),
        ),
        "a full ledger": (
            LedgerFull(501, 500),
            403,
            (
                "with this pod, the namespace would have 501 different combinations of requested GPUs and their models "
                f"in GPU quota '{NAMESPACE}'; at most 500 are kept."
            ),
        ),
    },
)
def test_what_keeps_a_pod_out_is_said_with_found_bound_and_remedy(
    site: Site, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, code: int, said: str
) -> None:
    status = _answered(site, monkeypatch, verdict)
    assert (status["code"], said in status["message"]) == (code, True), status
    assert status.get("details") == ({"retryAfterSeconds": 1} if code == 429 else None)


GATES = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]


def gated(gpus: int, gates: int, **metadata: Any) -> dict[str, Any]:
    """A pod with so many scheduling gates."""
    raw = pod(gpus)
    return {
        **raw,
        "metadata": {**raw["metadata"], **metadata},
        "spec": {**raw["spec"], "schedulingGates": GATES[:gates]},
    }


def update(site: Site, before: int, after: int, number: int = 1, **parts: Any) -> str:
    """The refusal of an update of a pod of 2 GPUs from so many gates to so many."""
    old = gated(2, before)
    old["metadata"]["uid"] = str(UUID(int=number))
    new = gated(2, after, **parts.pop("metadata", {}))
    return str(
        site.ask("/validate", new, number, operation="UPDATE", old=old, **parts).get("status", {}).get("message", "")
    )


@pytest.mark.parametrize(
    ("before", "after", "parts", "entered"),
    [
        (2, 1, {}, set()),
        (1, 0, {}, {1}),
        (2, 0, {}, {1}),
        (0, 0, {}, set()),
        (1, 0, {"dryRun": True}, set()),
        (1, 0, {"subResource": "status"}, set()),
        (1, 0, {"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}, set()),
    ],
)
def test_a_pod_is_entered_when_its_last_gate_goes(
    site: Site, before: int, after: int, parts: dict[str, Any], entered: set[int]
) -> None:
    for number in (1, 2, 3):
        assert "status" not in site.ask("/validate", gated(2, 1), number)
    assert site.entered == set()
    assert update(site, before, after, **parts) == ""
    assert site.entered == entered


def test_of_two_gated_pods_that_do_not_fit_together_the_second_may_not_start(site: Site) -> None:
    assert update(site, 1, 0, 1) == ""
    assert update(site, 1, 0, 2) == full(2)


def test_where_gated_pods_count_at_once_they_are_entered_when_they_are_created(tmp_path: Path) -> None:
    site = Site(tmp_path, gated="now")
    assert "status" not in site.ask("/validate", gated(2, 1), 1)
    assert site.ask("/validate", gated(2, 1), 2)["status"]["message"] == full(2)
    assert update(site, 1, 0, 3) == ""
    assert site.entered == {1}


def test_a_gated_pod_that_can_never_start_is_refused_at_once(site: Site) -> None:
    assert "allows 4 GPUs in all" in str(site.ask("/validate", gated(5, 1))["status"]["message"])


def applied(site: Site, replicas: int, **parts: object) -> list[str]:
    """The warnings of a review of a StatefulSet of pods with 2 GPUs each."""
    raw = workload("StatefulSet", pod(2)) | {"metadata": {"name": "w", "namespace": NAMESPACE}}
    raw["spec"]["replicas"] = replicas
    response = site.ask("/workloads", raw, **parts)
    assert response["allowed"]
    return list(response.get("warnings", ()))


def test_a_workload_is_told_what_is_free_now_from_memory_alone(site: Site) -> None:
    assert applied(site, 1) == []
    (warning,) = applied(site, 2)
    assert "its 2 pods request 4 GPUs together; 2 of 4 are in use, 2 free; largest: running 2. Free some" in warning
    assert site.store.calls == [], "no ledger is read or written"
    assert site.validate(2) == ""
    calls = list(site.store.calls)
    (warning,) = applied(site, 1)
    assert "requests 2 GPUs; 4 of 4 are in use, 0 free; largest: running 2. Free some" in warning
    assert site.store.calls == calls


def test_a_replica_without_ledgers_says_nothing_of_what_is_free(tmp_path: Path) -> None:
    assert applied(Site(tmp_path, has_ledgers=False), 2) == []


@pytest.mark.parametrize("shares", [False, True], ids=["its own quota", "one that others share"])
def test_pods_that_the_ledger_does_not_have_yet_count_once(site: Site, shares: bool) -> None:
    if shares:
        shared_quotas_file(site.directory, {"name": "all", "namespaces": ["*"], "gpus": 70})
        site.policies.check()
    (active, *_) = reversed(site.policies.current.quotas_for(NAMESPACE))
    ledgers = site.service._ledgers
    assert (ledgers.in_use(active.quota, NAMESPACE) is None) is shares, "nothing is known of a shared quota before"
    assert site.validate(2) == ""
    found = ledgers.in_use(active.quota, NAMESPACE)
    assert (found.counts.total(), [one.name for one in found.pods]) == (3 if shares else 2, ["running"])

"""What the ledgers of a replica know of its policies."""

from pathlib import Path

import pytest

from webhook.admission.quota_service import intervals_for, quotas_in_force
from webhook.ledger.context import LedgerTiming
from webhook.policy.policy_store import HELD_SECONDS, PolicyStore


@pytest.fixture
def policies(tmp_path: Path) -> PolicyStore:
    (tmp_path / "_quotas.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"
        "spec: {quotas: [{name: research, namespaces: ['research-*'], gpus: 8}]}\n"
    )
    return PolicyStore(tmp_path)


def test_a_replica_that_was_just_started_may_be_the_first_one_with_its_policies(
    policies: PolicyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other replicas may use earlier policies for three minutes. Until then, no entry is changed."""
    assert not quotas_in_force(policies).are_settled
    started = policies.status.loaded_at_monotonic
    monkeypatch.setattr("webhook.admission.quota_service.time.monotonic", lambda: started + HELD_SECONDS + 1)
    assert quotas_in_force(policies).are_settled


@pytest.mark.parametrize(("in_flight", "idle"), [(90.0, 600.0), (1000.0, 2000.0)], ids=["usual", "very long"])
def test_no_ledger_is_removed_while_what_was_entered_in_it_may_be_in_flight(in_flight: float, idle: float) -> None:
    assert idle == intervals_for(LedgerTiming(in_flight=in_flight)).idle

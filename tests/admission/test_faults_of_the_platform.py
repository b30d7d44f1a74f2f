"""A fault of the platform is answered 500 or 503; 403 is a verdict about the object."""

from pathlib import Path

import pytest

from tests.admission.quota_desk import KEY, Site, shared_quotas_file
from tests.admission.test_claims import claim
from tests.build import NAMESPACE, pod
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.ledger.ledger_store import LedgerError

TRY_AGAIN, TELL = "Try again in a moment, or tell the platform team.", "Tell the platform team."


def fault(error: ApiServerError) -> LedgerError:
    """What a ledger that is kept in the API server says of this error."""
    return LedgerError(f"GET /api: {error}", error.for_authors("it cannot be read or written"), error.code)


FAULTS = [
    pytest.param(fault(UnreachableError("refused")), 503, id="the API server is away"),
    pytest.param(fault(RefusedError(500, "etcdserver: request timed out")), 503, id="etcd is away"),
    pytest.param(fault(RefusedError(429, "too many requests")), 503, id="the API server has too much to do"),
    pytest.param(fault(RefusedError(401, "Unauthorized")), 503, id="a token that is renewed"),
    pytest.param(fault(RefusedError(403, "forbidden")), 500, id="the right is gone"),
    pytest.param(fault(RefusedError(404, "not found")), 500, id="the namespace of the ledgers is gone"),
    pytest.param(fault(RefusedError(413, "too large")), 500, id="the ledger has no room"),
]


@pytest.mark.parametrize(("error", "code"), FAULTS)
def test_a_ledger_that_fails_is_no_verdict_and_says_whether_trying_again_may_help(
    site: Site, error: LedgerError, code: int
) -> None:
    site.store.faults = [error] * 3
    status = site.ask("/validate", pod(1))["status"]
    assert (status["code"], status["reason"]) == (code, {500: "InternalError", 503: "ServiceUnavailable"}[code])
    assert (
        f"so it is not known what is free: {error.for_authors}. {TRY_AGAIN if code == 503 else TELL}"
        in status["message"]
    )


@pytest.mark.parametrize(("error", "code"), FAULTS)
def test_a_claim_whose_ledger_fails_gets_no_verdict_either(site: Site, error: LedgerError, code: int) -> None:
    site.store.faults = [error] * 3
    assert site.ask("/claims", claim())["status"]["code"] == code


def test_a_replica_without_ledgers_is_no_verdict(tmp_path: Path) -> None:
    status = Site(tmp_path, has_ledgers=False).ask("/validate", pod(1))["status"]
    assert status["code"] == 500
    assert status["message"].endswith(TELL)


def test_a_quota_that_is_full_stays_a_verdict(site: Site) -> None:
    assert site.ask("/validate", pod(3))["status"]["code"] == 403


def test_a_verdict_of_one_quota_comes_before_the_fault_of_another(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shared_quotas_file(tmp_path, {"name": "shared", "namespaces": [NAMESPACE, "x-*"], "gpus": 99})
    assert site.policies.check()
    site.store.before = lambda call: None if KEY in call else _away(call)
    status = site.ask("/validate", pod(3))["status"]
    assert (status["code"], status["message"].count("\n- ")) == (403, 2)
    assert site.ask("/validate", pod(2))["status"]["code"] == 503


def _away(call: str) -> None:
    raise LedgerError(f"{call}: away")

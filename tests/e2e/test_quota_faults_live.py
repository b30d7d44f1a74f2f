"""Faults of the platform with three replicas are no verdicts on pods, and ledgers that somebody broke heal."""

import base64
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import pytest

from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import assert_full, create, fill, is_even
from tests.e2e.quota_observer import Observer
from tests.e2e.quota_proxy import ledger_calls, ledger_writes
from tests.e2e.quota_site import QuotaSite, ledger_path
from webhook.ledger.entries import DATA, PACKED, SET_ASIDE

Namespaces = Callable[[str], str]
REPAIRS = "gpu_policy_quota_ledger_repairs_total"


def few(quotas: QuotaSite, make_namespace: Namespaces, count: int) -> tuple[str, str]:
    """A namespace with a quota of four GPUs, of which pods use `count`, and the key of its ledger."""
    namespace = make_namespace("few")
    fill(quotas, namespace, count)
    return namespace, f"namespace.{namespace}"


def attempt(quotas: QuotaSite, namespace: str, name: str) -> dict[str, Any]:
    """The API server's answer to a create."""
    path = f"/api/v1/namespaces/{namespace}/pods?timeout=4s"
    return quotas.plane.raw("POST", path, gpu_pod(name, 1))[1]


def test_a_right_that_is_gone_and_an_api_server_that_does_not_answer_are_no_verdicts(
    quotas: QuotaSite, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("few")
    fill(quotas, namespace, 1)
    with ExitStack() as stack:
        for proxy in quotas.proxies:
            stack.enter_context(proxy.refusing(ledger_writes))
        answer = attempt(quotas, namespace, "forbidden")
        assert (answer["code"], answer["reason"]) == (500, "InternalError")
        assert answer["message"].startswith('admission webhook "validate.gpupolicy.dev" denied the request: gpuQuota:')
        assert answer["message"].endswith("(the API server answered 403). Tell the platform team.")
    with ExitStack() as stack:
        for proxy in quotas.proxies:
            stack.enter_context(proxy.holding(ledger_calls))
        answer = attempt(quotas, namespace, "silent")
        assert (answer["code"], answer["reason"]) == (503, "ServiceUnavailable")
        assert "Try again in a moment" in answer["message"]
    eventually(lambda: create(quotas, namespace, gpu_pod("after", 1))[0] == 201)


def broken(ledger: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Ways to break a ledger: what each changes of the object."""
    text = ledger["data"][DATA]
    return {
        "truncated": {"data": {DATA: text[: len(text) // 2]}},
        "garbage": {"data": {DATA: "hello"}},
        "wrong types": {"data": {DATA: text.replace('"entries":{', '"entries":[{').replace('"}}}', '"}}]}')}},
        "emptied": {"data": {}},
        "no gzip": {"data": {}, "binaryData": {PACKED: base64.b64encode(b"no gzip").decode()}},
        "immutable": {"immutable": True},
        "immutable garbage": {"data": {DATA: "hello"}, "immutable": True},
    }


@pytest.mark.parametrize(
    "how", ["truncated", "garbage", "wrong types", "emptied", "no gzip", "immutable", "immutable garbage"]
)
def test_a_ledger_that_somebody_broke_heals_by_itself_and_lets_nobody_beyond_the_quota(
    quotas: QuotaSite, make_namespace: Namespaces, how: str
) -> None:
    namespace, key = few(quotas, make_namespace, 3)
    before, repairs = quotas.ledger(key), quotas.metric(REPAIRS)
    change = broken(before)[how]
    assert quotas.plane.raw("PUT", ledger_path(key), {**before, **change})[0] == 200
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: create(quotas, namespace, gpu_pod(f"p-{number}", 1)), range(8)))
    assert sorted(status for status, _ in answers) == [201] + [403] * 7, answers
    assert_full(quotas, namespace)
    eventually(lambda: is_even(quotas, namespace))
    after = quotas.ledger(key)
    eventually(lambda: quotas.metric(REPAIRS) == repairs + 1)
    assert not after.get("immutable")
    found = next(iter({**change.get("data", {}), **change.get("binaryData", {})}.values()), "")
    assert found in after["data"].get(SET_ASIDE, "")
    assert bool(found) is (SET_ASIDE in after["data"])


def test_a_ledger_that_is_broken_again_and_again_in_a_storm_lets_nobody_beyond(
    quotas: QuotaSite, make_namespace: Namespaces
) -> None:
    """Pods that were admitted a moment ago are in no list, so they count by the entries of before."""
    namespace, key = few(quotas, make_namespace, 1)
    ends = threading.Event()
    answers: list[tuple[int, str]] = []

    def churn(worker: int) -> None:
        number = 0
        while not ends.is_set():
            name = f"w{worker}-{(number := number + 1)}"
            answers.append(create(quotas, namespace, gpu_pod(name, 1)))
            if answers[-1][0] == 201:
                path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
                quotas.plane.raw("DELETE", path)

    def gpus(pod: Any) -> Fraction:
        return Fraction(pod["metadata"]["namespace"] == namespace)

    repairs = quotas.metric(REPAIRS)
    with Observer(quotas.plane, {"gpus": gpus}) as observer:
        threads = [threading.Thread(target=churn, args=(worker,), daemon=True) for worker in range(12)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            time.sleep(0.3)
            quotas.plane.raw("PATCH", ledger_path(key), {"data": {DATA: "hello"}})
        ends.set()
        for thread in threads:
            thread.join(20)
        observer.catch_up()
        assert observer.gauges["gpus"].peak <= 4
    eventually(lambda: quotas.metric(REPAIRS) > repairs + 10)
    assert {status for status, _ in answers} <= {201, 403, 503}, {said for status, said in answers if status == 500}
    assert sum(status == 201 for status, _ in answers) > 12
    eventually(lambda: is_even(quotas, namespace))

"""What quotas do where something goes wrong: admissions that others undo, replicas that die, ledgers that are away."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

import pytest

from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.neighbour import concerning_pod, deciding
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import assert_full, create, fill, is_even, uids
from tests.e2e.quota_proxy import ledger_calls, ledger_writes
from tests.e2e.quota_site import CONFIG_MAPS, QuotaSite
from webhook.ledger.entries import PREFIX

Namespaces = Callable[[str], str]


@contextmanager
def resource_quota(quotas: QuotaSite, namespace: str) -> Iterator[None]:
    """The quota of Kubernetes itself, which the API server asks after all webhooks; it has no GPU left."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {"requests.nvidia.com/gpu": "0"}
    quotas.plane.raw("POST", path, {"metadata": {"name": "in-tree"}, "spec": {"hard": hard}})
    quotas.plane.raw("PATCH", f"{path}/in-tree/status", {"status": {"hard": hard, "used": hard}})
    try:
        yield
    finally:
        quotas.plane.raw("DELETE", f"{path}/in-tree")


def refused_by(quotas: QuotaSite, namespace: str, words: str) -> None:
    """Create two pods when somebody else refuses them with these words; he is tried with dry runs first."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    manifest = concerning_pod("ghost")
    eventually(lambda: words in str(quotas.plane.raw("POST", f"{path}?dryRun=All", manifest)[1].get("message")))
    for _ in range(2):
        status, said = create(quotas, namespace, manifest)
        assert (status, words in said) == (403, True), said
    assert quotas.entered(f"namespace.{namespace}") - uids(quotas, namespace)


def died_before_the_answer(quotas: QuotaSite, namespace: str) -> None:
    """Have a pod entered by a replica that is killed when the ledger has changed, and it has not been told yet."""
    fill(quotas, namespace, 1)

    def concerns(method: str, path: str) -> bool:
        return ledger_writes(method, path) and path.endswith(f".{namespace}")

    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        held = [stack.enter_context(proxy.holding(concerns)) for proxy in quotas.proxies]
        behind = list(zip(quotas.replicas.running, held, strict=True))
        ghost = pool.submit(create, quotas, namespace, gpu_pod("ghost", 1))
        (victim,) = eventually(lambda: [replica for replica, is_held in behind if is_held.is_set()])
        victim.kill()
        assert ghost.result()[0] == 500
    assert quotas.entered(f"namespace.{namespace}") - uids(quotas, namespace)
    victim.start()
    quotas.wait_for_members()


@pytest.fixture(scope="module")
def haunted(quotas: QuotaSite, installation: Installation) -> dict[str, str]:
    """Namespaces whose ledgers have entries of pods that never came, by what kept these away.

    All are made at once, since each takes as long to get rid of.
    """
    namespaces = {sort: quotas.plane.namespace(f"few-{sort}") for sort in ("quota", "webhook", "kill")}
    with resource_quota(quotas, namespaces["quota"]):
        refused_by(quotas, namespaces["quota"], "exceeded quota: in-tree")
    with deciding(installation, lambda _: "not on my watch"):
        refused_by(quotas, namespaces["webhook"], "not on my watch")
    died_before_the_answer(quotas, namespaces["kill"])
    return namespaces


@pytest.mark.parametrize(
    "sort",
    [
        pytest.param("quota", id="refused by a ResourceQuota after us"),
        pytest.param("webhook", id="refused by another webhook beside us"),
        pytest.param("kill", id="the replica was killed between write and answer"),
    ],
)
def test_entries_of_pods_that_never_came_go_when_none_of_them_can_come_any_more(
    quotas: QuotaSite, haunted: dict[str, str], sort: str
) -> None:
    """Until then they count, and after that they are in nobody's way."""
    namespace = haunted[sort]
    wanted = [gpu_pod(f"real-{number}", 1) for number in range(4 - len(uids(quotas, namespace)))]
    for manifest in wanted:
        eventually(lambda manifest=manifest: create(quotas, namespace, manifest)[0] == 201)
    assert_full(quotas, namespace)
    assert is_even(quotas, namespace)


def test_an_entry_is_not_taken_from_a_pod_that_is_still_on_its_way(
    quotas: QuotaSite, installation: Installation, make_namespace: Namespaces
) -> None:
    """However many others are refused because of it: another webhook has to answer yet, and then the pod comes."""
    namespace = make_namespace("few")
    fill(quotas, namespace, 3)
    asked, may_answer = Event(), Event()

    def decide(name: str) -> str:
        asked.set()
        if name == "slow":
            may_answer.wait(10)
        return ""

    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    with deciding(installation, decide), ThreadPoolExecutor(1) as pool:
        eventually(lambda: quotas.plane.raw("POST", path, concerning_pod("probe")) and asked.is_set())
        slow = pool.submit(create, quotas, namespace, concerning_pod("slow"))
        eventually(lambda: len(quotas.entered(f"namespace.{namespace}")) == 4)
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            assert_full(quotas, namespace)
        assert len(uids(quotas, namespace)) == 3
        may_answer.set()
        assert slow.result() == (201, "")
    assert is_even(quotas, namespace)


def test_a_ledger_that_somebody_deletes_is_written_anew(quotas: QuotaSite, make_namespace: Namespaces) -> None:
    namespace = make_namespace("few")
    fill(quotas, namespace)
    assert quotas.plane.raw("DELETE", f"{CONFIG_MAPS}/{PREFIX}namespace.{namespace}")[0] == 200
    assert_full(quotas, namespace)
    assert is_even(quotas, namespace)


def test_pods_that_came_while_no_replica_was_asked_are_counted_afterwards(
    quotas: QuotaSite, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("few")
    fill(quotas, namespace, 1)
    quotas.register(failure_policy="Ignore")
    quotas.balancer.stop()
    try:
        eventually(lambda: create(quotas, namespace, gpu_pod("unasked", 4))[0] == 201)
    finally:
        quotas.balancer.start()
        quotas.wait_for_members()
        quotas.register()
    eventually(lambda: is_even(quotas, namespace))
    status, said = create(quotas, namespace, gpu_pod("beyond", 1))
    assert (status, "requested 1, used 5 of 4 (0 free)" in said) == (403, True), said


@pytest.mark.parametrize("fault", ["the right to write is gone", "nothing is answered"])
def test_without_its_ledger_a_pod_is_refused_or_allowed_as_the_quota_says(
    quotas: QuotaSite, make_namespace: Namespaces, fault: str
) -> None:
    strict, lenient = make_namespace("few"), make_namespace("lenient")
    fill(quotas, strict, 1)
    fill(quotas, lenient, 1)
    with ExitStack() as stack:
        for proxy in quotas.proxies:
            stack.enter_context(
                proxy.holding(ledger_calls) if fault == "nothing is answered" else proxy.refusing(ledger_writes)
            )
        paths = [f"/api/v1/namespaces/{namespace}/pods" for namespace in (strict, lenient)]
        with ThreadPoolExecutor(2) as pool:
            refused, allowed = pool.map(lambda path: quotas.plane.raw("POST", path, gpu_pod("unwritten", 1)), paths)
    assert (refused[0], allowed[0]) == (503 if fault == "nothing is answered" else 500, 201)
    assert "ledger" in refused[1]["message"]
    for namespace in (strict, lenient):
        assert quotas.metric("gpu_policy_quota_ledger_failures_total", f'quota="namespace.{namespace}"') == 1
    eventually(lambda: is_even(quotas, lenient))
    assert create(quotas, strict, gpu_pod("written", 1)) == (201, "")

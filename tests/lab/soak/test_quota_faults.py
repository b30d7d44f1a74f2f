"""What quotas do where something goes wrong: admissions that others undo, replicas that die, ledgers that are away."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.neighbour import concerning_pod, deciding
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import assert_full, create, fill, is_even, uids
from tests.e2e.quota_proxy import ledger_writes
from tests.e2e.quota_site import QuotaSite

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

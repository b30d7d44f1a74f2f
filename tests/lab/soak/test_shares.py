"""What a pod counts of a divided GPU changes once it is on a node: minutes after policies were loaded."""

from collections.abc import Callable

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.quota_site import QuotaSite
from tests.e2e.test_shares import EITHER, sharing
from webhook.policy.policy_store import HELD_SECONDS


def test_a_pod_that_could_get_whole_gpus_counts_its_share_once_it_is_on_a_node(
    quotas: QuotaSite, cluster: ControlPlane, make_namespace: Callable[[str], str]
) -> None:
    with sharing(quotas, cluster, make_namespace("few")) as sharers:
        assert sharers.create("four", 4, **EITHER) == (201, "")
        assert sharers.create("more", 1, **EITHER)[0] == 403
        eventually(lambda: sharers.node_of("four") == "shares-quarters")
        eventually(lambda: sharers.used() == "1", seconds=2 * HELD_SECONDS)
        assert sharers.create("more", 3, **EITHER) == (201, "")

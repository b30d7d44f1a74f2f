"""ResourceSlices are followed in the version that the API server has; nothing waits for them."""

import pytest

from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import SLICES, always
from tests.facts.following import following, watched
from tests.facts.samples import resource_slice
from webhook.facts.live import LiveFacts

ABSENT = always(404, b"404 page not found")


def most(facts: LiveFacts) -> int | None:
    """The largest number of GPUs of one node, None where it is not known."""
    table = None if facts.facts is None else facts.facts.cluster.slices
    return None if table is None else table.most("gpu.nvidia.com")


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_slices_are_followed_in_whatever_version_the_api_server_has(server, tmp_path, version):
    path = SLICES.replace("/v1/", f"/{version}/")
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.instead[path] = server.answer
    server.objects[path] = [resource_slice("a", "a", gpus=4)]
    with following(server, tmp_path) as facts:
        eventually(lambda: most(facts) == 4)
        eventually(lambda: watched(facts) or "resourceslices: followed" in facts.status(0).detail)
        server.tell_event(path, "ADDED", resource_slice("b", "b", gpus=8), "105")
        eventually(lambda: most(facts) == 8)
        server.tell_event(path, "MODIFIED", resource_slice("b", "b", pool_slices=2), "106")
        eventually(lambda: most(facts) is None)
        server.tell_event(path, "DELETED", resource_slice("b", "b", pool_slices=2), "107")
        eventually(lambda: most(facts) == 8)

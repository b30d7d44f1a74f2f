"""Another validating webhook, asked at the same time as ours: whatever we answer, it decides what comes of it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e.installation import Installation
from tests.e2e.neighbour import LABEL, registered
from tests.e2e.objects import gpu_pod

Decide = Callable[[str], str]
"""Takes its time over the pod of a name, and gives the message of a refusal, or an empty one."""


def concerning_pod(name: str) -> dict[str, Any]:
    """A pod of one GPU about which it is asked."""
    manifest = gpu_pod(name, 1)
    manifest["metadata"]["labels"] = {LABEL: "yes"}
    return manifest


@contextmanager
def neighbour(installation: Installation, decide: Decide) -> Iterator[None]:
    """Registered until the block ends. The API server may take a second to know of it."""

    def respond(request: Mapping[str, Any]) -> Mapping[str, Any]:
        refusal = decide(request["name"])
        return {"allowed": False, "status": {"code": 403, "message": refusal}} if refusal else {"allowed": True}

    with registered(installation, "validating", respond, "neighbour", timeoutSeconds=30):
        yield

"""Another mutating webhook, asked after ours: what it does to a pod, ours may have to complete once more."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.neighbour import LABEL, registered

Change = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""The JSON Patch for a pod; an empty one leaves it as it is."""


@contextmanager
def neighbour(installation: Installation, change: Change, *, reinvoked: bool = False) -> Iterator[None]:
    """Registered, and asked, until the block ends; `reinvoked`: a second time too, after ours."""
    asked: list[Any] = []

    def respond(request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(request)
        patch = change(request["object"])
        if not patch:
            return {"allowed": True}
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    policy = "IfNeeded" if reinvoked else "Never"
    with registered(installation, "mutating", respond, "zz-neighbour", reinvocationPolicy=policy):
        eventually(lambda: _ask(installation) and asked)
        yield


def _ask(installation: Installation) -> bool:
    container = {"name": "a", "image": "registry.example/a:1"}
    probe = {"metadata": {"name": "probe", "labels": {LABEL: "yes"}}, "spec": {"containers": [container]}}
    return bool(installation.plane.raw("POST", "/api/v1/namespaces/default/pods?dryRun=All", probe))

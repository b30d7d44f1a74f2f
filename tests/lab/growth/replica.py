"""A replica with every rule on and several nodes, and all questions that the API server asks about a pod."""

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.build import patch_of, patched_by, review
from tests.lab.benchmarks.cluster import PRIORITY_CLASS, nodes
from tests.ledger.small_cluster import LateView, Truth
from tests.rules.every_rule import enforced
from webhook.admission.app import ReviewEndpoint
from webhook.admission.metrics import Metrics
from webhook.admission.service import Service
from webhook.facts.live import StaticFacts
from webhook.ledger.context import LedgerContext
from webhook.ledger.inventory import load_inventory
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.policy.policy_store import PolicyStore

POLICY = json.dumps(
    {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "GPUPolicy",
        "metadata": {"name": "_default"},
        "spec": {
            "workloads": {"mode": "enforce"},
            "nodePools": [
                {
                    "name": "big",
                    "resource": "nvidia.com/gpu",
                    "gpus": 8,
                    "labels": {"example.com/pool": "gpu", "nvidia.com/gpu.product": "NVIDIA-H200"},
                }
            ],
            "rules": enforced(
                tolerations={
                    "add": [
                        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                        {"key": "example.com/gpu", "value": "true", "effect": "NoExecute"},
                    ]
                },
                nodeAffinity={
                    "required": [
                        {"key": "example.com/pool", "operator": "In", "values": ["gpu"]},
                        {"key": "example.com/pool", "operator": "NotIn", "values": ["retired", "spare"]},
                        {"key": "example.com/cores", "operator": "Gt", "values": ["8"]},
                    ]
                },
                runtimeClass={"whenMissing": "warn"},
                gpuLimits={"maxPerContainer": 8, "requestsOnly": "repair"},
                cudaDriver={"unknown": "warn"},
            ),
        },
    }
)
_PLENTY = 3600.0
"""Seconds; the deadline of a decision is not what is measured."""
_RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
    "scheduling": {"nodeSelector": {"example.com/pool": "gpu"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
}


class Replica:
    """Answers reviews as they come over the wire."""

    def __init__(self, service: Service) -> None:
        self._endpoint = ReviewEndpoint(service, lambda *_: [])

    def ask(self, path: str, body: bytes) -> dict[str, Any]:
        """The response to a review."""
        statuses: list[str] = []
        environ = {
            "PATH_INFO": path,
            "REQUEST_METHOD": "POST",
            "QUERY_STRING": "timeout=999s",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
        }
        answer = b"".join(self._endpoint(environ, lambda status, *_: statuses.append(status)))
        if statuses != ["200 OK"]:
            raise AssertionError(f"{path}: {statuses}: {answer[:200]!r}")
        found: dict[str, Any] = json.loads(answer)["response"]
        return found

    def ask_about_new(self, pod: Mapping[str, Any]) -> None:
        """The questions about a pod that is created, and about a Deployment of such pods."""
        completed = patched_by(pod, patch_of(self.ask("/mutate", _body(pod))))
        self.ask("/validate", _body(completed))
        self.ask("/workloads", _body(_deployment(pod)))

    def ask_everything(self, pod: Mapping[str, Any]) -> None:
        """All questions: also about the pod as it came, and about changes."""
        self.ask_about_new(pod)
        self.ask("/validate", _body(pod))
        changed = {**pod, "spec": {**pod["spec"], "activeDeadlineSeconds": 5}}
        self.ask("/validate", _body(changed, "UPDATE", old=pod))
        self.ask("/workloads", _body(_deployment(changed), "UPDATE", old=_deployment(pod)))


def _body(obj: Mapping[str, Any], operation: str = "CREATE", **parts: Any) -> bytes:
    return json.dumps(review(obj, operation, **parts)).encode()


def _deployment(pod: Mapping[str, Any]) -> dict[str, Any]:
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"replicas": 2, "template": template},
    }


@contextmanager
def replica() -> Iterator[Replica]:
    """A replica, which lets go of its files at the end."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "policies"
        folder.mkdir()
        (folder / "_default.yaml").write_text(POLICY)
        inventory = Path(directory) / "inventory.json"
        items = [PRIORITY_CLASS, *nodes(8), _RUNTIME_CLASS]
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        store = PolicyStore(folder)
        try:
            facts = StaticFacts(load_inventory(inventory))
            service = Service(store, facts, Metrics(), ledgers=Ledgers(LedgerContext(MemoryStore(), LateView(Truth()))))
            service.decision_seconds = _PLENTY
            yield Replica(service)
        finally:
            store.close()

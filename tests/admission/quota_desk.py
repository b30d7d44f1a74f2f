"""One replica with a quota to keep, without a cluster: its policies, its ledgers in memory, and what it shows."""

from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from tests.build import NAMESPACE, pod, review
from tests.ledger.bookkeeping import Watched
from tests.replicas import FactsInAnyState
from webhook.admission.app import create_app
from webhook.admission.metrics import Metrics
from webhook.admission.service import Service
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.static_pods import StaticPods
from webhook.policy.policy_store import PolicyStore
from webhook.replica.quota_service import QuotaParts, QuotaService

KEY = f"namespace.{NAMESPACE}"
FULL = (
    f"gpuQuota: spec: exceeded GPU quota '{NAMESPACE}': requested 3, used 2 of 4 (2 free); largest: running 2; "
    "free some or request 2."
)


def full(asks: int) -> str:
    """The message when nothing is free."""
    return FULL.replace("3, used 2 of 4 (2 free)", f"{asks}, used 4 of 4 (0 free)").replace(" or request 2", "")


UNKEPT = (
    f"gpuQuota: spec: the ledger of GPU quota '{NAMESPACE}' cannot be reached, so it is not known what is free: this "
    "replica was started without --quota-ledgers, the namespace of the ledgers. Tell the platform team."
)


def policy_file(directory: Path, name: str, **rules: Any) -> None:
    """Write a policy."""
    document = {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "GPUPolicy",
        "metadata": {"name": name},
        "spec": {"rules": rules},
    }
    (directory / f"{name}.yaml").write_text(yaml.safe_dump(document))


def shared_quotas_file(directory: Path, *shared_quotas: dict[str, Any]) -> None:
    """Write the quotas."""
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUSharedQuotas", "metadata": {"name": "_quotas"}}
    (directory / "_quotas.yaml").write_text(yaml.safe_dump({**head, "spec": {"quotas": list(shared_quotas)}}))


def running(name: str, gpus: int, namespace: str = NAMESPACE) -> dict[str, Any]:
    """A pod of the inventory."""
    return pod(gpus, name=name, namespace=namespace)


class Shown:
    """Takes the usage that would be shown to tenants."""

    def __init__(self) -> None:
        self.standings: list[Any] = []
        self.life: list[str] = []

    def start(self) -> None:
        self.life.append("started")

    def show(self, standings: Any) -> None:
        self.standings.append(standings)

    def close(self) -> None:
        self.life.append("closed")


class Site:
    """One replica with a namespace that may use 4 GPUs, two of which are in use."""

    def __init__(
        self, directory: Path, *, has_ledgers: bool = True, tells_usage: bool = True, reader: Any = None, **quota: Any
    ) -> None:
        self.directory = directory
        policy_file(directory, "_default", gpuLimits={"mode": "enforce", "maxPerPod": 8})
        policy_file(directory, NAMESPACE, gpuQuota={"mode": "enforce", "gpus": 4, **quota})
        self.store = Watched()
        self.policies = PolicyStore(directory)
        self.metrics = Metrics()
        self.shown = Shown()
        self.pods = StaticPods([running("running", 2), running("foreign", 64, "other")])
        parts = QuotaParts(
            LedgerContext(self.store, self.pods, tells_usage=tells_usage, groups=reader), self.pods, self.shown
        )
        self.desk = QuotaService(parts, self.policies, self.metrics)
        ledgers = self.desk.ledgers if has_ledgers else None
        self.service = Service(self.policies, FactsInAnyState(), self.metrics, ledgers=ledgers)
        self.client = create_app(self.service).test_client()

    def ask(self, path: str, obj: dict[str, Any], number: int = 1, **parts: Any) -> dict[str, Any]:
        """The response to a review of a pod with the uid of this number."""
        obj["metadata"]["uid"] = str(UUID(int=number))
        answer = self.client.post(path, json=review(obj, **parts))
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json["response"]
        return response

    def validate(self, gpus: int, number: int = 1, **parts: Any) -> str:
        """Have a pod validated; the refusal, empty for none."""
        response = self.ask("/validate", pod(gpus), number, **parts)
        assert response["allowed"] is ("status" not in response)
        return str(response.get("status", {}).get("message", ""))

    @property
    def entered(self) -> set[int]:
        """The pods that were entered in the ledger of the namespace, besides the one that was there."""
        held = MemoryStore.read(self.store, KEY, 1)  # `Watched.read` would be recorded
        return {one.int for uid in (held.entries.by_uid if held else ()) if (one := UUID(bytes=uid)).int < 1000}

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"gpu_policy_quota_{name}", labels)

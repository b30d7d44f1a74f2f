"""The world in which reviews are judged: one cluster, and namespaces whose policies turn every rule on."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.lab.fuzz.cluster import NODES, PRIORITY_CLASSES, RUNTIME_CLASSES, TEMPLATES
from tests.ledger.small_cluster import LateView, Truth
from tests.rules.every_rule import CASES
from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.app import ReviewEndpoint
from webhook.admission.metrics import Metrics
from webhook.admission.phases import Decision
from webhook.admission.service import Service
from webhook.admission.watchdog import TimeBudget
from webhook.facts.facts import ClusterFacts
from webhook.facts.live import StaticFacts
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.policy.policy_store import PolicyStore
from webhook.rules import RULES
from webhook.rules.rule import Facts, Rule

Raw = dict[str, Any]


def _merged(changes: Mapping[str, Mapping[str, Any]], mode: str = "enforce") -> dict[str, dict[str, Any]]:
    return {key: {"mode": mode, **deepcopy(case.fuzzed), **changes.get(key, {})} for key, case in CASES.items()}


SETTINGS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "strict": _merged({}),
    "helpful": _merged(
        {
            "gpuLimits": {"requestsOnly": "repair"},
            "resourceClaims": {"adminAccess": ["helpful"]},
            "timeLimit": {"longer": "cap"},
            "ncclEnv": {"minGpus": 1, "env": {"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "mlx5"}, "alsoWithEnvFrom": True},
            "sharedMemory": {"minGpus": 1, "memoryFraction": 0.25},
            "priorityClass": {"allowed": []},
            "memoryAndCpu": {"mode": "warn"},
            "imagePinning": {"mode": "audit"},
            "schedulable": {"mode": "warn"},
            "visibleDevices": {"mode": "warn", "wholeNodes": "allow"},
        }
    ),
    "warned": _merged({}, "warn"),
}
"""Settings of every rule in each namespace, mode included."""


def _policies(directory: Path) -> None:
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy"}
    for name, rules in ({"_default": SETTINGS["strict"]} | dict(SETTINGS)).items():
        spec: dict[str, Any] = {"workloads": {"mode": "enforce"}, "rules": rules}
        if name != "_default":
            spec["namespaces"] = [name]
        (directory / f"{name}.yaml").write_text(json.dumps({**head, "metadata": {"name": name}, "spec": spec}))


class _Watched(Service):
    """A service that remembers what led to its last answer."""

    last: Decision | None = None

    def mutate(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:
        self.last = super().mutate(review, facts, patience)
        return self.last

    def validate(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:
        self.last = super().validate(review, facts, patience)
        return self.last

    def workloads(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:
        self.last = super().workloads(review, facts, patience)
        return self.last


@dataclass(frozen=True)
class Reply:
    """What came back for one review: status and body of HTTP, and the decision behind it, None where there was none."""

    status: int
    body: bytes
    decision: Decision | None


class World:
    """One replica, from the bytes of a review to the bytes of its answer. `rules` are its own, perhaps broken, ones."""

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        with tempfile.TemporaryDirectory() as directory:
            _policies(Path(directory))
            store = PolicyStore(Path(directory), tuple(rules))
        self._policies = store
        self._facts = StaticFacts(ClusterFacts.of(NODES, RUNTIME_CLASSES, PRIORITY_CLASSES, templates=TEMPLATES))
        self.forget()

    def forget(self) -> None:
        """Forget what quotas have entered, so that no case depends on those before."""
        ledgers = Ledgers(LedgerContext(MemoryStore(), LateView(Truth())))  # of this replica, of a cluster without pods
        self._service = _Watched(self._policies, self._facts, Metrics(), None, ledgers)
        self._endpoint = ReviewEndpoint(self._service, _nothing_else)

    def ask(self, path: str, body: bytes) -> Reply:
        """Answer one review."""
        self._service.last = None
        status: list[str] = []
        environ = {
            "PATH_INFO": path,
            "REQUEST_METHOD": "POST",
            "QUERY_STRING": "timeout=30s",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": BytesIO(body),
        }
        found = b"".join(self._endpoint(environ, lambda line, _headers: status.append(line)))
        return Reply(int(status[0].split()[0]), found, self._service.last)


def _nothing_else(environ: Raw, _start_response: Any) -> list[bytes]:
    raise AssertionError(f"{environ['PATH_INFO']} is no endpoint for reviews")

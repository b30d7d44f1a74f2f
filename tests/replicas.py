"""A replica without its server: the application with everything it stands on within reach."""

from pathlib import Path
from typing import Any

from flask.testing import FlaskClient

from tests.build import FACTS, review
from webhook.admission.app import create_app
from webhook.admission.metrics import Metrics
from webhook.admission.service import Service
from webhook.facts.facts import ClusterFacts, FactsStatus
from webhook.policy.policy_store import PolicyStore
from webhook.rules import RULES
from webhook.rules.rule import Rule

POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec:
  rules:
    tolerations: {mode: enforce}
    gpuLimits: {mode: enforce, maxPerPod: 4}
    visibleDevices: {mode: warn}
"""
HEALTHY = FactsStatus(loaded=True, stale=False, age_seconds=1.0, server_reachable=True, detail="1 node")


class FactsInAnyState:
    """A source of facts in any state; the live one gets into some of them only by faults."""

    def __init__(self) -> None:
        self.facts: ClusterFacts | None = FACTS
        self.state = HEALTHY

    def status(self, now: float) -> FactsStatus:  # noqa: ARG002  # the protocol
        return self.state

    def start(self) -> None:
        """Nothing to begin."""

    def close(self) -> None:
        """Nothing to end."""


class Replica:
    """The application with everything it stands on, all of it within reach."""

    def __init__(self, directory: Path, rules: tuple[Rule, ...] = RULES) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        if not any(directory.iterdir()):
            self.write(POLICY)
        self.metrics = Metrics()
        self.facts = FactsInAnyState()
        self.store = PolicyStore(directory, rules)
        self.service = Service(self.store, self.facts, self.metrics)
        self.client: FlaskClient = create_app(self.service).test_client()

    def write(self, text: str) -> None:
        (self.directory / "_default.yaml").write_text(text)

    def ask(self, path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        answer = self.client.post(path, json=review(*args, **kwargs))
        assert (answer.status_code, answer.mimetype) == (200, "application/json"), answer.text
        response: dict[str, Any] = answer.json["response"]
        assert response["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"
        return response

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

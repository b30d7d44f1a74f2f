"""Maintenance of a replica: a fault is in the metrics, is logged once, and ends nothing."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import FakeApiServer, Request, fake_api_server
from tests.replica.test_serving import REGISTRATION
from webhook.admission.metrics import Metrics
from webhook.replica import maintenance
from webhook.replica.maintenance import Maintenance
from webhook.replica.settings import InstallationSettings, kept_certificates

SECRET = "/api/v1/namespaces/gpu-policy/secrets/gpu-policy-tls"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def settings(server: FakeApiServer, tmp_path: Path) -> InstallationSettings:
    registration = tmp_path / "webhooks.yaml"
    registration.write_text(yaml.safe_dump_all(REGISTRATION))
    kept = kept_certificates("gpu-policy/gpu-policy-tls", tmp_path / "tls", ("gpu-policy.gpu-policy.svc",), 60.0)
    return InstallationSettings(kept, tmp_path / "tls" / "tls.crt", registration, server.kubeconfig(tmp_path))


def fault_of(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("gpu_policy_certificate_fault")


def answering_with(body: Any) -> Any:
    def answer(request: Request, path: str, query: dict[str, str]) -> None:
        request.send(200, body)

    return answer


def test_a_bug_is_a_fault_that_is_shown_and_said_once(
    server: FakeApiServer,
    settings: InstallationSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Labels that are no map stand for answers that no API server sends and no code expects."""
    monkeypatch.setattr(maintenance, "LOOK_SECONDS", 0.02)
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/gpu-policy"
        server.instead[path] = answering_with({"metadata": {}, "webhooks": []})
    server.instead[SECRET] = answering_with({"metadata": {"labels": [1]}})
    installation, metrics = Maintenance(settings), Metrics()
    with caplog.at_level(logging.ERROR):
        installation.start(metrics)
        eventually(lambda: fault_of(metrics) == 1)
        asked = len(server.seen)
        eventually(lambda: len(server.seen) > asked + 20)
        installation.close()
    assert len([record for record in caplog.records if record.getMessage().startswith("certificates: ")]) == 1


def test_a_registration_that_became_unreadable_ends_no_replica_and_is_a_fault(settings: InstallationSettings) -> None:
    """As a worker that is replaced finds it; the process was started on a good one."""
    assert settings.registration_file is not None
    settings.registration_file.write_text("{}")
    installation, metrics = Maintenance(settings), Metrics()
    installation.start(metrics)
    assert fault_of(metrics) == 1
    installation.close()

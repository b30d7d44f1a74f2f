"""What Prometheus reads: of a running replica, and of the API server about its calls."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.samples import Sample

from tests.counted import DAY, counted, labels_by_name, samples
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import REFUSED_EARLY
from tests.e2e.kept_certificates import CONFIGURATION, KINDS, KeptSite
from tests.e2e.objects import gpu_pod
from tests.monitoring.promql import OF_THE_API_SERVER
from tests.replica.test_serving import LISTED

NUMBERS = count(1)


def create(site: KeptSite, pod: dict[str, Any]) -> int:
    """The status that a dry run of creating a pod gets."""
    return site.plane.raw("POST", f"/api/v1/namespaces/{site.judged}/pods?dryRun=All", pod)[0]


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[KeptSite]:
    """One replica that keeps its certificates, registered and asked."""
    file = tmp_path / "registries.yaml"
    file.write_text(yaml.safe_dump(LISTED))
    name = f"measured-{next(NUMBERS)}"
    looking_up = [f"--registries={file}", f"--image-results={name}/gpu-policy-images"]
    site = KeptSite(control_plane, name, tmp_path, replicas=1, arguments=looking_up)
    try:
        site.start()
        eventually(lambda: create(site, REFUSED_EARLY) == 403)
        yield site
    finally:
        site.remove()


def test_a_running_replica_shows_everything_that_alerts_and_the_dashboard_ask_for(site: KeptSite) -> None:
    (replica,) = site.replicas
    eventually(lambda: replica.metric("gpu_policy_webhook_configuration_ok") == 2)
    eventually(lambda: "gpu_policy_request_duration_seconds_count{" in replica.get("/metrics")[1])  # after the answer
    shown = labels_by_name(replica.get("/metrics")[1].encode())
    expected = labels_by_name(counted().page())
    del expected["gpu_policy_injections_total"]  # nothing was injected yet
    # where there are such, or an audit, or nodes with GPUs, or warnings become Events
    elsewhere = ("gpu_policy_quota_", "gpu_policy_audit_", "gpu_policy_exception", "gpu_policy_nodes")
    elsewhere += ("gpu_policy_warning_events_",)
    expected = {name: labels for name, labels in expected.items() if not name.startswith(elsewhere)}
    assert {name: shown.get(name) for name in expected} == expected
    assert replica.metric("gpu_policy_ready") == 1
    assert replica.metric("gpu_policy_certificate_fault") == 0
    assert abs(replica.metric("gpu_policy_clock_skew_seconds")) < 30
    for certificate in ("ca", "leaf", "ca_bundle"):
        assert replica.metric("gpu_policy_certificate_expiry_seconds", f'certificate="{certificate}"') > 21 * DAY
    for kind in KINDS:
        timeout = replica.metric("gpu_policy_webhook_timeout_seconds", f'configuration="{kind}"')
        assert timeout == site.configuration(kind)["webhooks"][0]["timeoutSeconds"]
    labels = (f'namespace="{site.judged}"', 'result="refused"')
    assert replica.metric("gpu_policy_namespace_decisions_total", *labels) >= 1


def said_of_calls(plane: ControlPlane, name: str) -> list[Sample]:
    """What the API server says of its calls to the webhook, by one of its metrics."""
    status, page = plane.raw("GET", "/metrics")
    assert status == 200
    lines = [line for line in page.splitlines() if line.startswith(f"{name}{{") and "gpupolicy.dev" in line]
    return list(samples("\n".join([f"# TYPE {name} unknown", *lines, ""]).encode()))


def total(found: list[Sample], **labels: str) -> float:
    """The sum over the series with these labels."""
    return sum(sample.value for sample in found if labels.items() <= sample.labels.items())


def test_the_api_server_counts_calls_that_fail_as_the_alerts_expect(site: KeptSite) -> None:
    """GpuPolicyCallsFailing and GpuPolicyFailOpen are silent for ever if a name or a label is another one."""
    called, refused, passed = OF_THE_API_SERVER
    failing = {"name": "mutate.gpupolicy.dev", "type": "admit", "error_type": "calling_webhook_error"}
    before = total(said_of_calls(site.plane, refused), **failing)
    calls = total(said_of_calls(site.plane, called), name="mutate.gpupolicy.dev")
    site.replicas[0].kill()
    assert create(site, gpu_pod("probe")) == 500
    counted_calls = said_of_calls(site.plane, called)
    assert total(counted_calls, name="mutate.gpupolicy.dev") == calls + 1, "a call that fails is a call"
    assert {frozenset(sample.labels) for sample in counted_calls} == {frozenset(OF_THE_API_SERVER[called])}
    found = said_of_calls(site.plane, refused)
    assert total(found, **failing) == before + 1
    assert {frozenset(sample.labels) for sample in found} == {frozenset(OF_THE_API_SERVER[refused])}
    for kind in KINDS:
        path = CONFIGURATION.format(kind, site.name)
        configuration = site.configuration(kind)
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"
        assert site.plane.raw("PUT", path, configuration)[0] == 200
    eventually(lambda: create(site, gpu_pod("probe")) == 201)
    found = said_of_calls(site.plane, passed)
    assert total(found, name="mutate.gpupolicy.dev", type="admit") > 0
    assert {frozenset(sample.labels) for sample in found} == {frozenset(OF_THE_API_SERVER[passed])}

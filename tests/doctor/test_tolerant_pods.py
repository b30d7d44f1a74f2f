"""The doctor says where policies keep pods off GPU nodes that the API server does not send."""

from pathlib import Path

import pytest

from tests.deploy.manifests import needs_helm, rendered
from webhook.doctor.doctor_report import Status
from webhook.doctor.installation import Installation, Place
from webhook.doctor.sent_objects import tolerant_pods
from webhook.policy.loader import load


@needs_helm
@pytest.mark.parametrize(
    ("setting", "webhook", "status"),
    [
        pytest.param("deny", {}, Status.WARNING, id="denied and not sent"),
        pytest.param("deny", {"sendTolerateAll": True}, Status.OK, id="denied and sent"),
        pytest.param("allow", {}, Status.OK, id="allowed"),
    ],
)
def test_pods_that_tolerate_every_taint_are_sent_where_a_policy_denies_it(
    tmp_path: Path, setting: str, webhook: dict[str, object], status: Status
) -> None:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: tenants}\n"
    rules = f"{{gpuNodesForGpuPods: {{mode: enforce, tolerateAll: {setting}}}}}"
    (tmp_path / "tenants.yaml").write_text(f"{head}spec: {{rules: {rules}}}\n")
    installation = Installation(None, Place())  # asked for nothing
    installation.policies = load(tmp_path)
    mutating, validating = rendered({"webhook": webhook}).configurations
    installation.configurations = {"mutating": mutating, "validating": validating}
    (finding,) = tolerant_pods(installation)
    assert finding.status is status
    if status is Status.WARNING:
        assert finding.found.startswith(
            "gpuNodesForGpuPods.tolerateAll is deny in tenants.yaml, and pods that tolerate"
        )
        assert finding.remedy == "set webhook.sendTolerateAll of the chart"

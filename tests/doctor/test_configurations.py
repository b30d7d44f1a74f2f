"""The doctor names what the webhook configurations do not send: ConfigMaps of policies, GPUs, pods on GPU nodes."""

from pathlib import Path
from typing import Any

import pytest

from deploy.match_conditions import pod_conditions
from tests.deploy.manifests import needs_helm, rendered, shipped
from tests.doctor.stored import said
from tests.golden import each
from webhook.doctor.configurations import POLICIES_ENTRY, policies_at_apply, registered_accelerators
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.sent_objects import tolerant_pods
from webhook.policy.loader import load

OURS = "gpu-policy-policies"


def looked(entries: list[dict[str, Any]], *mounted: str) -> list[DoctorFinding]:
    """The findings about these webhooks, and these ConfigMaps beside that of the chart."""
    maps = tuple(({"name": name}, {"metadata": {"name": name}}) for name in (OURS, *mounted))
    configurations = {"mutating": None, "validating": {"webhooks": entries}}
    return said(policies_at_apply, {}, configurations=configurations, policy_config_maps=maps)


SHIPPED = [entry for entry in shipped().entries if entry["name"] == POLICIES_ENTRY]


def test_what_is_shipped_is_well() -> None:
    (finding,) = looked(SHIPPED)
    assert (finding.status, finding.found) == (
        Status.OK,
        "mistakes in the ConfigMap of policies are refused when they are applied",
    )


@needs_helm
def test_config_maps_that_the_chart_knows_of_are_well() -> None:
    entries = rendered({"policies": {"configMaps": ["teams"]}}).entries
    (finding,) = looked(entries, "teams")
    assert (finding.status, finding.found) == (
        Status.OK,
        "mistakes in all 2 ConfigMaps of policies are refused when they are applied",
    )


def test_a_config_map_that_is_mounted_and_not_asked_about_is_named() -> None:
    (finding,) = looked(SHIPPED, "teams")
    assert (finding.status, finding.remedy) == (Status.WARNING, "name it in the chart value policies.configMaps")
    assert finding.found == (
        "ConfigMap teams is mounted as policies, but the API server does not send it to the webhook when it is applied"
    )


def test_where_policies_are_not_sent_on_purpose_nothing_is_missing() -> None:
    (finding,) = looked([{"name": "validate.gpupolicy.dev"}], "teams")
    assert finding.status is Status.OK
    assert finding.found.startswith("ConfigMaps of policies are not checked when they are applied")


BUILT_IN = r"nvidia\.com/gpu"


def registered(tmp_path: Path, extra: str, *sent: str, conditions: bool = True) -> list[DoctorFinding]:
    """The findings about policies that declare `extra`, if the configurations send these patterns."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (tmp_path / "_default.yaml").write_text(f"{head}spec: {{accelerators: {{extra: [{extra}]}}, rules: {{}}}}\n")
    made = pod_conditions([*sent, BUILT_IN], watches_nodes=True)
    webhook: dict[str, Any] = {"name": "validate.gpupolicy.dev", "clientConfig": {}}
    if conditions:
        webhook["matchConditions"] = [{"name": name, "expression": one} for name, one in made.items()]
    configurations = {"mutating": None, "validating": {"webhooks": [webhook]}}
    return said(registered_accelerators, {}, policies=load(tmp_path), configurations=configurations)


def test_policies_that_declare_nothing_are_well(tmp_path: Path) -> None:
    (finding,) = registered(tmp_path, "{name: deviceclass.resource.kubernetes.io/nic, gpu: false}")
    assert finding.status is Status.OK


@each(
    "name, sent",
    {
        "the name": ("example.com/gpu", r"example\.com/gpu"),
        "a glob that covers it": ("example.com/gpu", r"example\.com/.*"),
        "an equal glob": ("example.com/v?-*", r"example\.com/v.-.*"),
    },
)
def test_names_that_the_registration_sends_are_well(tmp_path: Path, name: str, sent: str) -> None:
    (finding,) = registered(tmp_path, f'{{name: "{name}", vendor: nvidia}}', sent)
    assert finding.status is Status.OK


def test_a_registration_without_conditions_sends_everything(tmp_path: Path) -> None:
    (finding,) = registered(tmp_path, "{name: example.com/gpu, vendor: nvidia}", conditions=False)
    assert finding.status is Status.OK


@pytest.mark.parametrize("sent", [(), (r"example\.com/gp",), ("(broken",)], ids=["nothing", "another", "no pattern"])
def test_names_that_the_registration_keeps_away_are_a_problem(tmp_path: Path, sent: tuple[str, ...]) -> None:
    (finding,) = registered(tmp_path, "{name: example.com/gpu, vendor: nvidia}", *sent)
    assert finding.status is Status.PROBLEM
    assert finding.found == (
        "validating: webhooks[validate.gpupolicy.dev].matchConditions do not send pods that request example.com/gpu"
    )
    assert finding.remedy == "helm upgrade with these names in accelerators.extra, too"


@needs_helm
@each(
    "setting, webhook, status",
    {
        "denied and not sent": ("deny", {}, Status.WARNING),
        "denied and sent": ("deny", {"sendTolerateAll": True}, Status.OK),
        "allowed": ("allow", {}, Status.OK),
    },
)
def test_pods_that_tolerate_every_taint_are_sent_where_a_policy_denies_it(
    tmp_path: Path, setting: str, webhook: dict[str, object], status: Status
) -> None:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: tenants}\n"
    rules = f"{{gpuNodesForGpuPods: {{mode: enforce, tolerateAll: {setting}}}}}"
    (tmp_path / "tenants.yaml").write_text(f"{head}spec: {{rules: {rules}}}\n")
    configurations = dict(zip(("mutating", "validating"), rendered({"webhook": webhook}).configurations, strict=True))
    (finding,) = said(tolerant_pods, {}, policies=load(tmp_path), configurations=configurations)
    assert finding.status is status
    if status is Status.WARNING:
        assert finding.found.startswith(
            "gpuNodesForGpuPods.tolerateAll is deny in tenants.yaml, and pods that tolerate"
        )
        assert finding.remedy == "set webhook.sendTolerateAll of the chart"

"""The doctor names the ConfigMaps of policies about which the API server does not ask when they are applied."""

from typing import Any

import pytest

from tests.deploy.manifests import needs_helm, rendered, shipped
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.configurations import POLICIES_ENTRY, policies_at_apply
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place

OURS = "gpu-policy-policies"


def looked(entries: list[dict[str, Any]] | None, *mounted: str) -> list[DoctorFinding]:
    """The findings about these webhooks, and these ConfigMaps beside that of the chart."""
    installation = Installation(None, Place())  # asked for nothing
    installation.configurations = {"mutating": None, "validating": None if entries is None else {"webhooks": entries}}
    installation.policy_config_maps = tuple(({"name": name}, {"metadata": {"name": name}}) for name in (OURS, *mounted))
    return list(policies_at_apply(installation))


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


def test_without_the_configuration_the_check_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="there is no validating webhook configuration gpu-policy"):
        looked(None)

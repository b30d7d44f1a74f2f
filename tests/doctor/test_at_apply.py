"""The doctor names the ConfigMaps of policies about which the API server does not ask when they are applied."""

from typing import Any

import pytest

from tests.deploy.manifests import needs_helm, rendered, shipped
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.configurations import POLICIES_ENTRY, policies_at_apply
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place

OURS, MARK = "gpu-policy-policies", {"gpupolicy.dev/policies": "true"}


def looked(entries: list[dict[str, Any]] | None, **mounted: dict[str, str] | None) -> list[DoctorFinding]:
    """The findings about these webhooks, and ConfigMaps with these labels beside the ConfigMap of the chart."""
    labels: dict[str, dict[str, str] | None] = {OURS: MARK, **mounted}
    installation = Installation(None, Place())  # asked for nothing
    installation.configurations = {"mutating": None, "validating": None if entries is None else {"webhooks": entries}}
    installation.policy_config_maps = tuple(
        ({"name": name}, {"metadata": {"name": name} | ({} if those is None else {"labels": those})})
        for name, those in labels.items()
    )
    return list(policies_at_apply(installation))


SHIPPED = [entry for entry in shipped().entries if entry["name"] == POLICIES_ENTRY]
BY_LABEL = [{"name": POLICIES_ENTRY, "objectSelector": {"matchLabels": MARK}}]


def test_what_is_shipped_is_well() -> None:
    (finding,) = looked(SHIPPED)
    assert (finding.status, finding.found) == (
        Status.OK,
        "mistakes in the ConfigMap of policies are refused when they are applied",
    )


@needs_helm
def test_config_maps_that_the_chart_knows_of_are_well() -> None:
    entries = rendered({"policies": {"configMaps": ["teams"]}}).entries
    (finding,) = looked(entries, teams=None)
    assert (finding.status, finding.found) == (
        Status.OK,
        "mistakes in all 2 ConfigMaps of policies are refused when they are applied",
    )


@pytest.mark.parametrize(
    ("entries", "labels", "remedy"),
    [
        pytest.param(SHIPPED, MARK, "name it in the chart value policies.configMaps", id="no name"),
        pytest.param(
            BY_LABEL, None, "kubectl -n gpu-policy label configmap teams gpupolicy.dev/policies=true", id="no label"
        ),
    ],
)
def test_a_config_map_that_is_mounted_and_not_asked_about_is_named(entries: Any, labels: Any, remedy: str) -> None:
    (finding,) = looked(entries, teams=labels)
    assert (finding.status, finding.remedy) == (Status.WARNING, remedy)
    assert finding.found == (
        "ConfigMap teams is mounted as policies, but the API server does not send it to the webhook when it is applied"
    )


def test_a_config_map_with_the_label_is_well_where_labels_decide() -> None:
    (finding,) = looked(BY_LABEL, teams=MARK)
    assert finding.status is Status.OK


def test_where_policies_are_not_sent_on_purpose_nothing_is_missing() -> None:
    (finding,) = looked([{"name": "validate.gpupolicy.dev"}], teams=None)
    assert finding.status is Status.OK
    assert finding.found.startswith("ConfigMaps of policies are not checked when they are applied")


def test_without_the_configuration_the_check_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="there is no validating webhook configuration gpu-policy"):
        looked(None)

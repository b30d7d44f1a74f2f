"""Whether the API server sends the pods that ask for GPUs which only the policies know."""

from pathlib import Path
from typing import Any

import pytest

from deploy.match_conditions import pod_conditions
from webhook.doctor.configurations import registered_accelerators
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place
from webhook.policy.loader import load

BUILT_IN = r"nvidia\.com/gpu"


def said(tmp_path: Path, extra: str, *sent: str, conditions: bool = True) -> list[DoctorFinding]:
    """The findings about policies that declare `extra`, if the configurations send these patterns."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (tmp_path / "_default.yaml").write_text(f"{head}spec: {{accelerators: {{extra: [{extra}]}}, rules: {{}}}}\n")
    made = pod_conditions([*sent, BUILT_IN], watches_devices=True, watches_nodes=True)
    webhook: dict[str, Any] = {"name": "validate.gpupolicy.dev", "clientConfig": {}}
    if conditions:
        webhook["matchConditions"] = [one.raw() for one in made]
    installation = Installation(None, Place())  # asked for nothing
    installation.policies = load(tmp_path)
    installation.configurations = {"mutating": None, "validating": {"webhooks": [webhook]}}
    return list(registered_accelerators(installation))


def test_policies_that_declare_nothing_are_well(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "{name: deviceclass.resource.kubernetes.io/nic, gpu: false}")
    assert finding.status is Status.OK


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        pytest.param("example.com/gpu", r"example\.com/gpu", id="the name"),
        pytest.param("example.com/gpu", r"example\.com/.*", id="a glob that covers it"),
        pytest.param("example.com/v?-*", r"example\.com/v.-.*", id="an equal glob"),
    ],
)
def test_names_that_the_registration_sends_are_well(tmp_path: Path, name: str, sent: str) -> None:
    (finding,) = said(tmp_path, f'{{name: "{name}", vendor: nvidia}}', sent)
    assert finding.status is Status.OK


def test_a_registration_without_conditions_sends_everything(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "{name: example.com/gpu, vendor: nvidia}", conditions=False)
    assert finding.status is Status.OK


@pytest.mark.parametrize("sent", [(), (r"example\.com/gp",), ("(broken",)], ids=["nothing", "another", "no pattern"])
def test_A42_names_that_the_registration_keeps_away_are_a_problem(tmp_path: Path, sent: tuple[str, ...]) -> None:
    (finding,) = said(tmp_path, "{name: example.com/gpu, vendor: nvidia}", *sent)
    assert finding.status is Status.PROBLEM
    assert finding.found == (
        "validating: webhooks[validate.gpupolicy.dev].matchConditions do not send pods that request example.com/gpu"
    )
    assert finding.remedy == "helm upgrade with these names in accelerators.extra, too"

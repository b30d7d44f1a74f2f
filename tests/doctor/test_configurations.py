"""Where nothing says what was installed: what every entry of the webhook configurations needs."""

from typing import Any

import pytest

from tests.deploy.manifests import shipped
from webhook.doctor import configurations
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place


def looked(changed: str = "", **changes: Any) -> list[DoctorFinding]:
    """The findings about the shipped configurations after changes of the webhook of this name."""
    mutating, validating = shipped().configurations
    for entry in (*mutating["webhooks"], *validating["webhooks"]):
        if entry["name"] == changed:
            entry.update(changes)
    installation = Installation(None, Place())  # asked for nothing
    installation.registration = None
    installation.configurations = {"mutating": mutating, "validating": validating}
    return [one for one in configurations.look(installation) if "there is no ConfigMap" not in one.found]


def test_what_is_shipped_has_the_essentials() -> None:
    assert [(finding.status, finding.found) for finding in looked()] == [
        (Status.OK, "the mutating webhook configuration has the essentials"),
        (Status.OK, "the validating webhook configuration has the essentials"),
    ]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            "workloads.gpupolicy.dev",
            "no Deployment can be created while no replica answers, not even the webhook's own",
        ),
        ("policies.gpupolicy.dev", "no policy can be corrected while no replica answers"),
    ],
)
def test_an_entry_that_no_pod_needs_must_not_need_an_answer(entry: str, why: str) -> None:
    (finding,) = [one for one in looked(entry, failurePolicy="Fail") if one.status is not Status.OK]
    assert (finding.status, finding.found, finding.expected) == (
        Status.PROBLEM,
        f"validating: webhooks[{entry}].failurePolicy is Fail",
        f"Ignore; otherwise {why}",
    )


@pytest.mark.parametrize("entry", ["mutate.gpupolicy.dev", "validate.gpupolicy.dev", "workloads.gpupolicy.dev"])
def test_all_entries_but_that_of_policies_leave_out_the_webhooks_own_namespace(entry: str) -> None:
    found = [one.found for one in looked(entry, namespaceSelector={}) if one.status is Status.PROBLEM]
    assert len(found) == 2
    assert found[0].endswith(f"webhooks[{entry}].namespaceSelector does not leave out gpu-policy")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"timeoutSeconds": 30}, "timeoutSeconds is 30"),
        ({"sideEffects": "Unknown"}, "sideEffects is Unknown"),
        ({"matchPolicy": "Exact"}, "matchPolicy is Exact"),
    ],
    ids=["timeoutSeconds", "sideEffects", "matchPolicy"],
)
def test_the_entry_of_policies_is_held_to_what_every_entry_needs(change: dict[str, Any], found: str) -> None:
    (finding,) = [one for one in looked("policies.gpupolicy.dev", **change) if one.status is not Status.OK]
    assert (finding.status, finding.found) == (
        Status.PROBLEM,
        f"validating: webhooks[policies.gpupolicy.dev].{found}",
    )

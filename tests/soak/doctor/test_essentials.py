"""Where nothing says what was installed, the doctor still knows what every installation needs."""

import shlex

import pytest

from tests.doctor.breaks import (
    MUTATING,
    VALIDATING,
    Break,
    entry,
)
from tests.doctor.site import Site, said
from webhook.doctor.doctor_report import Status

pytestmark = pytest.mark.e2e


def test_without_the_registration_the_essentials_are_checked(site: Site) -> None:
    site.delete("ConfigMap", "gpu-policy-registration")
    report = site.examined()
    assert report.exit_status == 0
    (finding,) = said(report, "configurations", Status.WARNING)
    assert "there is no ConfigMap gpu-policy/gpu-policy-registration, so only the essentials" in finding.found
    assert [finding.found for finding in said(report, "configurations", Status.OK)] == [
        "the mutating webhook configuration has the essentials",
        "the validating webhook configuration has the essentials",
    ]


@pytest.mark.parametrize(
    ("broken", "status", "found"),
    [
        pytest.param(
            entry(VALIDATING, "rules", []), Status.PROBLEM, "rules do not include pods on CREATE", id="no rules"
        ),
        pytest.param(
            entry(VALIDATING, "rules/0/operations", ["UPDATE"]),
            Status.PROBLEM,
            "rules do not include pods on CREATE",
            id="no CREATE",
        ),
        pytest.param(
            entry(VALIDATING, "namespaceSelector/matchExpressions/0/values", ["gpu-policy"]),
            Status.PROBLEM,
            "namespaceSelector does not leave out kube-system",
            id="kube-system judged",
        ),
        pytest.param(
            entry(VALIDATING, "namespaceSelector", {}),
            Status.PROBLEM,
            "namespaceSelector does not leave out gpu-policy",
            id="own namespace judged",
        ),
        pytest.param(
            entry(VALIDATING, "matchPolicy", "Exact"), Status.PROBLEM, "matchPolicy is Exact", id="matchPolicy"
        ),
        pytest.param(
            entry(VALIDATING, "timeoutSeconds", 30), Status.PROBLEM, "timeoutSeconds is 30", id="timeoutSeconds"
        ),
        pytest.param(
            entry(VALIDATING, "failurePolicy", "Ignore"),
            Status.WARNING,
            "failurePolicy is Ignore: pods pass unchecked while no replica answers",
            id="failurePolicy",
        ),
    ],
)
def test_a_missing_essential_is_named(site: Site, broken: Break, status: Status, found: str) -> None:
    site.delete("ConfigMap", "gpu-policy-registration")
    broken(site)
    found = f"validating: webhooks[validate.gpupolicy.dev].{found}"
    assert found in [finding.found for finding in said(site.examined(), "configurations", status)]


def test_a_configuration_without_webhooks_is_a_problem(site: Site) -> None:
    site.delete("ConfigMap", "gpu-policy-registration")
    site.patch(MUTATING, "gpu-policy", {"webhooks": None})
    (finding,) = said(site.examined(), "configurations", Status.PROBLEM)
    assert finding.found == "mutating: there are no webhooks in the configuration"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda site: site.delete(MUTATING, "gpu-policy"), id="one is missing"),
        pytest.param(entry(VALIDATING, "failurePolicy", "Ignore"), id="one was changed"),
        pytest.param(entry(VALIDATING, "objectSelector", {"matchLabels": {"a": "b"}}), id="one selects less"),
    ],
)
def test_the_remedy_for_configurations_mends_them(site: Site, broken: Break) -> None:
    """The command in the report is run as it stands there."""
    broken(site)
    (command,) = {finding.remedy for finding in said(site.examined(), "configurations", Status.PROBLEM)}
    first, second = map(shlex.split, command.split(" | "))
    printed = site.plane.kubectl(*first[1:])
    site.plane.kubectl(*second[1:], input=printed.stdout)
    assert said(site.examined(), "configurations", Status.PROBLEM) == []

"""The doctor finds what keeps the replicas alive, however it is written."""

from collections.abc import Iterator
from typing import Any

import pytest

from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.doctor_report import Status
from webhook.doctor.installation import Installation, Place
from webhook.doctor.replicas import disruption_budget

DEPLOYMENT = {"spec": {"template": {"metadata": {"labels": {"app": "gpu-policy"}}, "spec": {"containers": [{}]}}}}


class OneBudget(DoctorCluster):
    """A cluster with the Deployment and one PodDisruptionBudget with this selector."""

    def __init__(self, selector: Any) -> None:
        self._selector = selector

    def find(self, *_: Any) -> Any:
        return DEPLOYMENT

    def items(self, *_: Any) -> Iterator[Any]:
        yield {"metadata": {"name": "some"}, "spec": {"selector": self._selector}}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({"matchLabels": {"app": "gpu-policy"}}, Status.OK, id="labels"),
        pytest.param({"matchLabels": {"app": "other"}}, Status.WARNING, id="other labels"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["gpu-policy"]}]},
            Status.OK,
            id="expressions",
        ),
        pytest.param(
            {"matchLabels": {"app": "gpu-policy"}, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            Status.WARNING,
            id="labels and expressions that exclude them",
        ),
        pytest.param({}, Status.OK, id="an empty selector selects all pods of the namespace (policy/v1)"),
        pytest.param(None, Status.WARNING, id="no selector selects none"),
    ],
)
def test_a_disruption_budget_is_found_by_its_whole_selector(selector: Any, expected: Status) -> None:
    (found,) = disruption_budget(Installation(OneBudget(selector), Place()))
    assert found.status is expected

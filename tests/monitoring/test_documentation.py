"""docs/metrics.md explains what a replica shows."""

import re

import pytest

from tests.counted import counted, documented
from tests.monitoring.promql import OF_THE_API_SERVER, ROOT, promtool
from webhook.admission.metrics import LOOKUP_RESULTS, REASONS

PAGE = (ROOT / "docs" / "metrics.md").read_text()


def test_every_metric_is_described_with_its_labels_as_a_replica_describes_it() -> None:
    assert documented() == PAGE, "run `make docs`"


def explained(head: str) -> set[str]:
    return set(re.findall(r"^- `(\w+)`", PAGE.partition(head)[2].split("\n\n")[1], re.MULTILINE))


def test_every_reason_is_explained_and_no_other_is() -> None:
    assert explained("Reasons of `gpu_policy_errors_total`") == set(REASONS)


def test_every_result_of_a_look_up_is_explained_and_no_other_is() -> None:
    assert explained("Results of look-ups") == set(LOOKUP_RESULTS)


@pytest.mark.parametrize("metric", sorted(OF_THE_API_SERVER))
def test_metrics_of_others_that_alerts_need_are_named(metric: str) -> None:
    assert f"`{metric}`" in PAGE


def test_prometheus_finds_nothing_wrong_with_the_page_of_metrics() -> None:
    promtool("check", "metrics", text=counted().page().decode())

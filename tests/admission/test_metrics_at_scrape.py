"""Gauges that are read at a scrape: unknown values are absent, and a fault in one removes only that one."""

import logging

import pytest

from tests.counted import labels_by_name
from webhook.admission.metrics import Metrics

# What is read at each scrape.


def test_what_nobody_knows_yet_is_absent_and_not_zero() -> None:
    metrics = Metrics()
    ends: dict[str, float] = {}
    metrics.watch("certificate_expiry_seconds", lambda: ends)
    metrics.watch("certificate_fault", lambda: True)
    metrics.watch("clock_skew_seconds", lambda: None)
    value = metrics.registry.get_sample_value
    shown = labels_by_name(metrics.page())
    assert "gpu_policy_certificate_expiry_seconds" not in shown
    assert "gpu_policy_clock_skew_seconds" not in shown
    assert value("gpu_policy_certificate_fault") == 1
    ends["leaf"] = 60.0
    assert value("gpu_policy_certificate_expiry_seconds", {"certificate": "leaf"}) == 60
    assert value("gpu_policy_certificate_expiry_seconds", {"certificate": "ca"}) is None


def test_a_reading_that_fails_takes_only_itself_from_the_page_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    ages: list[float] = []
    metrics.watch("facts_age_seconds", lambda: ages[0])
    for _ in range(3):
        shown = labels_by_name(metrics.page())
        assert "gpu_policy_facts_age_seconds" not in shown
        assert "gpu_policy_errors_total" in shown
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is None) == (logging.ERROR, False)
    assert record.getMessage() == "the metric gpu_policy_facts_age_seconds cannot be read and is not shown"
    ages.append(3.0)
    assert metrics.registry.get_sample_value("gpu_policy_facts_age_seconds") == 3
    ages.clear()
    metrics.page()
    assert len(caplog.records) == 2


def test_values_that_are_no_numbers_are_not_half_shown() -> None:
    metrics = Metrics()
    metrics.watch("certificate_expiry_seconds", lambda: {"ca": 5.0, "leaf": "soon"})  # type: ignore[dict-item]  # the fault
    assert "gpu_policy_certificate_expiry_seconds" not in labels_by_name(metrics.page())

"""The metrics of a replica, in a number of series that no tenant can raise."""

import logging
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from tests.build import FACTS, pod, policies, policy, request, workload
from tests.counted import counted, labels_by_name, samples
from webhook.admission import phases
from webhook.admission.metrics import LATENCY_BUCKETS, REASONS, Metrics
from webhook.admission.phases import UNCONCERNED
from webhook.engine.workloads import KEY
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Limit, Measure, Quota, QuotaScope
from webhook.replica.quota_service import MOST_QUOTAS, QuotaMetrics
from webhook.rules import RULES
from webhook.rules.rule_settings import Mode

LABELS = {
    "gpu_policy_requests_total": {"phase", "operation", "result"},
    "gpu_policy_namespace_decisions_total": {"namespace", "result"},
    "gpu_policy_findings_total": {"rule", "mode", "kind"},
    "gpu_policy_exceptions_used_total": {"exception"},
    "gpu_policy_exception_end_timestamp_seconds": {"exception"},
    "gpu_policy_injections_total": {"rule"},
    "gpu_policy_errors_total": {"reason"},
    "gpu_policy_request_duration_seconds_bucket": {"phase", "le"},
    "gpu_policy_request_duration_seconds_count": {"phase"},
    "gpu_policy_request_duration_seconds_sum": {"phase"},
    "gpu_policy_policy_info": {"hash"},
    "gpu_policy_policy_reload_ok": set(),
    "gpu_policy_policy_reload_failures_total": set(),
    "gpu_policy_quotas_removed_total": set(),
    "gpu_policy_ready": set(),
    "gpu_policy_facts_age_seconds": set(),
    "gpu_policy_nodes": {"product", "driver"},
    "gpu_policy_nodes_of_ended_branch": {"branch"},
    "gpu_policy_apiserver_reachable": set(),
    "gpu_policy_certificate_expiry_seconds": {"certificate"},
    "gpu_policy_certificate_fault": set(),
    "gpu_policy_clock_skew_seconds": set(),
    "gpu_policy_webhook_configuration_ok": {"configuration"},
    "gpu_policy_webhook_timeout_seconds": {"configuration"},
    "gpu_policy_image_lookups_total": {"result"},
    "gpu_policy_images_known": set(),
    "gpu_policy_images_pending": set(),
    "gpu_policy_image_results_shared": set(),
    "gpu_policy_warning_events_total": {"result"},
    "gpu_policy_warning_events_waiting": set(),
    "gpu_policy_quota_used": {"quota", "limit"},
    "gpu_policy_quota_used_by_claims": {"quota", "limit"},
    "gpu_policy_quota_gated": {"quota", "limit"},
    "gpu_policy_quota_hard": {"quota", "limit"},
    "gpu_policy_quota_entries": {"quota"},
    "gpu_policy_quota_unconfirmed": {"quota"},
    "gpu_policy_quota_refused_total": {"quota"},
    "gpu_policy_quota_ledger_duration_seconds_bucket": {"operation", "le"},
    "gpu_policy_quota_ledger_duration_seconds_count": {"operation"},
    "gpu_policy_quota_ledger_duration_seconds_sum": {"operation"},
    "gpu_policy_quota_conflicts_total": {"quota"},
    "gpu_policy_quota_ledger_failures_total": {"quota"},
    "gpu_policy_quota_ledger_repairs_total": set(),
    "gpu_policy_quota_reconcile_age_seconds": set(),
    "gpu_policy_audit_timestamp_seconds": set(),
    "gpu_policy_audit_duration_seconds": set(),
    "gpu_policy_audit_objects": {"kind"},
    "gpu_policy_audit_findings": {"rule", "level"},
    "gpu_policy_audit_namespace_findings": {"namespace", "level"},
    "gpu_policy_audit_errors": set(),
    "gpu_policy_audit_stale_after_seconds": set(),
}
PROCESS = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
}
MOST_SERIES = 450
"""Without namespaces, of which there are three times as many as have series of their own, and _other; and without
quotas, which the platform makes; with one kind of GPU nodes, of which at most a hundred more have series."""
NAMESPACE_SERIES = 200


def test_names_and_labels_are_those_that_dashboards_are_built_on() -> None:
    assert labels_by_name(counted().page()) == LABELS | {name: set() for name in PROCESS}


def decide(metrics: Metrics, namespace: str, operation: str = "CREATE") -> None:
    """Count the refusal and the acceptance of a pod in both phases."""
    for phase in ("mutate", "validate"):
        asked = request(pod(1, name=f"pod-of-{namespace}"), operation, name="trainer")
        asked = replace(asked, namespace=namespace)
        metrics.count(phase, asked, UNCONCERNED, 0.001)
        metrics.count(phase, asked, replace(UNCONCERNED, answer=replace(UNCONCERNED.answer, is_allowed=False)), 9.0)


def test_the_number_of_series_is_bounded_whatever_is_thrown_at_a_replica() -> None:
    metrics = counted()
    for number in range(10_000):
        decide(metrics, f"namespace-{number}", f"operation-{number}")
    for operation in ("CREATE", "UPDATE", "DELETE", "CONNECT", "", "create", "PATCH\n"):
        decide(metrics, "team-one", operation)
        metrics.count("workloads", request(workload("Deployment", pod(1)), operation), UNCONCERNED, 0.001)
    modes = (Mode.ENFORCE, Mode.WARN, Mode.AUDIT)
    for rule, mode, kind in product([*(rule.key for rule in RULES), KEY], modes, FindingKind):
        outcome = Outcome(policy({}), {}, (Finding(rule, mode, kind, "spec", "is wrong"),))
        metrics.count("workloads", request(pod(1)), replace(UNCONCERNED, outcome=outcome), 0.001)
    for number in range(1000):
        metrics.policies(f"hash-{number}", is_current=False, failures=number)
    shown = samples(metrics.page())
    of_namespaces = [sample for sample in shown if "namespace" in sample.labels]
    assert len({sample.labels["namespace"] for sample in of_namespaces}) == NAMESPACE_SERIES + 1
    assert len(of_namespaces) <= 3 * (NAMESPACE_SERIES + 1)
    assert len(shown) - len(of_namespaces) <= MOST_SERIES
    assert not [sample for sample in shown if any("pod-" in value for value in sample.labels.values())]
    buckets = [sample for sample in shown if sample.labels.get("phase") == "mutate" and "le" in sample.labels]
    assert len(buckets) == len(LATENCY_BUCKETS) + 1 <= 10


def test_quotas_beyond_the_bound_are_counted_together() -> None:
    metrics = Metrics()
    usage = {f"shared.{number:04}": used_up(f"{number:04}") for number in range(1000)}
    quotas = QuotaMetrics(metrics.registry, lambda: usage)
    for key in usage:
        quotas.reserved(key, 0.001)
        quotas.refused(key)
        quotas.failed(key)
        quotas.conflicted(key)
    shown = samples(metrics.page())
    for name in ("refused_total", "ledger_failures_total", "conflicts_total"):
        found = {s.labels["quota"]: s.value for s in shown if s.name == f"gpu_policy_quota_{name}"}
        assert found == dict.fromkeys(list(usage)[:MOST_QUOTAS], 1) | {"_other": 1000 - MOST_QUOTAS}
    for name in ("used", "used_by_claims", "hard", "entries"):
        assert len([s for s in shown if s.name == f"gpu_policy_quota_{name}"]) == MOST_QUOTAS


def used_up(name: str) -> Usage:
    """A shared quota in which nothing is free."""
    limit = Limit(Measure.GPUS, "", Fraction(2))
    return Usage(
        Quota(QuotaScope.SHARED, name, ("*",), (limit,)),
        {limit: Fraction(2)},
        {limit: Fraction(1)},
        units=2,
        entries=2,
        namespaces=frozenset(),
    )


def test_what_a_quota_allows_and_uses_is_shown_by_limit_in_numbers() -> None:
    value = counted().registry.get_sample_value
    for limit, hard in (("gpus", 8), ("model:H100", 4)):
        labels = {"quota": "namespace.team-one", "limit": limit}
        assert value("gpu_policy_quota_hard", labels) == hard
        assert value("gpu_policy_quota_used", labels) == 17 / 7
        assert value("gpu_policy_quota_used_by_claims", labels) == 3 / 7
    assert value("gpu_policy_quota_entries", {"quota": "namespace.team-one"}) == 3


def test_what_befell_a_quota_is_shown_as_zero_once_it_was_asked_for_the_first_time() -> None:
    metrics = Metrics()
    QuotaMetrics(metrics.registry, dict).reserved("shared.a", 0.001)
    for name in ("refused", "ledger_failures", "conflicts"):
        assert metrics.registry.get_sample_value(f"gpu_policy_quota_{name}_total", {"quota": "shared.a"}) == 0


def test_namespaces_beyond_the_bound_are_counted_together() -> None:
    metrics = Metrics(namespace_series=2)
    for namespace in ("one", "two", "three", "four", "one"):
        decide(metrics, namespace)
    value = metrics.registry.get_sample_value
    found = [
        value("gpu_policy_namespace_decisions_total", {"namespace": namespace, "result": "refused"})
        for namespace in ("one", "two", "three", "four", "_other")
    ]
    assert found == [4, 2, None, None, 4]


def test_only_namespaces_that_exist_have_series() -> None:
    metrics = Metrics(namespace_series=10)
    metrics.know_namespaces(lambda namespace: namespace.startswith("team-"))
    for namespace in (*(f"made-up-{number}" for number in range(1000)), *(f"team-{number}" for number in range(12))):
        decide(metrics, namespace)
    named = {s.labels["namespace"] for s in samples(metrics.page()) if "namespace" in s.labels}
    assert named == {*(f"team-{number}" for number in range(10)), "_other"}
    labels = {"namespace": "team-3", "result": "refused"}
    assert metrics.registry.get_sample_value("gpu_policy_namespace_decisions_total", labels) == 2


def test_what_was_injected_and_what_only_would_have_been_are_counted_apart() -> None:
    metrics = counted()
    value = metrics.registry.get_sample_value
    assert value("gpu_policy_injections_total", {"rule": "tolerations"}) == 2
    labels = {"rule": "tolerations", "mode": "warn", "kind": "injection"}
    assert value("gpu_policy_findings_total", labels) == 2


def test_decisions_of_a_namespace_are_counted_by_what_became_of_them() -> None:
    value = counted().registry.get_sample_value
    by_result = {
        result: value("gpu_policy_namespace_decisions_total", {"namespace": "team-one", "result": result})
        for result in ("allowed", "patched", "refused")
    }
    assert by_result == {"allowed": 2, "patched": 1, "refused": 1}


def test_what_alerts_are_about_is_shown_as_zero_before_it_occurs() -> None:
    """Otherwise the first event would be no increase to Prometheus."""
    value = Metrics().registry.get_sample_value
    assert {value("gpu_policy_errors_total", {"reason": reason}) for reason in REASONS} == {0}
    for rule in RULES:
        labels = {"rule": rule.key, "mode": "enforce", "kind": "missing"}
        assert value("gpu_policy_findings_total", labels) == (0 if rule.injects else None)


def test_the_hash_in_force_is_the_only_one_shown() -> None:
    metrics = Metrics()
    metrics.policies("old", is_current=True, failures=0)
    metrics.policies("new", is_current=True, failures=0)
    shown = [line for line in metrics.page().decode().splitlines() if line.startswith("gpu_policy_policy_info{")]
    assert shown == ['gpu_policy_policy_info{hash="new"} 1.0']


def test_refused_reloads_and_the_quotas_that_reloads_remove_are_counted_once() -> None:
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    for failures, is_current, removed in ((0, True, 0), (1, False, 0), (1, False, 2), (3, False, 2), (3, True, 3)):
        metrics.policies("hash", is_current=is_current, failures=failures, removed_quotas=removed)
        assert value("gpu_policy_policy_reload_ok") == float(is_current)
        assert value("gpu_policy_policy_reload_failures_total") == failures
        assert value("gpu_policy_quotas_removed_total") == removed


def test_a_template_that_passes_counts_no_findings() -> None:
    """Its pods will, when they come."""
    metrics = Metrics()
    asked = request(workload("Job", pod(9)))
    metrics.count("mutate", asked, phases.mutate(asked, policies({"gpuLimits": {"maxPerPod": 1}}), FACTS), 0.001)
    assert sum(s.value for s in samples(metrics.page()) if s.name == "gpu_policy_findings_total") == 0


# Gauges that are read at each scrape.


def test_what_nobody_knows_yet_is_absent_and_not_zero() -> None:
    metrics = Metrics()
    ends: dict[str, float] = {}
    metrics.watch("certificate_expiry_seconds", lambda: ends)
    metrics.watch("clock_skew_seconds", lambda: None)
    value = metrics.registry.get_sample_value
    shown = labels_by_name(metrics.page())
    assert "gpu_policy_certificate_expiry_seconds" not in shown
    assert "gpu_policy_clock_skew_seconds" not in shown
    ends["leaf"] = 60.0
    assert value("gpu_policy_certificate_expiry_seconds", {"certificate": "leaf"}) == 60


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

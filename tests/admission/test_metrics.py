"""What operators can count, with a number of series that no tenant can drive up."""

from prometheus_client.parser import text_string_to_metric_families as families

from tests.reviews import FACTS, INJECTING, pod, policies, request, wanting_pod, workload
from webhook.admission import phases
from webhook.admission.metrics import LATENCY_BUCKETS, Metrics

LABELS = {
    "gpu_policy_requests": {"phase", "operation", "result"},
    "gpu_policy_findings": {"rule", "mode", "kind"},
    "gpu_policy_injections": {"rule"},
    "gpu_policy_errors": {"reason"},
    "gpu_policy_request_duration_seconds": {"phase", "le"},
    "gpu_policy_policy_info": {"hash"},
    "gpu_policy_policy_reload_ok": set(),
    "gpu_policy_policy_reload_failures": set(),
    "gpu_policy_facts_age_seconds": set(),
    "gpu_policy_apiserver_reachable": set(),
}


def used() -> Metrics:
    """Metrics after every kind of event, for two differently named pods."""
    metrics = Metrics()
    metrics.watch_facts(lambda: 7.0, lambda: True)
    metrics.policies("abc", is_current=True, failures=0)
    metrics.error("bug")
    for name in ("one", "two"):
        for mode in ("enforce", "warn"):
            raw = wanting_pod() | {"metadata": {"name": name, "namespace": name}}
            using = policies(INJECTING, mode=mode)
            for phase in (phases.mutate, phases.validate):
                decision = phase(request(raw, namespace=name, name=name), using, FACTS)
                metrics.count(phase.__name__, "CREATE", decision.result, decision.outcome, 0.001)
    return metrics


def test_names_and_labels_are_those_that_dashboards_are_built_on() -> None:
    found: dict[str, set[str]] = {}
    for family in families(used().page().decode()):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found.setdefault(family.name, set()).update(sample.labels)
    assert {name: labels for name, labels in found.items() if not name.endswith("_created")} == LABELS


def test_no_label_names_a_pod_or_a_namespace() -> None:
    values = {
        value
        for family in families(used().page().decode())
        for sample in family.samples
        for value in sample.labels.values()
    }
    assert not values & {"one", "two", "trainer", "team"}


def test_the_histogram_has_at_most_ten_buckets() -> None:
    assert len(LATENCY_BUCKETS) + 1 <= 10


def test_what_was_injected_and_what_only_would_have_been_are_counted_apart() -> None:
    metrics = used()
    value = metrics.registry.get_sample_value
    assert value("gpu_policy_injections_total", {"rule": "tolerations"}) == 2
    labels = {"rule": "tolerations", "mode": "warn", "kind": "injection"}
    assert value("gpu_policy_findings_total", labels) == 2


def test_the_hash_in_force_is_the_only_one_shown() -> None:
    metrics = Metrics()
    metrics.policies("old", is_current=True, failures=0)
    metrics.policies("new", is_current=True, failures=0)
    shown = [line for line in metrics.page().decode().splitlines() if line.startswith("gpu_policy_policy_info{")]
    assert shown == ['gpu_policy_policy_info{hash="new"} 1.0']


def test_a_refused_reload_is_shown_and_counted_until_it_is_mended() -> None:
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    for failures, is_current in ((0, True), (1, False), (1, False), (3, False), (3, True)):
        metrics.policies("hash", is_current=is_current, failures=failures)
        assert value("gpu_policy_policy_reload_ok") == float(is_current)
        assert value("gpu_policy_policy_reload_failures_total") == failures


def test_a_template_that_passes_counts_no_findings() -> None:
    """Its pods will, when they come."""
    metrics = Metrics()
    decision = phases.mutate(request(workload("Job", pod(9))), policies({"gpuLimits": {"maxPerPod": 1}}), FACTS)
    metrics.count("mutate", "CREATE", decision.result, decision.outcome, 0.001)
    assert "gpu_policy_findings_total{" not in metrics.page().decode()


def test_two_replicas_in_one_process_do_not_share_their_counts() -> None:
    one, other = Metrics(), Metrics()
    one.error("bug")
    assert "gpu_policy_errors_total{" not in other.page().decode()

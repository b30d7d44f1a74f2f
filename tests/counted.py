"""Metrics as a replica shows them after every kind of event, and what stands on the page.

`python -m tests.counted` writes the list of docs/metrics.md.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.build import FACTS, policies, request, wanting_pod
from tests.rules.every_rule import INJECTING
from webhook.admission import phases
from webhook.admission.metrics import LOOKUP_RESULTS, REASONS, Metrics, show_nodes
from webhook.audit.report import Level
from webhook.cuda.cuda_tables import SHIPPED
from webhook.facts.snapshot import Snapshot
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Limit, Measure, Quota, QuotaScope
from webhook.replica.audit_status import AuditStatus, show
from webhook.replica.quota_service import QuotaMetrics
from webhook.replica.warning_events import RESULTS

DAY = 86400.0
AUDITED = AuditStatus(
    finished=1_773_037_805.0,
    seconds=42.0,
    objects={"pods": 1200, "workloads": 340, "others": 0},
    by_rule={("gpuLimits", Level.REFUSE): 4, ("gpuLimits", Level.WARN): 0},
    by_namespace={("team-one", Level.REFUSE): 4},
    errors=0,
)
NODES = Snapshot.of(
    [
        {
            "metadata": {"name": "gpu-1", "labels": {"nvidia.com/cuda.driver-version.full": "535.183.01"}},
            "status": {"capacity": {"nvidia.com/gpu": "8"}},
        }
    ]
)
LIMITS = (Limit(Measure.GPUS, "", Fraction(8)), Limit(Measure.MODEL, "H100", Fraction(4)))


def counted() -> Metrics:
    """The metrics of a replica that has judged pods of two namespaces, looked up images, kept a quota, met faults."""
    metrics = Metrics()
    show_nodes(metrics.registry, lambda: NODES, lambda: SHIPPED, lambda: 1_800_000_000.0)
    metrics.watch_exceptions(lambda: {"bert-legacy": 1_800_057_600.0})
    metrics.page()  # a series is counted from the page on that shows its exception first
    ends = {"ca": 700 * DAY, "leaf": 90 * DAY, "ca_bundle": 90 * DAY}
    gauges = {
        "ready": True,
        "facts_age_seconds": 7.0,
        "apiserver_reachable": True,
        "warning_events_waiting": 0,
        "certificate_expiry_seconds": ends,
        "certificate_fault": False,
        "clock_skew_seconds": -1.0,
        "webhook_configuration_ok": {"mutating": True, "validating": False},
        "webhook_timeout_seconds": {"mutating": 5.0, "validating": 5.0},
        "images_known": 40,
        "images_pending": 2,
        "image_results_shared": True,
    }
    for name, value in gauges.items():
        metrics.watch(name, lambda value=value: value)
    for name, results in (("warning_events", RESULTS), ("image_lookups", LOOKUP_RESULTS)):
        count = metrics.count_results(name, results)
        for result in results:
            count(result)
    quota = Quota(QuotaScope.NAMESPACE, "team-one", ("team-one",), LIMITS)
    in_use, by_claims = (dict.fromkeys(LIMITS, Fraction(number, 7)) for number in (17, 3))
    usage = {quota.key: Usage(quota, in_use, by_claims, units=3, entries=3, namespaces=frozenset())}
    quotas = QuotaMetrics(metrics.registry, lambda: usage, lambda: 5.0)
    quotas.reserved(quota.key, 0.004)
    quotas.looked_up(0.02)
    for count in (quotas.conflicted, quotas.failed, quotas.refused):
        count(quota.key)
    show(metrics.registry, lambda: AUDITED, lambda: 43200.0, 200)
    metrics.policies("abc", is_current=True, failures=0)
    for reason in REASONS:
        metrics.error(reason)
    for name in ("one", "two"):
        raw = wanting_pod() | {"metadata": {"name": f"pod-{name}"}}
        asked = request(raw, namespace=f"team-{name}", name=f"pod-{name}")
        for mode in ("enforce", "warn"):
            for phase in (phases.mutate, phases.validate):
                metrics.count(phase.__name__, asked, phase(asked, policies(INJECTING, mode=mode), FACTS), 0.001)
    return metrics


def samples(page: bytes) -> Sequence[Sample]:
    """Every sample on a page of metrics."""
    return [sample for family in text_string_to_metric_families(page.decode()) for sample in family.samples]


def labels_by_name(page: bytes) -> dict[str, set[str]]:
    """The labels of each name that stands on a page of metrics; a histogram has three names, ending in _bucket, ..."""
    found: dict[str, set[str]] = {}
    for sample in samples(page):
        found.setdefault(sample.name, set()).update(sample.labels)
    return found


DOCUMENTED = Path(__file__).parents[1] / "docs" / "metrics.md"


def documented() -> str:
    """docs/metrics.md with every metric, its labels, and what a replica says of it."""
    rows = ""
    for family in sorted(text_string_to_metric_families(counted().page().decode()), key=lambda one: one.name):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        rows += f"- `{name}`" + (f" ({', '.join(labels)})" if labels else "") + f": {family.documentation}\n"
    return re.sub(r"(?m)(?:^- `(?:gpu_policy|process)_.*\n)+", lambda _: rows, DOCUMENTED.read_text(), count=1)


if __name__ == "__main__":
    DOCUMENTED.write_text(documented())

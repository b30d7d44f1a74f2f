"""The last audit of the cluster as metrics. Rules, levels and kinds come from closed sets; namespaces are bounded."""

from collections import Counter
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from webhook.admission.series import OTHER, Labels, Watched
from webhook.audit.report import Level
from webhook.replica.audit_status import AuditStatus, Counts


def show(
    registry: CollectorRegistry,
    status: Callable[[], AuditStatus | None],
    stale_after: Callable[[], float | None],
    most_namespaces: int,
) -> None:
    """Show what `status` gives, read at each scrape; nothing where there was no audit."""

    def watch(name: str, text: str, read: Callable[[AuditStatus], Mapping[Labels, float]], *labels: str) -> None:
        def values() -> Mapping[Labels, float]:
            return {} if (one := status()) is None else read(one)

        Watched(f"gpu_policy_audit_{name}", text, labels, values, registry=registry)

    watch("timestamp_seconds", "When the last audit of the cluster ended, Unix time.", lambda one: {(): one.finished})
    watch("duration_seconds", "Time that the last audit took.", lambda one: {(): one.seconds})
    watch("errors", "What the last audit could not look at, or not publish.", lambda one: {(): one.errors})
    text = "Objects that the last audit looked at, by kind (pods, workloads, others)."
    watch("objects", text, lambda one: {(kind,): count for kind, count in one.objects.items()}, "kind")
    text = "Findings of the last audit, by rule and level (refuse, warn, audit, complete)."
    watch("findings", text, lambda one: _series(one.by_rule), "rule", "level")
    text = "The same by namespace and level; _other stands for all namespaces that have no series of their own."
    by_namespace = _bounded_to(most_namespaces)
    watch("namespace_findings", text, lambda one: _series(by_namespace(one)), "namespace", "level")
    Watched(
        "gpu_policy_audit_stale_after_seconds",
        "Age of the last audit from which it is too old, as installed.",
        (),
        lambda: {} if (seconds := stale_after()) is None else {(): seconds},
        registry=registry,
    )


def _series(counts: Counts) -> Mapping[Labels, float]:
    return {(name, level.value): float(count) for (name, level), count in counts.items()}


def _bounded_to(most: int) -> Callable[[AuditStatus], Counts]:
    """Gives the first `most` namespaces of an audit, which are the worst, and the others together."""

    def bounded(status: AuditStatus) -> Counts:
        named = set(list(dict.fromkeys(name for name, _ in status.by_namespace if name != OTHER))[:most])
        found: Counter[tuple[str, Level]] = Counter()
        for (name, level), count in status.by_namespace.items():
            found[name if name in named else OTHER, level] += count
        return found

    return bounded

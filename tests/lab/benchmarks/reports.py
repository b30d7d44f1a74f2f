"""What policy reports of 10,000 pods take in etcd, and what it costs to write them.

    python -m tests.lab.benchmarks.reports

Needs a control plane (KUBEBUILDER_ASSETS). Rows: 10,000 pods that nobody owns, each with two faults of its own; the
same pods behind 2,000 workloads, one in ten of which has a fault. Bytes are those of the objects as the API server
stores them, managed fields included. Every finding has to be in them; the second writing has to change nothing, and the
third one object.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.e2e.report_cluster import Raw, ReportCluster
from tests.lab.benchmarks.planes import control_plane, named
from tests.lab.benchmarks.runs import demand, head, row, sized
from webhook.audit.report import AuditFinding, AuditReport, Counts, Level, ObjectReference, PodGroup, Running
from webhook.kubernetes.api_server import ApiServer
from webhook.outcome import FindingKind
from webhook.replica.published_reports import ReportKind, publish
from webhook.rules.rule_settings import Mode

NAMESPACES, PODS, WORKLOADS = sized((100, 10_000, 2_000), (4, 100, 20))

_FAULTS = (
    (
        Level.REFUSE,
        "gpuLimits",
        "spec.containers[trainer].resources",
        "nvidia.com/gpu is 2 in requests but missing in limits; GPUs are allocated from limits",
        "Move the 2 to resources.limits",
    ),
    (
        Level.WARN,
        "visibleDevices",
        "spec.containers[trainer].env[NVIDIA_VISIBLE_DEVICES]",
        'is "all" in a container that requests no GPUs; it would see every GPU of its node',
        "Request GPUs in resources.limits, or remove the variable",
    ),
)


def main() -> None:
    """Print the table."""
    with control_plane() as plane:
        site = ReportCluster(plane)
        site.install(ReportKind.POLICY_REPORTS)
        for number in range(NAMESPACES):
            plane.namespace(_namespace(number))
        print(f"{named(plane)}\n")
        head("audit", "results", "objects", "MiB", "largest, KiB", "first, s", "unchanged, s", "one changed, s")
        _row(site, "every pod on its own, two faults each", _report(_worst()))
        _row(site, f"{WORKLOADS:,} workloads, one in ten with a fault", _report(_typical()))


def _row(site: ReportCluster, name: str, report: AuditReport) -> None:
    server = ApiServer(site.plane.kubeconfig)
    later = replace(report, created=report.created + timedelta(hours=6))
    changed = replace(later, findings=later.findings[:-1])
    first, objects = _published(site, server, report)
    seconds = [first]
    for one, most in ((later, 0), (changed, 1)):
        before = site.versions(ReportKind.POLICY_REPORTS)
        taken, _ = _published(site, server, one)
        seconds.append(taken)
        written = set(site.versions(ReportKind.POLICY_REPORTS).items()) ^ set(before.items())
        wrote = len({uid for uid, _ in written})
        demand(wrote == most, f"{name}: {wrote} objects changed; {most} should")
    sizes = [len(json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()) for raw in objects]
    figures = (sum(sizes) / 2**20, max(sizes) / 1024, *seconds)
    row(name, len(report.findings), len(objects), *(f"{figure:.1f}" for figure in figures))


def _published(site: ReportCluster, server: ApiServer, report: AuditReport) -> tuple[float, list[Raw]]:
    """How long it took, and what is there now: a result for each finding."""
    begun = time.monotonic()
    published = publish(report, server, ReportKind.POLICY_REPORTS)
    seconds = time.monotonic() - begun
    demand(not published.errors, "\n".join(published.errors))
    objects = site.objects(ReportKind.POLICY_REPORTS)
    results = sum(len(raw["results"]) for raw in objects)
    expected = len(report.findings)
    demand(results == expected, f"{results} results in {len(objects)} objects; {expected} findings are to be there")
    return seconds, objects


def _worst() -> Iterator[AuditFinding]:
    for number in range(PODS):
        pod = _reference(number, "Pod", f"trainer-{number:05}-worker-0", "v1")
        yield from (replace(_finding(pod, fault), running=Running(1, (pod.name,))) for fault in _FAULTS)


def _typical() -> Iterator[AuditFinding]:
    for number in range(0, WORKLOADS, 10):
        owner = _reference(number // 10, "Deployment", f"trainer-{number:05}", "apps/v1")
        running = Running(PODS // WORKLOADS, (f"{owner.name}-5d9c-abcde",))
        yield replace(_finding(owner, _FAULTS[0]), pod_group=PodGroup("", PODS // WORKLOADS, 2), running=running)


def _finding(owner: ObjectReference, fault: tuple[Level, str, str, str, str]) -> AuditFinding:
    level, rule, field, message, remedy = fault
    return AuditFinding(
        level=level,
        rule=rule,
        mode=Mode.ENFORCE,
        kind=FindingKind.VIOLATION,
        object=owner,
        owner=owner,
        field=field,
        message=message,
        remedy=remedy,
        policy="_default",
        file="_default.yaml",
        line=35,
    )


def _reference(number: int, kind: str, name: str, api_version: str) -> ObjectReference:
    uid = f"0b8ef7a2-9a35-4d3e-8d0d-{number:012}"
    return ObjectReference(_namespace(number % NAMESPACES), kind, name, api_version, uid)


def _namespace(number: int) -> str:
    return f"team-{number:03}"


def _report(findings: Iterator[AuditFinding]) -> AuditReport:
    return AuditReport(datetime.now(UTC), "policies", "0" * 64, True, Counts(), tuple(findings))


if __name__ == "__main__":
    main()

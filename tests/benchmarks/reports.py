"""What policy reports of 10,000 pods take in etcd, and what it costs to write them.

    python -m tests.benchmarks.reports

Needs a control plane of Kubernetes 1.28 or newer (KUBEBUILDER_ASSETS). Rows: 10,000 pods that nobody owns, each with
two faults of its own; the same pods behind 2,000 workloads, one in ten of which has a fault. Bytes are those of the
objects as the API server stores them, managed fields included.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.e2e.report_cluster import ReportCluster
from webhook.audit.report import AuditFinding, Counts, Level, Reference, Report, Running, Sort
from webhook.cluster.api_server import ApiServer
from webhook.installation.report_objects import Kinds
from webhook.installation.reports import publish
from webhook.outcome import Kind
from webhook.rules.rule import Mode

NAMESPACES = 100
PODS = 10_000
WORKLOADS = 2_000

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
    if reason := ControlPlane.missing():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder))
        try:
            plane.start()
            site = ReportCluster(plane)
            site.install(Kinds.POLICY_REPORTS)
            for number in range(NAMESPACES):
                plane.namespace(_namespace(number))
            print("| audit | results | objects | MiB | largest, KiB | first, s | unchanged, s | one changed, s |")
            print("|---|---|---|---|---|---|---|---|")
            _row(site, "every pod on its own, two faults each", _report(_worst()))
            _row(site, "2,000 workloads, one in ten with a fault", _report(_typical()))
        finally:
            plane.stop()


def _row(site: ReportCluster, name: str, report: Report) -> None:
    server = ApiServer(site.plane.kubeconfig)
    later = replace(report, created=report.created + timedelta(hours=6))
    changed = replace(later, findings=later.findings[:-1])
    seconds = []
    for one in (report, later, changed):
        begun = time.monotonic()
        published = publish(one, server, Kinds.POLICY_REPORTS)
        seconds.append(time.monotonic() - begun)
        if published.errors:
            raise SystemExit("\n".join(published.errors))
        if one is report:
            objects = site.objects(Kinds.POLICY_REPORTS)
    sizes = [len(json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()) for raw in objects]
    results = sum(len(raw["results"]) for raw in objects)
    figures = (sum(sizes) / 2**20, max(sizes) / 1024, *seconds)
    print(f"| {name} | {results} | {len(objects)} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")


def _worst() -> Iterator[AuditFinding]:
    for number in range(PODS):
        pod = _reference(number, "Pod", f"trainer-{number:05}-worker-0", "v1")
        yield from (replace(_finding(pod, fault), running=Running(1, (pod.name,))) for fault in _FAULTS)


def _typical() -> Iterator[AuditFinding]:
    for number in range(0, WORKLOADS, 10):
        owner = _reference(number // 10, "Deployment", f"trainer-{number:05}", "apps/v1")
        running = Running(PODS // WORKLOADS, (f"{owner.name}-5d9c-abcde",))
        yield replace(_finding(owner, _FAULTS[0]), sort=Sort("", PODS // WORKLOADS, 2), running=running)


def _finding(owner: Reference, fault: tuple[Level, str, str, str, str]) -> AuditFinding:
    level, rule, field, message, remedy = fault
    return AuditFinding(
        level=level,
        rule=rule,
        mode=Mode.ENFORCE,
        kind=Kind.VIOLATION,
        object=owner,
        owner=owner,
        field=field,
        message=message,
        remedy=remedy,
        policy="_default",
        file="_default.yaml",
        line=35,
    )


def _reference(number: int, kind: str, name: str, api_version: str) -> Reference:
    uid = f"0b8ef7a2-9a35-4d3e-8d0d-{number:012}"
    return Reference(_namespace(number % NAMESPACES), kind, name, api_version, uid)


def _namespace(number: int) -> str:
    return f"team-{number:03}"


def _report(findings: Iterator[AuditFinding]) -> Report:
    return Report(datetime.now(UTC), "policies", "0" * 64, True, Counts(), tuple(findings))


if __name__ == "__main__":
    main()

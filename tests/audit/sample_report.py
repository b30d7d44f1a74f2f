"""A report in which every field is used, with texts as tenants would write them who mean harm."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    Capacity,
    ChangedInjection,
    Comparison,
    Counts,
    Level,
    ObjectReference,
    PendingPods,
    PodGroup,
    Running,
    SourceLine,
)
from webhook.outcome import FindingKind
from webhook.rules.rule_settings import Mode

CREATED = datetime(2026, 3, 9, 6, 30, 5, 250_000, tzinfo=UTC)

HOSTILE = "<script>alert('x')</script> | `code` **bold** [red]x[/red] &amp; \"quoted\" ]]> \u202e\x1b[2J\x00\r\n# é 🚀"
"""Whatever a format might take for its own: markup, columns, fences, control characters, text from right to left."""
LONG = "n" * 300
"""Longer than any name that the API server accepts, as files may have it."""

TRAINER = ObjectReference("team-vision", "Deployment", "trainer", "apps/v1", "0b8ef7a2-9a35-4d3e-8d0d-5f6a3a2d9c01")
JOB = ObjectReference("team-nlp", "PyTorchJob", "bert", "kubeflow.org/v1", "0b8ef7a2-9a35-4d3e-8d0d-5f6a3a2d9c02")
NOTEBOOK = ObjectReference("team-nlp", "Pod", "notebook-x", "v1", "0b8ef7a2-9a35-4d3e-8d0d-5f6a3a2d9c03")
NAMESPACE = ObjectReference("", "Namespace", "team-nlp", "v1")
SHARED_QUOTA = ObjectReference("", "SharedQuota", "research", "gpupolicy.dev/v1alpha1")
"""Of quotas more is in use than they allow; a shared quota is in no namespace, and no object of the cluster."""
FROM_A_FILE = ObjectReference("default", "CronJob", "nightly", "batch/v1")
EVIL = ObjectReference("team-<b>", "Deployment", HOSTILE, "apps/v1")
TALL = ObjectReference("", "Pod", LONG, "v1")


def sample() -> AuditReport:
    """The report of a cluster; every level, mode and kind of finding is in it, and every optional part is given."""
    return AuditReport(
        created=CREATED,
        directory="policies",
        hash="b7f4c2a9d1e86053b7f4c2a9d1e86053b7f4c2a9d1e86053b7f4c2a9d1e86053",
        is_of_cluster=True,
        counts=Counts(pods=1200, workloads=340, others=7, refused=4, warned=2, completed=2),
        findings=_findings(),
        errors=(
            DocumentError("apis/kubeflow.org/v1/pytorchjobs", 0, None, 'forbidden: User "audit" cannot list them'),
            DocumentError("manifests/broken.yaml", 3, 17, "a git conflict marker; resolve the conflict"),
            DocumentError(f"manifests/{HOSTILE}.yaml", 1, 1, HOSTILE),
        ),
        capacity=(
            Capacity("NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 4, 32, "580.95.05", "13.0"),
            Capacity("Tesla-T4", "nvidia.com/gpu", 3, 10, "470.82.01", "11.4", "shared by 4 (mps)", Fraction(1, 4)),
            Capacity(
                "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig-1g.5gb", 1, 7, "535.183.01", "12.2", "1g.5gb", Fraction(1, 7)
            ),
            Capacity("", "amd.com/gpu", 1, 8, "", ""),
        ),
        quotas=_quotas(),
        comparison=Comparison(
            directory="policies-in-force",
            hash="0d1e86053b7f4c2a9d1e86053b7f4c2a9d1e86053b7f4c2a9d1e86053b7f4c2a",
            newly_refused=(_findings()[1],),
            no_longer_refused=(_no_longer_refused(),),
            changed_injections=(
                ChangedInjection(
                    TRAINER,
                    SourceLine(),
                    PodGroup("", 4, 2),
                    ("runtimeClassName nvidia",),
                    ("runtimeClassName nvidia", "toleration nvidia.com/gpu Exists:NoSchedule"),
                ),
                ChangedInjection(EVIL, SourceLine(f"{HOSTILE}.yaml", 9), None, (HOSTILE,), ()),
            ),
        ),
        pending=(
            PendingPods(EVIL, "Unschedulable", HOSTILE, HOSTILE, Running(1, (HOSTILE,))),
            PendingPods(JOB, "Busy", "1 of 8 nvidia.com/gpu are free", "Wait", Running(12, ("bert-0", "bert-1"))),
        ),
    )


def sample_of_files() -> AuditReport:
    """The report of manifests in files: every finding has its line, no object is running, no cluster is known."""
    findings = tuple(
        replace(finding, source=SourceLine("manifests/all in one.yaml", 1 + 20 * number), running=None)
        for number, finding in enumerate(_findings())
    )
    return replace(
        sample(), is_of_cluster=False, findings=findings, capacity=(), quotas=(), comparison=None, pending=()
    )


def empty() -> AuditReport:
    """The report of an audit that found nothing to look at."""
    return AuditReport(CREATED, "policies", "0" * 64, False, Counts(), ())


def finding(
    level: Level, owner: ObjectReference, rule: str, message: str, remedy: str = "", **more: Any
) -> AuditFinding:
    """A violation of the default policy in an object itself, unless `more` says otherwise."""
    modes = {Level.WARN: Mode.WARN, Level.AUDIT: Mode.AUDIT}
    fields = {
        "mode": modes.get(level, Mode.ENFORCE),
        "kind": FindingKind.VIOLATION,
        "object": owner,
        "field": "spec",
        "policy": "_default",
        "file": "_default.yaml",
        "line": 9,
    }
    return AuditFinding(level=level, owner=owner, rule=rule, message=message, remedy=remedy, **fields | more)


def _team(name: str, line: int) -> dict[str, Any]:
    return {"policy": name, "file": f"{name}.yaml", "line": line}


def _no_longer_refused() -> AuditFinding:
    return finding(
        Level.REFUSE,
        TRAINER,
        "gpuLimits",
        "requests 8 GPUs; the policy allows at most 4 per pod",
        "Request 4 or fewer",
        field="spec.template.spec",
        pod_group=PodGroup("", 4, 8),
        **_team("team-vision", 7),
    )


def _findings() -> tuple[AuditFinding, ...]:
    """In the order of reports: by level, then by namespace, kind and name of the owner."""
    workers = ("bert-worker-0", "bert-worker-1", "bert-worker-2")
    bert, trainer = PodGroup("Worker", 4, 8), PodGroup("", 4, 2)
    return (
        finding(
            Level.REFUSE,
            NAMESPACE,
            "gpuQuota",
            "uses 10 of 8 GPUs of GPU quota 'team-nlp'; largest: bert-worker-0 8, notebook-x 2",
            "Free 2, or raise the quota",
            running=Running(2, ("bert-worker-0", "notebook-x")),
            **_team("team-nlp", 12),
        ),
        finding(
            Level.REFUSE,
            FROM_A_FILE,
            "gpuLimits",
            "nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits",
            "Move the 4 to resources.limits",
            field="spec.jobTemplate.spec.template.spec.containers[main].resources",
            source=SourceLine("manifests/nightly.yaml", 14),
            pod_group=PodGroup("", 1, 4),
        ),
        finding(
            Level.REFUSE,
            EVIL,
            "gpuLimits",
            HOSTILE,
            HOSTILE,
            field=f"spec.template.spec.containers[{HOSTILE}].resources",
            source=SourceLine(f"manifests/{HOSTILE}.yaml", 3),
            pod_group=PodGroup(HOSTILE, None, 1),
        ),
        finding(
            Level.REFUSE,
            JOB,
            "cudaDriver",
            "needs CUDA 13.0: tag 2.9.1-cuda13.0 of pytorch/pytorch; no node has driver 580.65.06 or newer",
            "Use an image of CUDA 12.9 or older",
            field="spec.pytorchReplicaSpecs.Worker.template.spec.containers[pytorch].image",
            pod_group=bert,
            running=Running(4, workers),
            **_team("team-nlp", 15),
        ),
        finding(
            Level.WARN,
            TALL,
            "visibleDevices",
            'is "all" in a container that requests GPUs; the device plugin sets it',
            "Remove the variable",
            field=f"spec.containers[{LONG}].env[NVIDIA_VISIBLE_DEVICES]",
            line=0,
            source=SourceLine("-", None),
        ),
        finding(
            Level.WARN,
            SHARED_QUOTA,
            "gpuQuota",
            "uses 30 of 24 GPUs of GPU quota 'research'; largest: bert-worker-0 8, bert-worker-1 8",
            "Free 6, or raise the quota",
            running=Running(5, workers),
            **_team("_quotas", 5),
        ),
        finding(
            Level.WARN,
            NOTEBOOK,
            "sharedMemory",
            "memory volume gpu-policy-shm of 16Gi should have been injected but is missing",
            "Create the pod again, or tell the platform team",
            mode=Mode.ENFORCE,
            kind=FindingKind.MISSING,
            policy="team-nlp",
            line=22,
            running=Running(1, ("notebook-x",)),
        ),
        finding(
            Level.AUDIT,
            TRAINER,
            "ncclEnv",
            "would add env NCCL_DEBUG=WARN in trainer",
            kind=FindingKind.INJECTION,
            field="spec.template.spec",
            pod_group=trainer,
            **_team("team-vision", 11),
        ),
        finding(
            Level.AUDIT,
            TRAINER,
            "cudaDriver",
            "registry.example.com/train:1 does not say which CUDA it needs",
            "Add it to images",
            kind=FindingKind.ADVICE,
            field="spec.template.spec.containers[trainer].image",
            pod_group=trainer,
            running=Running(4, ("trainer-7d9-1", "trainer-7d9-2", "trainer-7d9-3")),
            **_team("team-vision", 12),
        ),
        finding(
            Level.COMPLETE,
            JOB,
            "tolerations",
            "toleration nvidia.com/gpu Exists:NoSchedule",
            kind=FindingKind.INJECTION,
            field="spec.pytorchReplicaSpecs.Worker.template.spec",
            policy="team-nlp",
            line=6,
            pod_group=bert,
        ),
        finding(
            Level.COMPLETE,
            TRAINER,
            "runtimeClass",
            "runtimeClassName nvidia",
            kind=FindingKind.INJECTION,
            field="spec.template.spec",
            policy="team-vision",
            line=7,
            pod_group=trainer,
        ),
    )


def _quotas() -> tuple[ReportedQuota, ...]:
    return (
        ReportedQuota(
            "team-nlp",
            "namespace",
            "enforce",
            ("team-nlp",),
            LimitUsage("", "8", "10", "3"),
            (LimitUsage("H100", "8", "8"),),
            (),
        ),
        ReportedQuota(
            "research",
            "shared",
            "warn",
            ("team-nlp", "team-vision"),
            LimitUsage("", "24", "12 3/7", units="29"),
            (),
            (LimitUsage("nvidia.com/mig-1g.5gb", "14", "3"), LimitUsage("amd.com/gpu", "0", "0")),
        ),
        ReportedQuota(HOSTILE, "namespace", "audit", ("team-<b>",), LimitUsage("", "7/2", "3"), (), ()),
    )

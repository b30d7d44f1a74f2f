"""A report in which every field is used, with texts as tenants would write them who mean harm."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

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


def _no_longer_refused() -> AuditFinding:
    return AuditFinding(
        level=Level.REFUSE,
        rule="gpuLimits",
        mode=Mode.ENFORCE,
        kind=FindingKind.VIOLATION,
        object=TRAINER,
        owner=TRAINER,
        field="spec.template.spec",
        message="requests 8 GPUs; the policy allows at most 4 per pod",
        remedy="Request 4 or fewer",
        policy="team-vision",
        file="team-vision.yaml",
        line=7,
        pod_group=PodGroup("", 4, 8),
    )


def _findings() -> tuple[AuditFinding, ...]:
    """In the order of reports: by level, then by namespace, kind and name of the owner."""
    return (
        AuditFinding(
            level=Level.REFUSE,
            rule="gpuQuota",
            mode=Mode.ENFORCE,
            kind=FindingKind.VIOLATION,
            object=NAMESPACE,
            owner=NAMESPACE,
            field="spec",
            message="uses 10 of 8 GPUs of GPU quota 'team-nlp'; largest: bert-worker-0 8, notebook-x 2",
            remedy="Free 2, or raise the quota",
            policy="team-nlp",
            file="team-nlp.yaml",
            line=12,
            running=Running(2, ("bert-worker-0", "notebook-x")),
        ),
        AuditFinding(
            level=Level.REFUSE,
            rule="gpuLimits",
            mode=Mode.ENFORCE,
            kind=FindingKind.VIOLATION,
            object=FROM_A_FILE,
            owner=FROM_A_FILE,
            field="spec.jobTemplate.spec.template.spec.containers[main].resources",
            message="nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits",
            remedy="Move the 4 to resources.limits",
            policy="_default",
            file="_default.yaml",
            line=9,
            source=SourceLine("manifests/nightly.yaml", 14),
            pod_group=PodGroup("", 1, 4),
        ),
        AuditFinding(
            level=Level.REFUSE,
            rule="gpuLimits",
            mode=Mode.ENFORCE,
            kind=FindingKind.VIOLATION,
            object=EVIL,
            owner=EVIL,
            field=f"spec.template.spec.containers[{HOSTILE}].resources",
            message=HOSTILE,
            remedy=HOSTILE,
            policy="_default",
            file="_default.yaml",
            line=9,
            source=SourceLine(f"manifests/{HOSTILE}.yaml", 3),
            pod_group=PodGroup(HOSTILE, None, 1),
        ),
        AuditFinding(
            level=Level.REFUSE,
            rule="cudaDriver",
            mode=Mode.ENFORCE,
            kind=FindingKind.VIOLATION,
            object=JOB,
            owner=JOB,
            field="spec.pytorchReplicaSpecs.Worker.template.spec.containers[pytorch].image",
            message="needs CUDA 13.0: tag 2.9.1-cuda13.0 of pytorch/pytorch; no node has driver 580.65.06 or newer",
            remedy="Use an image of CUDA 12.9 or older",
            policy="team-nlp",
            file="team-nlp.yaml",
            line=15,
            pod_group=PodGroup("Worker", 4, 8),
            running=Running(4, ("bert-worker-0", "bert-worker-1", "bert-worker-2")),
        ),
        AuditFinding(
            level=Level.WARN,
            rule="visibleDevices",
            mode=Mode.WARN,
            kind=FindingKind.VIOLATION,
            object=TALL,
            owner=TALL,
            field=f"spec.containers[{LONG}].env[NVIDIA_VISIBLE_DEVICES]",
            message='is "all" in a container that requests GPUs; the device plugin sets it',
            remedy="Remove the variable",
            policy="_default",
            file="_default.yaml",
            line=0,
            source=SourceLine("-", None),
        ),
        AuditFinding(
            level=Level.WARN,
            rule="gpuQuota",
            mode=Mode.WARN,
            kind=FindingKind.VIOLATION,
            object=SHARED_QUOTA,
            owner=SHARED_QUOTA,
            field="spec",
            message="uses 30 of 24 GPUs of GPU quota 'research'; largest: bert-worker-0 8, bert-worker-1 8",
            remedy="Free 6, or raise the quota",
            policy="_quotas",
            file="_quotas.yaml",
            line=5,
            running=Running(5, ("bert-worker-0", "bert-worker-1", "bert-worker-2")),
        ),
        AuditFinding(
            level=Level.WARN,
            rule="sharedMemory",
            mode=Mode.ENFORCE,
            kind=FindingKind.MISSING,
            object=NOTEBOOK,
            owner=NOTEBOOK,
            field="spec",
            message="memory volume gpu-policy-shm of 16Gi should have been injected but is missing",
            remedy="Create the pod again, or tell the platform team",
            policy="team-nlp",
            file="_default.yaml",
            line=22,
            running=Running(1, ("notebook-x",)),
        ),
        AuditFinding(
            level=Level.AUDIT,
            rule="ncclEnv",
            mode=Mode.AUDIT,
            kind=FindingKind.INJECTION,
            object=TRAINER,
            owner=TRAINER,
            field="spec.template.spec",
            message="would add env NCCL_DEBUG=WARN in trainer",
            remedy="",
            policy="team-vision",
            file="team-vision.yaml",
            line=11,
            pod_group=PodGroup("", 4, 2),
        ),
        AuditFinding(
            level=Level.AUDIT,
            rule="cudaDriver",
            mode=Mode.AUDIT,
            kind=FindingKind.ADVICE,
            object=TRAINER,
            owner=TRAINER,
            field="spec.template.spec.containers[trainer].image",
            message="registry.example.com/train:1 does not say which CUDA it needs",
            remedy="Add it to images",
            policy="team-vision",
            file="team-vision.yaml",
            line=12,
            pod_group=PodGroup("", 4, 2),
            running=Running(4, ("trainer-7d9-1", "trainer-7d9-2", "trainer-7d9-3")),
        ),
        AuditFinding(
            level=Level.COMPLETE,
            rule="tolerations",
            mode=Mode.ENFORCE,
            kind=FindingKind.INJECTION,
            object=JOB,
            owner=JOB,
            field="spec.pytorchReplicaSpecs.Worker.template.spec",
            message="toleration nvidia.com/gpu Exists:NoSchedule",
            remedy="",
            policy="team-nlp",
            file="_default.yaml",
            line=6,
            pod_group=PodGroup("Worker", 4, 8),
        ),
        AuditFinding(
            level=Level.COMPLETE,
            rule="runtimeClass",
            mode=Mode.ENFORCE,
            kind=FindingKind.INJECTION,
            object=TRAINER,
            owner=TRAINER,
            field="spec.template.spec",
            message="runtimeClassName nvidia",
            remedy="",
            policy="team-vision",
            file="_default.yaml",
            line=7,
            pod_group=PodGroup("", 4, 2),
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

"""Reports as large clusters would have them: thousands of findings in dozens of namespaces, the same every time."""

from random import Random

from tests.audit.sample_report import finding, sample
from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    ChangedInjection,
    Comparison,
    Counts,
    Level,
    ObjectReference,
    PodGroup,
    Running,
    SourceLine,
)
from webhook.outcome import FindingKind

TEAMS = (
    *("vision", "nlp", "speech", "recsys", "robotics", "genomics", "weather", "ads", "search", "fraud", "pricing"),
    *("maps", "video", "music", "safety", "simulation", "platform", "notebooks", "training", "inference", "batch"),
    *("sandbox", "education", "research-core", "research-ml"),
)
KINDS = (
    ("Deployment", "apps/v1", "spec.template.spec", "", (1, 2, 3, 4, 12)),
    ("StatefulSet", "apps/v1", "spec.template.spec", "", (1, 3)),
    ("CronJob", "batch/v1", "spec.jobTemplate.spec.template.spec", "", (1,)),
    ("PyTorchJob", "kubeflow.org/v1", "spec.pytorchReplicaSpecs.Worker.template.spec", "Worker", (4, 8, 16, 64)),
    ("RayCluster", "ray.io/v1", "spec.workerGroupSpecs[gpu].template.spec", "gpu", (2, 4, 8)),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "spec.leaderWorkerTemplate.workerTemplate.spec", "worker", (7,)),
    ("Notebook", "kubeflow.org/v1", "spec.template.spec", "", (1,)),
)
NAMES = ("trainer", "bert", "llama-70b-finetune", "whisper-large", "resnet-sweep", "embedding-server", "vllm-chat")
FOUND = (
    (Level.REFUSE, "gpuLimits", FindingKind.VIOLATION, ".containers[main].resources",
     "nvidia.com/gpu is {n} in requests but missing in limits; GPUs are allocated from limits",
     "Move the {n} to resources.limits"),
    (Level.REFUSE, "gpuLimits", FindingKind.VIOLATION, "", "requests 16 GPUs; the policy allows at most 8 per pod",
     "Request 8 or fewer"),
    (Level.REFUSE, "cudaDriver", FindingKind.VIOLATION, ".containers[main].image",
     "needs CUDA 13.0: tag 2.9.1-cuda13.0-cudnn9-runtime of pytorch/pytorch; no node that the pod may run on has "
     "driver 580.65.06 or newer (the newest is 535.183.01 on {n} nodes)", "Use an image of CUDA 12.2 or older"),
    (Level.REFUSE, "nodeAffinity", FindingKind.MISSING, "",
     "required node affinity gpupolicy.dev/pool In [training] should have been injected but is missing",
     "Create the pod again, or tell the platform team"),
    (Level.WARN, "visibleDevices", FindingKind.VIOLATION, ".containers[main].env[NVIDIA_VISIBLE_DEVICES]",
     'is "all" in a container that requests GPUs; the device plugin sets it, and a value in the pod beats the '
     "plugin's", "Remove the variable"),
    (Level.WARN, "gpuQuota", FindingKind.VIOLATION, "", "requests {n} GPUs; 2 of 24 are left",
     "Free some, or ask for less"),
    (Level.AUDIT, "cudaDriver", FindingKind.ADVICE, ".containers[main].image",
     "registry.example.com/team/train:{n} does not say which CUDA it needs", "Add it to images"),
    (Level.COMPLETE, "tolerations", FindingKind.INJECTION, "", "toleration nvidia.com/gpu Exists:NoSchedule", ""),
    (Level.COMPLETE, "sharedMemory", FindingKind.INJECTION, "", "memory volume gpu-policy-shm of 16Gi at /dev/shm", ""),
    (Level.COMPLETE, "ncclEnv", FindingKind.INJECTION, "", "env NCCL_DEBUG=WARN in main", ""),
)  # fmt: skip
WEIGHTS = (9, 2, 7, 1, 12, 4, 14, 24, 16, 11)


def large(findings: int = 10_000, *, is_compared: bool = True) -> AuditReport:
    chance = Random(7)
    found = [_finding(chance, number) for number in range(findings)]
    levels = list(Level)
    found.sort(key=lambda one: (levels.index(one.level), one.owner.namespace, one.owner.kind, one.owner.name))
    refusals = [one for one in found if one.level is Level.REFUSE]
    return AuditReport(
        created=sample().created,
        directory="policies",
        hash=sample().hash,
        is_of_cluster=True,
        counts=Counts(10_240, 2_031, 118, len({one.owner for one in refusals}), findings // 9, findings // 4),
        findings=tuple(found),
        errors=sample().errors[:2],
        capacity=sample().capacity,
        quotas=sample().quotas[:2],
        comparison=_comparison(chance, refusals) if is_compared else None,
    )


def _finding(chance: Random, number: int) -> AuditFinding:
    kind, version, path, group, sizes = chance.choice(KINDS)
    namespace = f"team-{chance.choices(TEAMS, range(len(TEAMS), 0, -1))[0]}"
    owner = ObjectReference(namespace, kind, f"{chance.choice(NAMES)}-{number % 1200}", version)
    level, rule, about, below, message, remedy = chance.choices(FOUND, WEIGHTS)[0]
    count, pods = chance.choice((1, 2, 4, 8)), chance.choice(sizes)
    names = tuple(f"{owner.name}-{at}" for at in range(min(pods, 3)))
    policy = namespace if number % 3 else "_default"
    return finding(
        level,
        owner,
        rule,
        message.format(n=count),
        remedy.format(n=count),
        kind=about,
        field=path + below,
        policy=policy,
        file=f"{policy}.yaml",
        line=chance.randrange(5, 60),
        pod_group=PodGroup(group, None if number % 31 == 0 else pods, count),
        running=Running(pods, names) if number % 2 else None,
    )


def _comparison(chance: Random, refusals: list[AuditFinding]) -> Comparison:
    changed = tuple(
        ChangedInjection(
            one.owner,
            SourceLine(),
            one.pod_group,
            ("runtimeClassName nvidia", "toleration nvidia.com/gpu Exists:NoSchedule"),
            ("env NCCL_DEBUG=WARN in main", "toleration nvidia.com/gpu Exists:NoSchedule"),
        )
        for one in refusals[:3]
    )
    newly = tuple(chance.sample(refusals, min(len(refusals), 7)))
    return Comparison("policies-in-force", "0d1e86053b7f" * 5, newly, tuple(refusals[10:240]), changed)

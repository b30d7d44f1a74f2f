"""The contract of a rule: what it may see, and the values it answers with.

A rule is pure. It sees a pod, its own settings and facts about the cluster, and yields values: edits, advice,
violations. It knows no client, no clock, no log and no mode; the engine turns modes into patches, refusals, warnings
and records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from webhook.facts.facts import ClusterFacts
from webhook.model.claims import ClaimObject
from webhook.model.edits import Edit
from webhook.model.node import Toleration
from webhook.model.pod import Pod
from webhook.model.selectors import Expression
from webhook.model.violation import Advice as Advice  # noqa: PLC0414  # part of the contract of rules
from webhook.model.violation import Violation as Violation  # noqa: PLC0414  # as above
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.rules.unsuited import Judged

NO_MEMORY_LIMIT = "no memory limit"
"""The fault of a GPU container without a memory limit."""


class Stage(IntEnum):
    """When a mutator runs. Mutators of one stage see the same pod, so their order does not matter."""

    PLACEMENT = 1
    """Decides where the pod may run."""
    COMPLETION = 2
    """Sees the pod with its placement decided."""
    STEERING = 3
    """Sees the pod as it will be, and keeps it off some of the nodes that are left."""


class ClassKind(StrEnum):
    """A kind of object that settings name."""

    RUNTIME = "RuntimeClass"
    PRIORITY = "PriorityClass"


class ClassName(NamedTuple):
    """The name of an object in the cluster."""

    kind: ClassKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


Reference = ClassName | Expression | Toleration
"""Something in the cluster that settings name: a class, a label of nodes, or a taint (as its toleration)."""

Facts = ClusterFacts
"""What a rule may ask about the cluster."""

Mutator = Callable[[Pod, Any, Facts], Iterable[Edit | Advice]]
Validator = Callable[[Pod, Any, Facts], Iterable[Violation | Advice]]
ReplicasValidator = Callable[[Pod, int, Any, Facts], Iterable[Violation | Advice]]
"""Validates several pods that one workload makes alike: one of them, as it will be, and how many there are."""
GroupValidator = Callable[[Pod, Sequence[tuple[Pod, int]], Any, Facts], Iterable[Violation | Advice]]
ClaimValidator = Callable[[ClaimObject, Any, Facts], Iterable[Violation | Advice]]


@dataclass(frozen=True, slots=True)
class Example:
    """An object that shows a rule at work. The documents show what the engine makes of it.

    `manifest` is YAML as people apply it. `settings` are the rule's settings in a policy, such as `{"maxPerPod": 8}`,
    and `mode` is its mode. `beside` are pods that run already, in YAML, for a rule that counts them.
    """

    manifest: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    mode: Mode = Mode.ENFORCE
    beside: str = ""


_TRAINING_POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
{spec}  containers:
    - name: trainer
      image: {image}
{container}      resources: {resources}
"""


def training_pod(
    *spec: str,
    name: str = "train",
    image: str = "registry.example.com/train:1",
    container: str = "",
    resources: str = "{limits: {nvidia.com/gpu: 1}}",
) -> str:
    """The manifest of a pod with one container, for examples. `spec` and `container` are further lines of these."""
    lines, field = "".join(f"  {line}\n" for line in spec), container and f"      {container}\n"
    return _TRAINING_POD.format(spec=lines, name=name, image=image, container=field, resources=resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One promise: its key in policy files, its settings, and the functions that mutate and validate a pod.

    Both functions yield nothing for a pod that keeps the promise. `mutate` also yields nothing for a pod that it has
    mutated before.
    """

    key: str
    promise: str
    problem: str = ""
    """What goes wrong without the rule, in one sentence, as the administrator of the cluster sees it."""
    example: Example | None = None
    """An object that the rule refuses or mutates, for the documents."""
    settings: type[RuleSettings]
    mutate: Mutator | None = None
    validate: Validator | None = None
    validate_replicas: ReplicasValidator | None = None
    """Finds what is wrong with several pods that are made alike and no single pod shows. Runs for workloads only."""
    validate_in_group: GroupValidator | None = None
    """Finds what is wrong with a pod among all pods of its group, each kind with its number. Runs for LeaderWorkerSets
    only, which say how large their groups are."""
    validate_claim: ClaimValidator | None = None
    """Finds what is wrong with a resource claim, or a template of claims, when it is applied. What it refuses would
    keep every pod with such a claim from being admitted."""
    unsuited: Callable[[Pod, Any, Facts], Judged | None] | None = None
    """Says which nodes do not suit a pod; None for a pod that all nodes suit. The engine puts the answers of all rules
    together and excludes these nodes; `validate` refuses the pod if the rule alone leaves no others."""
    stage: Stage = Stage.COMPLETION
    faults: frozenset[str] = frozenset()
    """The faults that its violations name. Advice of other rules about such a fault is left out."""
    judges_fractions: bool = False
    """True if `validate` and `unsuited` see the GPUs that a pod asks for by annotations of KAI and Run:ai. Other rules
    see a pod without them, because no device plugin gives such GPUs."""
    is_about_groups: bool = False
    """True if its findings are about pods that work together. It has a say only in workloads that make several GPU
    pods, as far as they say."""
    only_advises: bool = False
    """True if `validate` yields nothing but advice, so that the rule refuses no pod in any mode."""
    may_fail_api_validation: bool = False
    """True if some of its violations have `fails_validation`. Only such a rule is asked for them at `/mutate`."""
    validates_own_injection: bool = False
    """True if the rule validates a field that it also injects. A value injected under another version of the policy
    would otherwise look like the author's own."""
    depends_on_cluster_state: bool = False
    """True if the injection depends on the current state of nodes or images. Such an injection may be missing from a
    pod for good reasons, so its absence is never reported."""
    warns_of_injections: bool = True
    """True if mode `warn` warns of what the rule would inject. If false, that is only recorded, because nobody has to
    act on it."""
    softens_on_update: bool = False
    """True if its violations follow from the nodes that the pod may use, and no policy forbids these. Schedulers and
    queues narrow them down after admission, so an update that causes one brings a warning and is not refused."""
    can_mutate: Callable[[Any], bool] = lambda _: True
    """Whether these settings let `mutate` yield anything for any pod, or exclude any node. If not, neither is tried."""
    can_validate: Callable[[Any], bool] = lambda _: True
    """Whether `validate` can yield anything for any pod under these settings. If not, it is not called."""
    can_be_unsuited: Callable[[Any], bool] = lambda _: True
    """Whether nodes can be unsuited under these settings. If not, `unsuited` is not called."""
    why_no_effect: Callable[[Any], str] = lambda _: ""
    """What to change if these settings have no effect on any pod; empty if they have one."""
    out_of_reach: Callable[[Any], str] = lambda _: ""
    """What these settings promise and no webhook can keep, and what does; empty if there is no such thing."""
    labels: Callable[[Any], Iterable[str]] = lambda _: ()
    """The labels of pods that these settings read. Pods that differ in one of them are not alike."""
    references: Callable[[Any], Iterable[Reference]] = lambda _: ()
    """What these settings name in the cluster. The doctor checks that it exists."""

    @property
    def injects(self) -> bool:
        return self.mutate is not None or self.unsuited is not None

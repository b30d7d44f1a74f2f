"""matchConditions: the CEL with which the API server keeps away what concerns no rule, before any network hop.

An error in a condition is decided by failurePolicy, so these never err: every optional field is tested with has()
before it is read. Of pods that may get at GPUs they let one too many through rather than one too few. Of all others
only those come through that are after GPU nodes by name, since whoever comes through depends on an answer. exists()
over a list of one is the only way that Kubernetes 1.28 knows to give a name to a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """One entry of a webhook's matchConditions; a request reaches the webhook when every entry is true."""

    name: str
    expression: str

    def raw(self) -> dict[str, str]:
        """The entry as a webhook configuration carries it."""
        return {"name": self.name, "expression": self.expression}


def pod_conditions(
    gpu_patterns: Sequence[str], *, watches_devices: bool, watches_nodes: bool
) -> tuple[MatchCondition, ...]:
    """The conditions of an entry that is registered for CREATE and UPDATE of pods and nothing else.

    `gpu_patterns` are regular expressions for whole resource names, in the syntax that Python and RE2 share.
    `watches_devices` lets pods through that may reach for a GPU without asking for one. `watches_nodes` lets pods
    through that ask for none and tolerate a taint that names a GPU, when they are created and when their tolerations
    change; those of DaemonSets never. Raises ValueError for a pattern that cannot be quoted in CEL.
    """
    who_else = f"{_IS_OF_NO_DAEMON_SET} &&\n{_HAS_NEW_TOLERATIONS}" if watches_nodes else None
    is_about_gpus = _is_about_gpus("[object.spec]", gpu_patterns, watches_devices=watches_devices, who_else=who_else)
    return (
        MatchCondition("only-changed-specs", "request.operation != 'UPDATE' || object.spec != oldObject.spec"),
        MatchCondition("only-gpu-pods-and-nodes" if watches_nodes else "only-gpu-pods", is_about_gpus),
    )


def workload_conditions(
    gpu_patterns: Sequence[str], *, watches_devices: bool, watches_nodes: bool
) -> tuple[MatchCondition, ...]:
    """The same for an entry that is registered for objects of any other kind.

    What a controller makes is left out, since its owner was judged, and so is what is about to go. Of an UPDATE only
    what changes something else than metadata and status gets through. Only where a built-in kind keeps its pods is
    known to CEL, so objects of all others get through whether or not their pods ask for GPUs.
    """
    who_else = _IS_NO_DAEMON_SET if watches_nodes else None
    is_about_gpus = _is_about_gpus(_BUILT_IN_SPECS, gpu_patterns, watches_devices=watches_devices, who_else=who_else)
    name = "only-gpu-templates-and-nodes" if watches_nodes else "only-gpu-templates"
    return (
        MatchCondition("only-uncontrolled", _IS_UNCONTROLLED),
        MatchCondition("not-being-deleted", "!has(object.metadata.deletionTimestamp)"),
        MatchCondition("only-changed-specs", _CHANGES_MORE_THAN_STATUS),
        MatchCondition(name, f"{_IS_NOT_BUILT_IN} ||\n{is_about_gpus}"),
    )


_IS_UNCONTROLLED = (
    "!has(object.metadata.ownerReferences) ||\n"
    "!object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller)"
)

_CHANGES_MORE_THAN_STATUS = """\
request.operation != 'UPDATE' || object.exists(key,
  !(key in ['apiVersion', 'kind', 'metadata', 'status']) &&
    (!(key in oldObject) || object[key] != oldObject[key]))"""
"""Whatever the object calls it: most have a spec, a PodTemplate has a template, custom resources may have neither."""

_IS_NOT_BUILT_IN = "!(request.kind.group in ['', 'apps', 'batch'])"

_BUILT_IN_SPECS = """\
(request.kind.kind == 'PodTemplate' ? [object.template.spec]
: request.kind.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template.spec]
: has(object.spec) && has(object.spec.template) ? [object.spec.template.spec] : [])"""
"""A list of the one pod spec in the object; empty where a ReplicationController leaves its template out."""

_ANY_CONTAINER = """\
['containers', 'initContainers', 'ephemeralContainers'].exists(field,
  field in spec && spec[field] != null && spec[field].exists(c,
%s))"""

_MOUNTS_DEVICES = """\
has(spec.volumes) && spec.volumes.exists(v,
  has(v.hostPath) && has(v.hostPath.path) && ['/nvidia', '/dri', '/kfd'].exists(d, v.hostPath.path.contains(d)))"""
"""However the way to /dev/nvidia*, /dev/dri and /dev/kfd is spelled: //dev//dri and /dev/./dri have it too."""

_ASKS_FOR_A_GPU = """\
has(c.resources) && ['limits', 'requests'].exists(part,
  part in c.resources && c.resources[part].exists(name,
    %s))"""
"""Limits or requests name one of the resources, whatever the amount."""

_SETS_VISIBLE_DEVICES = "has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')"

_IS_PRIVILEGED_UNDER_A_RUNTIME = """\
has(spec.runtimeClassName) &&
  has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged"""


_TOLERATES_GPU_NODES = """\
has(spec.tolerations) && spec.tolerations.exists(t, has(t.key) && (
  t.key.lowerAscii().contains('gpu') ||
  (has(t.value) && t.value.lowerAscii().contains('gpu')) ||
  (t.key == 'sku' && has(t.operator) && t.operator == 'Exists') ||
  %s)) &&
spec.tolerations.all(t, has(t.key))"""
"""By name; `sku` with any value is the taint of AKS's documents. A toleration without a key is of everything."""

_IS_OF_NO_DAEMON_SET = """\
!(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner,
  has(owner.controller) && owner.controller && owner.kind == 'DaemonSet'))"""

_IS_NO_DAEMON_SET = "request.kind.kind != 'DaemonSet'"

_HAS_NEW_TOLERATIONS = """\
(request.operation != 'UPDATE' || !has(oldObject.spec.tolerations) ||
  spec.tolerations != oldObject.spec.tolerations)"""
"""Nothing else that changes in a pod opens other nodes to it."""


def _is_about_gpus(pod_specs: str, gpu_patterns: Sequence[str], *, watches_devices: bool, who_else: str | None) -> str:
    """Whether one of a list of pod specs may concern a rule.

    `who_else` says which of those that ask for no GPUs and tolerate GPU nodes come through; None: none of them.
    """
    signals = ["has(spec.resourceClaims)"]
    container_signals = [_ASKS_FOR_A_GPU % _names_a_gpu("name", gpu_patterns)]
    container_signals.append("has(c.resources) && has(c.resources.claims)")
    if watches_devices:
        signals.append(_MOUNTS_DEVICES)
        container_signals += [_SETS_VISIBLE_DEVICES, _IS_PRIVILEGED_UNDER_A_RUNTIME]
    if who_else is not None:
        signals.append(f"{_TOLERATES_GPU_NODES % _names_a_gpu('t.key', gpu_patterns)} &&\n{who_else}")
    signals.append(_ANY_CONTAINER % indent(_any(container_signals), "    "))
    return f"{pod_specs}.exists(spec,\n{indent(_any(signals), '  ')})"


def _names_a_gpu(name: str, patterns: Sequence[str]) -> str:
    """Whether a value is one of the resource names. The slash spares cpu and memory the regex."""
    for pattern in patterns:
        if "'" in pattern or not pattern.isprintable():
            raise ValueError(f"{pattern!r} cannot be quoted in CEL; leave out quotes and control characters")
    return f"{name}.contains('/') && {name}.matches(r'^({'|'.join(patterns)})$')"


def _any(signals: Sequence[str]) -> str:
    return " ||\n".join(f"({signal})" for signal in signals)

"""matchConditions: the CEL by which the API server decides which objects it sends to the webhook.

If a condition has an error, failurePolicy decides. So no condition may have one: has() tests every optional field
before it is read. In case of doubt, pods that may use GPUs are sent. Of other pods, only pods that tolerate GPU nodes
by name are sent, because a pod that is sent depends on an answer. In Kubernetes 1.28, exists() over a list of one item
is the only way to name a value.

The first part finds pods that may use GPUs without requesting one (rule visibleDevices). Policies are not known here,
so a RuntimeClass counts by what is certain in any cluster: its presence, or a name with nvidia in it.
"""

import re
from collections.abc import Sequence
from textwrap import indent

from webhook.model.accelerators import DEVICE_CLASSES, OTHER_CLASSES
from webhook.model.gpu_fractions import ASKING, KEYS
from webhook.rules.device_access import DEVICE_KEYS, PATH_KEYS, VENDORS_KEYS

_KEYS = ", ".join(f"'{key}'" for key in (*DEVICE_KEYS, *PATH_KEYS))

_IS_FOR_DEVICES = f"""\
(key.contains('{VENDORS_KEYS}') || [{_KEYS}].exists(start,
  key.startsWith(start)))"""

_MOUNTS_DEVICES = """\
has(spec.volumes) && spec.volumes.exists(v,
  has(v.hostPath) && has(v.hostPath.path) && ['/nvidia', '/dri', '/kfd', '/195:', '/226:'].exists(d,
    v.hostPath.path.contains(d)))"""
"""Finds /dev/nvidia*, /dev/dri, /dev/kfd, /dev/char/195:* and /run/nvidia in any spelling, such as //dev//dri and
/dev/./dri."""

_IS_UNDER_NVIDIA = "has(spec.runtimeClassName) && spec.runtimeClassName.upperAscii().contains('NVIDIA')"
"""True whatever else is in the pod, because its images may request GPUs, too."""

_ANNOTATES = """\
(request.kind.kind == 'Pod' ? (request.operation == 'UPDATE' ? [object, oldObject] : [object])
: request.kind.kind == 'PodTemplate' ? [object.template]
: request.kind.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template]
: has(object.spec) && has(object.spec.template) ? [object.spec.template] : []).exists(t,
  has(t.metadata) && has(t.metadata.annotations) && t.metadata.annotations.exists(key,
    %s))"""
"""For a pod that is updated, also as it was: what an annotation has asked for must not go by removing it."""

_ASKS_FOR_A_PART = f"key in {list(ASKING)}"
"""By an annotation of KAI or Run:ai."""

_CHANGES_ITS_PART = f"""\
{list(KEYS)}.exists(key,
  (has(object.metadata.annotations) && key in object.metadata.annotations ? object.metadata.annotations[key] : '') !=
  (has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations ?
    oldObject.metadata.annotations[key] : ''))"""

ANNOTATES_NEW_DEVICES = f"""\
has(object.metadata.annotations) && object.metadata.annotations.exists(key,
  {_IS_FOR_DEVICES} &&
  (!has(oldObject.metadata.annotations) || !(key in oldObject.metadata.annotations) ||
    oldObject.metadata.annotations[key] != object.metadata.annotations[key]))"""
"""For updates: annotations of a pod can change until it starts, and take effect at its next start."""

_SETS_VISIBLE_DEVICES = "has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')"

_MOUNTS_ON_DEVICE_LIST = """\
has(c.volumeMounts) && c.volumeMounts.exists(m,
  has(m.mountPath) && m.mountPath.contains('-container-devices'))"""
"""Finds the path in any spelling."""

_IS_PRIVILEGED = "has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged"

_IS_LEGACY = "has(c.env) && c.env.exists(e, e.name == 'CUDA_VERSION')"

_TAKES_VARIABLES = """\
has(spec.runtimeClassName) && has(c.envFrom) && c.envFrom.exists(f, !has(f.prefix) ||
  'NVIDIA_VISIBLE_DEVICES'.startsWith(f.prefix) || 'CUDA_VERSION'.startsWith(f.prefix))"""

POD_SIGNALS = (_MOUNTS_DEVICES, _IS_UNDER_NVIDIA)
"""Signals in `spec`, a pod spec, and in its object."""


def container_signals(*, nvidia_is_default_runtime: bool) -> tuple[str, ...]:
    """Signals in `c`, a container of `spec`. If NVIDIA's is the default runtime, pods need no RuntimeClass for it."""
    alone = f"({_IS_PRIVILEGED}) ||\n  ({_IS_LEGACY})"
    if not nvidia_is_default_runtime:
        alone = f"has(spec.runtimeClassName) && (\n  {alone})"
    return (_SETS_VISIBLE_DEVICES, _MOUNTS_ON_DEVICE_LIST, alone, _TAKES_VARIABLES)


def pod_conditions(
    gpu_patterns: Sequence[str], *, watches_nodes: bool, nvidia_is_default_runtime: bool = False
) -> dict[str, str]:
    """The conditions of a webhook for CREATE and UPDATE of pods only, by name. It gets a request if all are true.

    `gpu_patterns` are regular expressions for whole resource names, in the syntax that Python and RE2 share. Their
    domains have no special characters but escaped dots. Pods are sent that may use a GPU without requesting one; if
    NVIDIA's is the default runtime, they need no RuntimeClass for it. With `watches_nodes`, pods without GPUs are sent
    that tolerate a taint which names a GPU, when they are created and when their tolerations change; pods of DaemonSets
    are not. Raises ValueError for a pattern that cannot be quoted in CEL.
    """
    who_else = f"{_IS_OF_NO_DAEMON_SET} &&\n{_HAS_NEW_TOLERATIONS}" if watches_nodes else None
    devices = container_signals(nvidia_is_default_runtime=nvidia_is_default_runtime)
    changes = f"request.operation != 'UPDATE' || object.spec != oldObject.spec ||\n({_CHANGES_ITS_PART})"
    return {
        "only-changed-specs": f"{changes} ||\n({ANNOTATES_NEW_DEVICES})",
        "only-gpu-pods-and-nodes" if watches_nodes else "only-gpu-pods": _is_about_gpus(
            "[object.spec]", gpu_patterns, devices, who_else
        ),
    }


def workload_conditions(gpu_patterns: Sequence[str], *, nvidia_is_default_runtime: bool = False) -> dict[str, str]:
    """The conditions of a webhook for workloads, which are objects of any other kind, by name.

    Objects that a controller makes are not sent, because their owner was validated, nor are objects that are being
    deleted. Updates are sent only if a part other than metadata and status changes. CEL knows the pod templates of
    built-in kinds only, so objects of other kinds are sent whether or not their pods request GPUs.
    """
    devices = container_signals(nvidia_is_default_runtime=nvidia_is_default_runtime)
    is_about_gpus = _is_about_gpus(_BUILT_IN_SPECS, gpu_patterns, devices, _IS_NO_DAEMON_SET)
    return {
        "only-uncontrolled": _IS_UNCONTROLLED,
        "not-being-deleted": "!has(object.metadata.deletionTimestamp)",
        "only-changed-specs": _CHANGES_MORE_THAN_STATUS,
        "only-gpu-templates-and-nodes": f"{_IS_NOT_BUILT_IN} ||\n{is_about_gpus}",
    }


_IS_NO_OTHER = f"!%s.matches(r'^({OTHER_CLASSES})$')"
CLAIM_CONDITIONS = {
    "only-gpu-claims": f"""\
has(object.spec.devices) && has(object.spec.devices.requests) && object.spec.devices.requests.exists(r,
  has(r.exactly) ? (has(r.exactly.adminAccess) && r.exactly.adminAccess) || {_IS_NO_OTHER % "r.exactly.deviceClassName"}
  : has(r.firstAvailable) ? r.firstAvailable.exists(one, {_IS_NO_OTHER % "one.deviceClassName"})
  : (has(r.adminAccess) && r.adminAccess) || !has(r.deviceClassName) || {_IS_NO_OTHER % "r.deviceClassName"})"""
}
"""The conditions of a webhook for CREATE of ResourceClaims: one that requests only known other devices is not sent,
unless it has `adminAccess`. The class of a request stands in different places in v1beta1 and in later versions."""

_IS_UNCONTROLLED = (
    "!has(object.metadata.ownerReferences) ||\n"
    "!object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller)"
)

_CHANGES_MORE_THAN_STATUS = """\
request.operation != 'UPDATE' || object.exists(key,
  !(key in ['apiVersion', 'kind', 'metadata', 'status']) &&
    (!(key in oldObject) || object[key] != oldObject[key]))"""
"""Pods are made from spec in most kinds, from template in a PodTemplate, and from any field in custom resources."""

_IS_NOT_BUILT_IN = "!(request.kind.group in ['', 'apps', 'batch'])"

_BUILT_IN_SPECS = """\
(request.kind.kind == 'PodTemplate' ? [object.template.spec]
: request.kind.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template.spec]
: has(object.spec) && has(object.spec.template) ? [object.spec.template.spec] : [])"""
"""A list of the one pod spec in the object; empty for a ReplicationController without a template."""

_ANY_CONTAINER = """\
['containers', 'initContainers', 'ephemeralContainers'].exists(field,
  field in spec && spec[field] != null && spec[field].exists(c,
%s))"""

_ASKS_FOR_A_GPU = """\
has(c.resources) && ['limits', 'requests'].exists(part,
  part in c.resources && c.resources[part].exists(name,
    %s))"""
"""Limits or requests have one of the resources, in any amount."""

_IS_A_DEVICE_CLASS = f"name.startsWith('{DEVICE_CLASSES}')"
"""Every device class counts: policies say which ones are GPUs, and unknown ones may be GPUs."""

_TOLERATES_GPU_NODES = """\
has(spec.tolerations) && (spec.tolerations.exists(t, !has(t.key)) ? false : spec.tolerations.exists(t,
  t.key.lowerAscii().contains('gpu') ||
  (has(t.value) && t.value.lowerAscii().contains('gpu')) ||
  (t.key == 'sku' && has(t.operator) && t.operator == 'Exists') ||
  %s))"""
"""Tolerates GPU nodes by name. `sku` with any value is the taint in AKS's documents. A toleration without a key
tolerates every taint, so such pods are left out; for `webhook.sendTolerateAll` the chart writes true for this false."""

_IS_OF_NO_DAEMON_SET = """\
!(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner,
  has(owner.controller) && owner.controller && owner.kind == 'DaemonSet'))"""

_IS_NO_DAEMON_SET = "request.kind.kind != 'DaemonSet'"

_HAS_NEW_TOLERATIONS = """\
(request.operation != 'UPDATE' || !has(oldObject.spec.tolerations) ||
  spec.tolerations != oldObject.spec.tolerations)"""
"""No other change of a pod opens more nodes to it."""


def _is_about_gpus(pod_specs: str, gpu_patterns: Sequence[str], devices: Sequence[str], who_else: str | None) -> str:
    """CEL that is true if one of a list of pod specs may concern a rule.

    `devices` are the signals of containers that may use devices. `who_else` tells which pods without GPUs that tolerate
    GPU nodes are sent; None for none of them.
    """
    signals = ["has(spec.resourceClaims)", _ANNOTATES % f"{_ASKS_FOR_A_PART} || {_IS_FOR_DEVICES}"]
    in_containers = [_ASKS_FOR_A_GPU % f"{_IS_A_DEVICE_CLASS} || ({_names_a_gpu('name', gpu_patterns)})"]
    in_containers += ["has(c.resources) && has(c.resources.claims)", *devices]
    signals += POD_SIGNALS
    if who_else is not None:
        signals.append(f"{_TOLERATES_GPU_NODES % _names_a_gpu('t.key', gpu_patterns)} &&\n{who_else}")
    signals.append(_ANY_CONTAINER % indent(_any(in_containers), "    "))
    return f"{pod_specs}.exists(spec,\n{indent(_any(signals), '  ')})"


def _names_a_gpu(name: str, patterns: Sequence[str]) -> str:
    """CEL that is true if a value is one of the resource names. Device classes are left out: their domain decides.

    A regex costs a lot, so the slash is tested first, which cpu and memory do not have, and then the domain.
    """
    for pattern in patterns:
        if "'" in pattern or not pattern.isprintable():
            raise ValueError(f"{pattern!r} cannot be quoted in CEL; leave out quotes and control characters")
    patterns = [pattern for pattern in patterns if not pattern.startswith(re.escape(DEVICE_CLASSES))]
    domains = dict.fromkeys(pattern.partition("/")[0].replace("\\.", ".") for pattern in patterns)
    listed = ", ".join(f"'{domain}/'" for domain in domains)
    is_one = f"{name}.matches(r'^({'|'.join(patterns)})$')"
    return f"{name}.contains('/') && [{listed}].exists(d, {name}.startsWith(d)) && {is_one}"


def _any(signals: Sequence[str]) -> str:
    return " ||\n".join(f"({signal})" for signal in signals)

"""The part of the matchConditions that finds pods which may get at GPUs without asking for one (rule visibleDevices).

They know nothing of policies, so RuntimeClasses count by what is certain in any cluster: their presence, or a name that
has nvidia in it.
"""

from webhook.rules.device_annotations import DEVICE_KEYS, PATH_KEYS, VENDORS_KEYS

_KEYS = ", ".join(f"'{key}'" for key in (*DEVICE_KEYS, *PATH_KEYS))

_IS_FOR_DEVICES = f"""\
(key.contains('{VENDORS_KEYS}') || [{_KEYS}].exists(start,
  key.startsWith(start)))"""

_MOUNTS_DEVICES = """\
has(spec.volumes) && spec.volumes.exists(v,
  has(v.hostPath) && has(v.hostPath.path) && ['/nvidia', '/dri', '/kfd', '/195:', '/226:'].exists(d,
    v.hostPath.path.contains(d)))"""
"""However the way to /dev/nvidia*, /dev/dri, /dev/kfd, /dev/char/195:* and /run/nvidia is spelled: //dev//dri and
/dev/./dri have it too."""

_IS_UNDER_NVIDIA = "has(spec.runtimeClassName) && spec.runtimeClassName.upperAscii().contains('NVIDIA')"
"""Whatever else the pod says: what its images say, they can only be told not to."""

_ANNOTATES_DEVICES = f"""\
(request.kind.kind == 'Pod' ? [object]
: request.kind.kind == 'PodTemplate' ? [object.template]
: request.kind.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template]
: has(object.spec) && has(object.spec.template) ? [object.spec.template] : []).exists(t,
  has(t.metadata) && has(t.metadata.annotations) && t.metadata.annotations.exists(key,
    {_IS_FOR_DEVICES}))"""

ANNOTATES_NEW_DEVICES = f"""\
has(object.metadata.annotations) && object.metadata.annotations.exists(key,
  {_IS_FOR_DEVICES} &&
  (!has(oldObject.metadata.annotations) || !(key in oldObject.metadata.annotations) ||
    oldObject.metadata.annotations[key] != object.metadata.annotations[key]))"""
"""Of an update: a pod that waits to be started can be annotated until it is, and one that runs until its next start."""

_SETS_VISIBLE_DEVICES = "has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')"

_MOUNTS_ON_DEVICE_LIST = """\
has(c.volumeMounts) && c.volumeMounts.exists(m,
  has(m.mountPath) && m.mountPath.contains('-container-devices'))"""
"""However the way there is spelled."""

_IS_PRIVILEGED = "has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged"

_IS_LEGACY = "has(c.env) && c.env.exists(e, e.name == 'CUDA_VERSION')"

_TAKES_VARIABLES = """\
has(spec.runtimeClassName) && has(c.envFrom) && c.envFrom.exists(f, !has(f.prefix) ||
  'NVIDIA_VISIBLE_DEVICES'.startsWith(f.prefix) || 'CUDA_VERSION'.startsWith(f.prefix))"""

POD_SIGNALS = (_MOUNTS_DEVICES, _IS_UNDER_NVIDIA, _ANNOTATES_DEVICES)
"""About `spec`, a pod spec, and the object that it is in."""


def container_signals(*, nvidia_is_default_runtime: bool) -> tuple[str, ...]:
    """About `c`, a container of `spec`. Where NVIDIA's is the default runtime, pods need no RuntimeClass for it."""
    alone = f"({_IS_PRIVILEGED}) ||\n  ({_IS_LEGACY})"
    if not nvidia_is_default_runtime:
        alone = f"has(spec.runtimeClassName) && (\n  {alone})"
    return (_SETS_VISIBLE_DEVICES, _MOUNTS_ON_DEVICE_LIST, alone, _TAKES_VARIABLES)

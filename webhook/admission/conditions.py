"""matchConditions: the CEL with which the API server keeps away what concerns no rule, before any network hop.

An error in a condition is decided by failurePolicy, so these never err: every optional field is tested with has()
before it is read. They let a pod too many through rather than one too few. exists() over a list of one is the only way
that Kubernetes 1.28 knows to give a name to a value.
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


def match_conditions(
    gpu_patterns: Sequence[str], *, watches_devices: bool, templates: bool
) -> tuple[MatchCondition, ...]:
    """The conditions of one webhook entry that is registered for CREATE and UPDATE and nothing else.

    `gpu_patterns` are regular expressions for whole resource names, in the syntax that Python and RE2 share.
    `watches_devices` lets pods through that may reach for a GPU without asking for one. `templates` reads the pod
    templates of the built-in workload kinds as well; without it every object is taken for a Pod. Raises ValueError
    for a pattern that cannot be quoted in CEL.
    """
    pod_specs = _OF_ANY_KIND if templates else "[object.spec]"
    signals = ["has(spec.resourceClaims)"]
    container_signals = [_names_a_gpu(gpu_patterns), "has(c.resources) && has(c.resources.claims)"]
    if watches_devices:
        signals.append(_MOUNTS_DEVICES)
        container_signals += [_SETS_VISIBLE_DEVICES, _IS_PRIVILEGED_UNDER_A_RUNTIME]
    signals.append(_ANY_CONTAINER % indent(_any(container_signals), "    "))
    now = pod_specs if templates else "object.spec"
    before = now.replace("object.", "oldObject.")
    return (
        MatchCondition("only-changed-specs", f"request.operation != 'UPDATE' || {now} != {before}"),
        MatchCondition("only-gpu-pods", f"{pod_specs}.exists(spec,\n{indent(_any(signals), '  ')})"),
    )


_OF_ANY_KIND = """\
(request.kind.kind == 'Pod' ? [object.spec]
: request.kind.kind == 'PodTemplate' ? [object.template.spec]
: request.kind.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template.spec]
: has(object.spec.template) ? [object.spec.template.spec] : [])"""
"""A list of the one pod spec in the object; empty where a ReplicationController leaves its template out."""

_ANY_CONTAINER = """\
['containers', 'initContainers', 'ephemeralContainers'].exists(field,
  field in spec && spec[field] != null && spec[field].exists(c,
%s))"""

_MOUNTS_DEVICES = """\
has(spec.volumes) && spec.volumes.exists(v,
  has(v.hostPath) && has(v.hostPath.path) && ['/nvidia', '/dri', '/kfd'].exists(d, v.hostPath.path.contains(d)))"""
"""However the way to /dev/nvidia*, /dev/dri and /dev/kfd is spelled: //dev//dri and /dev/./dri have it too."""

_SETS_VISIBLE_DEVICES = "has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')"

_IS_PRIVILEGED_UNDER_A_RUNTIME = """\
has(spec.runtimeClassName) &&
  has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged"""


def _names_a_gpu(patterns: Sequence[str]) -> str:
    """Limits or requests name one of the resources, whatever the amount. The slash spares cpu and memory the regex."""
    for pattern in patterns:
        if "'" in pattern or not pattern.isprintable():
            raise ValueError(f"{pattern!r} cannot be quoted in CEL; leave out quotes and control characters")
    return (
        "has(c.resources) && ['limits', 'requests'].exists(part,\n"
        "  part in c.resources && c.resources[part].exists(name,\n"
        f"    name.contains('/') && name.matches(r'^({'|'.join(patterns)})$')))"
    )


def _any(signals: Sequence[str]) -> str:
    return " ||\n".join(f"({signal})" for signal in signals)

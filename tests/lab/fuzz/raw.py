"""What a pod says, read from its JSON alone: what oracles judge by, so that no fault of webhook.model is shared."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

Raw = Mapping[str, Any]

WHOLE = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
SHARED = ("nvidia.com/gpu.shared",)
SLICES = ("nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb.shared", "amd.com/cpx_nps4")
PASSTHROUGH = ("nvidia.com/pgpu", "nvidia.com/GA102GL_A10")
GPUS = frozenset((*WHOLE, *SHARED, *SLICES, *PASSTHROUGH))
"""The names of GPUs that the fuzzer writes and that are GPUs for certain."""
MAYBE = re.compile(r"(nvidia\.com|amd\.com|gpu\.intel\.com|deviceclass\.resource\.kubernetes\.io)/", re.ASCII)
"""What other names of GPUs begin with. Of a pod with such a name, and none of the above, nothing is promised."""

LISTS = ("initContainers", "containers", "ephemeralContainers")
SHM = "/dev/shm"
AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?[0-9]{1,2}))?", re.ASCII
)
_SCALE: Mapping[str, Fraction] = {
    **{
        suffix: Fraction(10) ** power
        for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{letter}i": Fraction(1024) ** (index + 1) for index, letter in enumerate("KMGTPE")},
}


def amount(value: object) -> Fraction | None:
    """A quantity of Kubernetes, exactly; None for what is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    written = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if written is None:
        return None
    digits, suffix, exponent = written.groups()
    return Fraction(digits) * _SCALE.get(suffix or "", Fraction(1)) * Fraction(10) ** int(exponent or 0)


def at(raw: object, *path: str) -> Any:
    """What stands below a map; None where anything on the way is missing or no map."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def maps(raw: object, *path: str) -> list[Raw]:
    """The maps of a list below a map."""
    found = at(raw, *path)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def containers(pod: Raw, *lists: str) -> Iterator[tuple[str, Raw]]:
    """Every container with the list it stands in, in the order in which they start."""
    for name in lists or LISTS:
        yield from ((name, one) for one in maps(pod, "spec", name))


def lasting(pod: Raw) -> list[Raw]:
    """Init and app containers."""
    return [one for _, one in containers(pod, "initContainers", "containers")]


def gpus_of(container: Raw) -> dict[str, int]:
    """GPUs that a container asks for by name: the limit, or the request where no limit can be read; those above 0."""
    limits, requests = at(container, "resources", "limits") or {}, at(container, "resources", "requests") or {}
    found: dict[str, int] = {}
    for name in GPUS & {*limits, *requests}:
        readable = [count for part in (limits, requests) if (count := amount(part.get(name))) is not None]
        if readable and readable[0] > 0:
            found[name] = ceil(readable[0])
    return found


def count_of(container: Raw) -> int:
    """GPUs of all names together."""
    return sum(gpus_of(container).values())


def is_sidecar(container: Raw) -> bool:
    """Whether an init container goes on beside the others."""
    return container.get("restartPolicy") == "Always"


def reserved(pod: Raw) -> dict[str, int]:
    """GPUs that the scheduler reserves, by name: what runs together, or the largest moment of the start."""
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for name, one in containers(pod, "initContainers", "containers"):
        for gpu, count in gpus_of(one).items():
            if name == "initContainers" and not is_sidecar(one):
                peak[gpu] = max(peak.get(gpu, 0), running.get(gpu, 0) + count)
            else:
                running[gpu] = running.get(gpu, 0) + count
    return {gpu: max(running.get(gpu, 0), peak.get(gpu, 0)) for gpu in {**running, **peak}}


def asks_nvidia(pod: Raw) -> bool:
    """Whether it asks for GPUs of NVIDIA that its containers use themselves."""
    return any(name.startswith("nvidia.com/") and name not in PASSTHROUGH for name in reserved(pod))


def has_passthrough(pod: Raw) -> bool:
    """Whether a GPU goes to a virtual machine."""
    return any(name in PASSTHROUGH for name in reserved(pod))


def gpu_faults(container: Raw) -> list[str]:
    """GPU amounts of a container that Kubernetes refuses, or that are in requests only: "fault" or "requests only"."""
    limits, requests = at(container, "resources", "limits") or {}, at(container, "resources", "requests") or {}
    found = []
    for name in GPUS & {*limits, *requests}:
        written = [amount(part[name]) for part in (limits, requests) if name in part]
        sound = [one for one in written if one is not None and one >= 0 and one.denominator == 1]
        if len(sound) < len(written) or len(set(sound)) > 1 or (name not in limits and sound == [0]):
            found.append("fault")
        elif name not in limits:
            found.append("requests only")
    return found


def is_uncertain(pod: Raw) -> bool:
    """Whether something in it may be a GPU, by its name or as a claim, and nobody can say so from the JSON alone."""
    if at(pod, "spec", "resourceClaims") or any(at(one, "resources", "claims") for _, one in containers(pod)):
        return True
    names = {
        name
        for _, one in containers(pod)
        for part in ("limits", "requests")
        for name in at(one, "resources", part) or {}
    }
    return any(MAYBE.match(name) for name in names - GPUS)


def sets(container: Raw, variable: str) -> bool:
    """Whether the container sets the variable, in whatever form."""
    return any(one.get("name") == variable for one in maps(container, "env"))


def controller(pod: Raw) -> str:
    """The kind of the controller that owns the pod."""
    owners = (one for one in maps(pod, "metadata", "ownerReferences") if one.get("controller") is True)
    return next((str(one.get("kind") or "") for one in owners), "")


def placed(spec: Raw, node: Raw) -> bool:
    """Whether selector, required affinity and nodeName let a pod onto a node, whatever its taints and capacity."""
    labels = at(node, "metadata", "labels") or {}
    if spec.get("nodeName") not in (None, "", at(node, "metadata", "name")):
        return False
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = at(spec, *AFFINITY)
    if at(spec, *AFFINITY[:-1]) is None:
        return True
    return any(_matches(term, node, labels) for term in terms or () if isinstance(term, dict))


def _matches(term: Raw, node: Raw, labels: Mapping[str, str]) -> bool:
    expressions, fields = maps(term, "matchExpressions"), maps(term, "matchFields")
    names = {"metadata.name": str(at(node, "metadata", "name"))}
    if not (expressions or fields):
        return False
    return all(holds(one, labels) for one in expressions) and all(holds(one, names) for one in fields)


def holds(expression: Raw, labels: Mapping[str, str]) -> bool:
    """Whether a node selector requirement is true of labels."""
    key, values = str(expression.get("key")), expression.get("values") or []
    found = labels.get(key)
    operator = expression.get("operator")
    if operator in ("Gt", "Lt"):
        if found is None or not found.lstrip("-").isdecimal():
            return False
        return int(found) > int(values[0]) if operator == "Gt" else int(found) < int(values[0])
    true = {
        "In": found in values,
        "NotIn": found not in values,
        "Exists": found is not None,
        "DoesNotExist": found is None,
    }
    return true.get(str(operator), False)


def tolerates(spec: Raw, node: Raw) -> bool:
    """Whether every taint that keeps pods away is tolerated."""
    taints = [one for one in maps(node, "spec", "taints") if one.get("effect") in ("NoSchedule", "NoExecute")]
    return all(any(opens(one, taint) for one in maps(spec, "tolerations")) for taint in taints)


def opens(toleration: Raw, taint: Raw) -> bool:
    """Whether a toleration tolerates a taint."""
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if toleration.get("effect") not in (None, "", taint.get("effect")) or key not in ("", taint.get("key")):
        return False
    if operator == "Exists":
        return True
    return bool(key) and operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")

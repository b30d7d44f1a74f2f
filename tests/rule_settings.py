"""Generated settings of every rule, as they stand in policy files."""

from typing import Any

from hypothesis import strategies as st

from tests.reviews import INJECTING, policy
from tests.strategies import expressions, tolerations
from webhook.model.selectors import Expression, contradicts
from webhook.policy.policy_set import PolicySet
from webhook.rules import RULES

_some = st.sampled_from


def _map(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A map in which every key may be missing."""
    return st.fixed_dictionaries({}, optional=parts)


def _required(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries as far as they do not exclude each other."""
    kept: list[dict[str, Any]] = []
    for entry in entries:
        read = [Expression(e["key"], e["operator"], tuple(e.get("values", ()))) for e in (*kept, entry)]
        if not contradicts(read[:-1], read[-1]):
            kept.append(entry)
    return kept


def rule_values(key: str) -> st.SearchStrategy[dict[str, Any]]:
    """Settings of one rule, as they stand in a policy file."""
    least = st.integers(1, 4)
    preference = st.builds(lambda entry, weight: {**entry, "weight": weight}, expressions(), st.integers(1, 100))
    globs = st.lists(_some(("nvidia.com/*", "amd.com/gpu", "*")), max_size=2)
    entry = st.builds(lambda toleration, resources: {**toleration, "resources": resources}, tolerations(), globs)
    values = {
        "tolerations": _map(add=st.lists(entry, max_size=3)),
        "nodeAffinity": _map(
            required=st.lists(expressions(), max_size=3).map(_required), preferred=st.lists(preference, max_size=2)
        ),
        "runtimeClass": _map(name=_some(("nvidia", "other")), whenMissing=_some(("silent", "warn"))),
        "sharedMemory": _map(minGpus=least, size=_some(("1Gi", "16Gi"))) | _map(memoryFraction=_some((0.1, 0.5, 1))),
        "ncclEnv": _map(
            minGpus=least,
            env=st.dictionaries(_some(("NCCL_DEBUG", "NCCL_IB_HCA", "HOME")), st.just("1"), max_size=3),
            alsoWithEnvFrom=st.booleans(),
        ),
        "gpuLimits": _map(
            requestsOnly=_some(("deny", "repair", "repair")),
            maxPerContainer=st.integers(0, 8),
            maxPerPod=st.integers(0, 16),
        ),
        "visibleDevices": _map(wholeNodes=_some(("deny", "warn", "allow"))),
        "cudaDriver": _map(
            unknown=_some(("allow", "warn", "deny")),
            steer=st.booleans(),
            forwardCompat=_some(("allow", "deny")),
            images=st.dictionaries(
                _some(("*", "registry.example.com/*", "nvidia/*:1?.*")), _some(("none", "12.8", "13"))
            ),
        ),
        "gpuNodesForGpuPods": _map(
            taints=st.lists(st.fixed_dictionaries({"key": _some(("nvidia.com/gpu", "sku"))}), min_size=1)
        ),
        "schedulable": st.just({}),
        "imagePinning": _map(
            require=_some(("tag", "digest")),
            registries=st.lists(_some(("docker.io", "registry.example.com/mirror", "*.example.com", "*")), max_size=2),
        ),
        "priorityClass": st.fixed_dictionaries(
            {"name": _some(("training", "training", "ordinary", "missing"))},
            optional={
                "allowed": st.lists(_some(("training", "ord*", "other")), max_size=2),
                "whenMissing": _some(("silent", "warn")),
            },
        ),
        "replicaSpread": st.fixed_dictionaries({"inject": _some(("preferred", "preferred", "none"))}),
        "timeLimit": st.fixed_dictionaries(
            {
                "max": _some(("12h", "2h", "1m")),
                "missing": _some(("inject", "refuse")),
                "longer": _some(("cap", "cap", "refuse")),
            },
            optional={"selectors": st.lists(_some(({"component": "singleuser-*"}, {"app": "*"})), min_size=1)},
        ),
        "memoryAndCpu": _map(
            memoryLimit=st.booleans(), cpuRequest=st.booleans(), memoryRequestEqualsLimit=st.booleans()
        ),
        "driverCapabilities": _map(
            capabilities=st.lists(_some(("compute", "utility", "video", "graphics")), min_size=1, unique=True),
            alsoWithEnvFrom=st.booleans(),
        ),
        "sharedGpus": st.just({}),
        "gpuQuota": _map(
            gpus=_some((0, 1, 8, "7/2")),
            byModel=st.dictionaries(_some(("T4", "H100", "A100-80GB")), _some((0, 4, "1/7"))),
            byResource=st.dictionaries(_some(("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")), st.integers(0, 4)),
            unspecifiedModel=_some(("count", "deny")),
            weights=st.dictionaries(_some(("nvidia.com/gpu.shared", "amd.com/gpu")), _some((2, "1/4"))),
            onLedgerFailure=_some(("deny", "allow")),
            models=_some(({}, {"T4": {"pool": ["gpu"]}})),
        ),
    }
    assert key in values, f"{key}: say here what settings of this rule may be, for the tests of every rule"
    return values[key]


@st.composite
def policy_sets(draw: st.DrawFn) -> PolicySet:
    """Policies of any rules, each in any mode."""
    keys = draw(st.lists(st.sampled_from([rule.key for rule in RULES]), unique=True, min_size=1, max_size=5))
    modes = st.sampled_from(("enforce", "enforce", "warn", "audit"))
    rules = {key: {**INJECTING.get(key, {}), **draw(rule_values(key)), "mode": draw(modes)} for key in keys}
    return PolicySet.of(policy(rules), {})

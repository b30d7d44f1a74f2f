"""The policies of all namespaces as one immutable value, and which policy a namespace gets.

An exact name takes precedence over any glob, a longer glob over a shorter one, and each of them over the default. The
length of a glob is the number of its characters, wildcards included. The loader refuses two files that could claim a
namespace at the same rank, so the order of files makes no difference.
"""

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob, matcher
from webhook.model.node import NodePool
from webhook.model.pod import Container
from webhook.model.subject import PodSubject
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables
from webhook.policy.exceptions import NO_EXCEPTIONS, REMEMBERED, AppliedException, PolicyExceptions
from webhook.policy.policy_quotas import NO_SHARED_QUOTAS, ConfiguredQuota, SharedQuotas
from webhook.policy.schema import CUDA_KIND, DEFAULT_FILE, EXCEPTIONS_FILE, EXCEPTIONS_KIND, MOST_DAYS, WorkloadsMode
from webhook.quota.quotas import Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule import Rule, Stage
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.yaml_lines import YamlNode

_EXCEPTED = 4_096
"""Policies under exceptions that are remembered."""
_STRICTNESS = {Mode.ENFORCE: 3, Mode.WARN: 2, Mode.AUDIT: 1, Mode.DISABLED: 0}


def content_hash(content: object) -> str:
    """Hex SHA-256 of a JSON value, independent of the order of map keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ConfiguredRule:
    """A rule with its settings in one policy. `origin` is the file that sets the rule last, and `node` what it and the
    default say there, merged.
    """

    rule: Rule
    mode: Mode
    settings: RuleSettings
    origin: str
    node: YamlNode = field(default=YamlNode({}, "", 0), compare=False, repr=False)
    contact: str = ""
    """Whom users should ask; empty if the policy names nobody."""
    exception: AppliedException | None = None
    """The exception that changes its mode or its settings."""
    is_lifted: bool = False
    """Whether it would refuse and inject without the exception."""
    split_by: AppliedException | None = None
    """The exception to some containers, by which the rule stands in the policy twice: under the exception for these,
    and without it for all others."""

    @property
    def line(self) -> int:
        """Its line in the file, from 1; 0 if not known."""
        return self.node.line

    def holds_for(self, container: Container | None) -> bool:
        """Whether it is about a container of a pod; None asks about the pod as a whole."""
        return self.split_by is None or self.split_by.covers(container) is (self.exception is not None)

    def under(self, held: AppliedException, settings: RuleSettings | None) -> Iterator["ConfiguredRule"]:
        """The rule under an exception, and for the containers that the exception is not about.

        `settings` are its settings under the exception; None if pods are excepted from the rule itself.
        """
        exception = held.exception
        split_by = held if exception.match.is_about_containers else None
        if settings is None:
            mode = min(self.mode, exception.mode, key=_STRICTNESS.__getitem__)
            changed = replace(self, is_lifted=self.mode is Mode.ENFORCE)
            settings = self.settings.model_copy(update={"mode": mode})
        else:
            changed = replace(self, origin=EXCEPTIONS_FILE, node=exception.node)
        yield replace(changed, mode=settings.mode, settings=settings, exception=held, split_by=split_by)
        if split_by is not None:
            yield replace(self, split_by=split_by)


@dataclass(frozen=True)
class Policy:
    """The rules of a namespace that are not disabled, in the order of the list of rules, and its other settings.

    `files` are the names of its files, `_default.yaml` first. `hash` is a hash of their merged content. `pools_origin`
    is the file with the node pools, and `workloads_origin` the file with the mode for workloads; empty for none.
    """

    name: str
    files: tuple[str, ...]
    hash: str
    rules: tuple[ConfiguredRule, ...]
    node_pools: tuple[NodePool, ...] = ()
    pools_origin: str = ""
    workloads: WorkloadsMode = WorkloadsMode.WARN
    """What happens to a workload whose pods would be refused."""
    workloads_origin: str = ""
    accelerators: Accelerators = BUILT_IN
    """The names of GPUs. All policies of a set have the same."""
    contact: str = ""
    """Whom users should ask; empty if no file names anybody."""
    device_classes: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What its files say of DeviceClasses, as they have it."""
    transient_taints: tuple[str, ...] = ()
    """Globs of the keys of taints that go away by themselves, besides the known ones."""
    exceptions: tuple[AppliedException, ...] = ()
    """The exceptions that it is under."""

    @cached_property
    def mutators(self) -> tuple[tuple[ConfiguredRule, ...], ...]:
        """The rules that mutate under their settings: one tuple for each stage, in the order of stages."""
        able = [active for active in self.rules if active.rule.mutate and active.rule.can_mutate(active.settings)]
        return tuple(tuple(active for active in able if active.rule.stage is stage) for stage in Stage)

    @cached_property
    def injectors(self) -> tuple[ConfiguredRule, ...]:
        """The mutators in mode `enforce`, which inject their edits."""
        return tuple(active for stage in self.mutators for active in stage if active.mode is Mode.ENFORCE)

    @cached_property
    def is_enforcing(self) -> bool:
        return any(active.mode is Mode.ENFORCE for active in self.rules)

    @cached_property
    def validators(self) -> tuple[ConfiguredRule, ...]:
        """The rules that validate under their settings."""
        return tuple(b for b in self.rules if b.rule.validate and b.rule.can_validate(b.settings))

    @cached_property
    def judging_nodes(self) -> tuple[ConfiguredRule, ...]:
        """The rules that say which nodes do not suit a pod as a whole."""
        able = [
            active for active in self.rules if active.rule.unsuited and active.rule.can_be_unsuited(active.settings)
        ]
        return tuple(active for active in able if active.holds_for(None))

    @cached_property
    def steerers(self) -> tuple[ConfiguredRule, ...]:
        """The rules of `judging_nodes` in mode `enforce`: pods are kept off such nodes."""
        return tuple(active for active in self.judging_nodes if active.mode is Mode.ENFORCE)

    @cached_property
    def labels(self) -> frozenset[str]:
        return frozenset(label for active in self.rules for label in active.rule.labels(active.settings))

    @cached_property
    def changes(self) -> tuple[float, ...]:
        """When node pools get their next drivers, in seconds since 1970, in order; empty if none is to come."""
        return tuple(sorted(pool.next.begins for pool in self.node_pools if pool.next is not None))

    @cached_property
    def _later(self) -> dict[int, "Policy"]:
        """The policy after the first of these changes, the first two, and so on."""
        return {}

    @cached_property
    def stamp(self) -> str:
        """The policy and its version, as an annotation of the pods that it completed."""
        return f"{self.name}@{self.short_hash}"

    def at(self, now: float) -> "Policy":
        """The policy at a moment in seconds since 1970: pools whose next driver has begun have it.

        Its hash stays the same, because its files do.
        """
        if not self.changes or now < self.changes[0]:
            return self
        passed = bisect_right(self.changes, now)
        later = self._later.get(passed)
        if later is None:
            pools = tuple(pool.at(now) for pool in self.node_pools)
            later = self._later[passed] = replace(self, node_pools=pools)
        return later

    def quota_of(self, namespace: str) -> ConfiguredQuota | None:
        """The quota of one of its namespaces by the rule `gpuQuota`; None without limits."""
        for one in self.rules:
            own = one.settings
            if isinstance(own, gpu_quota.Settings) and own.limits and one.holds_for(None):
                quota = Quota(QuotaScope.NAMESPACE, namespace, (namespace,), own.limits, own.counting)
                lifting = one.exception if one.is_lifted else None
                return ConfiguredQuota(quota, own.mode, own.on_ledger_failure, one.origin, one.line, lifting)
        return None

    def only(self, keep: Callable[[ConfiguredRule], bool]) -> "Policy":
        return replace(self, rules=tuple(filter(keep, self.rules)))

    def under(self, applied: tuple[AppliedException, ...], exceptions: PolicyExceptions) -> "Policy":
        """The policy for pods under these exceptions. An exception adds no rule."""
        by_rule = {rule: one for one in applied for rule in one.rules}
        rules: list[ConfiguredRule] = []
        for active in self.rules:
            held = by_rule.get(active.rule.key)
            if held is None:
                rules.append(active)
            else:
                rules += active.under(held, exceptions.settings.get((self.name, held.name, active.rule.key)))
        parts = [[one.name, one.rules, one.is_whole, repr(one.exception)] for one in applied]
        return replace(self, rules=tuple(rules), hash=content_hash([self.hash, parts]), exceptions=applied)

    @property
    def short_hash(self) -> str:
        return self.hash[:12]


NO_POLICY = Policy(DEFAULT_FILE.removesuffix(".yaml"), (), content_hash({}), ())
"""The policy without any file: no rules."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds for a pod: its policy, and the quotas that it counts against."""

    policy: Policy
    quotas: tuple[ConfiguredQuota, ...]

    def at(self, now: float) -> "InForce":
        """The same with the policy at a moment in seconds since 1970."""
        policy = self.policy.at(now)
        return self if policy is self.policy else InForce(policy, self.quotas)


@dataclass(frozen=True, eq=False)
class PolicySet:
    """The policies of all namespaces."""

    default: Policy
    """The policy of namespaces without a file of their own. It has no rules if there is no default file."""
    has_default: bool
    claims: Mapping[str, Policy]
    """The policy of each name and glob of namespaces that a file claims."""
    notices: tuple[str, ...] = ()
    """Remarks about the files that are no mistakes."""
    shared: SharedQuotas = NO_SHARED_QUOTAS
    cuda: PlatformTables = SHIPPED_ONLY
    """The tables by which images are judged in all namespaces."""
    exceptions: PolicyExceptions = NO_EXCEPTIONS
    """The exceptions, whether or not they hold now."""
    max_days: int = MOST_DAYS
    """How many days ahead exceptions may end."""
    drivers: WorkloadsMode = WorkloadsMode.WARN
    """What happens to objects that change the driver of nodes for the worse."""

    @classmethod
    def of(cls, default: Policy | None, claims: Mapping[str, Policy], **parts: Any) -> "PolicySet":
        """The set with the policies of the names and globs in `claims`. All other namespaces have `default`."""
        return cls(default or NO_POLICY, default is not None, claims, **parts)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_usual", lru_cache(maxsize=REMEMBERED)(self._usual))
        object.__setattr__(self, "_excepted", lru_cache(maxsize=_EXCEPTED)(self._excepted))

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """Every policy once: the default, then all others by name."""
        named = {policy.name: policy for policy in self.claims.values()}
        return (self.default, *(named[name] for name in sorted(named)))

    @property
    def names(self) -> list[str]:
        """The namespaces that files claim by an exact name."""
        return sorted(pattern for pattern in self.claims if not is_glob(pattern))

    @cached_property
    def hash(self) -> str:
        """The hex SHA-256 of everything in the policies that can change a verdict."""
        claims = {key: [policy.name, policy.hash] for key, policy in self.claims.items()}
        content = [self.has_default, self.default.hash, claims, *self.shared.written]
        content += [{CUDA_KIND: self.cuda.written}] if self.cuda.written else []
        written = [one.node.plain() for one in self.exceptions.all]
        content += [{EXCEPTIONS_KIND: [*written, self.max_days]}] if written else []
        content += [] if self.drivers is WorkloadsMode.WARN else [{"drivers": self.drivers}]
        return content_hash(content)

    @property
    def short_hash(self) -> str:
        return self.hash[:12]

    @property
    def shared_quotas(self) -> tuple[ConfiguredQuota, ...]:
        """The quotas that namespaces share, by name, without disabled ones."""
        return self.shared.quotas

    @property
    def accelerators(self) -> Accelerators:
        return self.default.accelerators

    @property
    def has_quotas(self) -> bool:
        return bool(self.shared_quotas) or any(policy.quota_of("") is not None for policy in self.policies)

    def in_force(self, namespace: str, subject: Callable[[], PodSubject], now: float) -> InForce:
        """What holds for a pod at a moment, in seconds since 1970, with the exceptions that hold for it.

        `subject` says which pod it is; it is called only if there are exceptions for the namespace.
        """
        if self.exceptions.all and self.exceptions.of(namespace):
            applied = self.exceptions.applied(namespace, subject(), now, self.accelerators)
            if applied:
                return self._excepted(namespace, applied).at(now)
        return self._usual(namespace).at(now)

    def for_namespace(self, name: str) -> Policy:
        """The policy of a namespace. An object without a namespace, whose name is empty, has the default."""
        return self._usual(name).policy

    def quotas_for(self, namespace: str) -> tuple[ConfiguredQuota, ...]:
        """The quotas of a namespace: its own, then its shared quotas by name.

        Disabled quotas and quotas without a limit are left out. An object without a namespace has no quota.
        """
        return self._usual(namespace).quotas

    @cached_property
    def _globs(self) -> list[tuple[re.Pattern[str], Policy]]:
        """The globs of namespaces and their policies; the first that matches a name counts."""
        ranked = sorted((pattern for pattern in self.claims if is_glob(pattern)), key=lambda glob: (-len(glob), glob))
        return [(matcher(glob), self.claims[glob]) for glob in ranked]

    def _usual(self, namespace: str) -> InForce:
        if not namespace:
            return InForce(self.default, ())
        matching = (policy for glob, policy in self._globs if glob.fullmatch(namespace))
        policy = self.claims.get(namespace) or next(matching, self.default)
        own = policy.quota_of(namespace)
        shared = (active for active in self.shared_quotas if active.quota.covers(namespace))
        return InForce(policy, (*(() if own is None else (own,)), *shared))

    def _excepted(self, namespace: str, applied: tuple[AppliedException, ...]) -> InForce:
        policy, before = self.for_namespace(namespace).under(applied, self.exceptions), self.quotas_for(namespace)
        quota = gpu_quota.RULE.key
        of_quota = (one for one in applied if one.is_whole and quota in one.rules and quota in one.exception.rules)
        lifted = next(of_quota, None)
        quotas: list[ConfiguredQuota] = []
        for active in before:  # a quota that only an exception sets would count in a new ledger
            if active.quota.scope is not QuotaScope.SHARED:
                quotas += filter(None, [policy.quota_of(namespace)])
            elif lifted is not None and active.mode is Mode.ENFORCE:
                quotas.append(replace(active, mode=lifted.exception.mode, exception=lifted))
            else:
                quotas.append(active)
        return InForce(policy, tuple(quotas))

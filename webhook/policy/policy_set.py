"""The policies of all namespaces as one immutable value, and which policy a namespace gets.

An exact name takes precedence over any glob, a longer glob over a shorter one, and each of them over the default. The
length of a glob is the number of its characters, wildcards included. The loader refuses two files that could claim a
namespace at the same rank, so the order of files makes no difference.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob, matcher
from webhook.model.node import NodePool
from webhook.model.subject import PodSubject
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables
from webhook.policy.exceptions import NO_EXCEPTIONS, AppliedException, PolicyExceptions, excepted_rules
from webhook.policy.policy_quotas import (
    NO_SHARED_QUOTAS,
    BoundQuota,
    SharedQuotas,
    excepted_shared_quotas,
    shared_quota_finder,
)
from webhook.policy.schema import CUDA_KIND, DEFAULT_FILE, EXCEPTIONS_KIND, MOST_DAYS, WorkloadsMode
from webhook.quota.quotas import QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule import Rule, Stage
from webhook.rules.rule_settings import Mode, RuleSettings

REMEMBERED = 10_000
"""Namespaces whose policy and quotas are remembered after globs were compared with their names."""
_EXCEPTED = 4_096
"""Policies under exceptions that are remembered."""


def content_hash(content: object) -> str:
    """Hex SHA-256 of a JSON value, independent of the order of map keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with its settings in one policy. `origin` is the file that sets the rule last, and `line` the line in it,
    from 1; 0 if not known.
    """

    rule: Rule
    mode: Mode
    settings: RuleSettings
    origin: str
    line: int = field(default=0, compare=False)
    contact: str = ""
    """Whom users should ask; empty if the policy names nobody."""
    written: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)
    """The settings as written, after merging; None in a set without exceptions."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a namespace that are not disabled, in the order of the list of rules, and its other settings.

    `files` are the names of its files, `_default.yaml` first. `hash` is a hash of their merged content. `pools_origin`
    is the file with the node pools, and `workloads_origin` the file with the mode for workloads; empty for none.
    """

    name: str
    files: tuple[str, ...]
    hash: str
    rules: tuple[BoundRule, ...]
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
    """Globs of the keys of taints that go away by themselves, besides those that are known."""
    exceptions: tuple[AppliedException, ...] = ()
    """The exceptions by which it differs from `usual`."""
    usual: "Policy | None" = None
    """The policy without exceptions; None for a policy that is not under any."""
    base: "Policy | None" = None
    """The policy under those of its exceptions that are about the pod as a whole; None if all of them are."""
    mutators: tuple[tuple[BoundRule, ...], ...] = field(init=False)
    """The rules that mutate under their settings: one tuple for each stage, in the order of stages."""
    injectors: tuple[BoundRule, ...] = field(init=False)
    """The mutators in mode `enforce`, which inject their edits."""
    is_injecting: bool = field(init=False)
    """Whether any rule with a `mutate` function is in mode `enforce`, even if its settings let it mutate nothing."""
    validators: tuple[BoundRule, ...] = field(init=False)
    """The rules that validate under their settings."""
    anticipators: tuple[BoundRule, ...] = field(init=False)
    """The validators with violations that API validation would refuse."""
    contradicted: tuple[BoundRule, ...] = field(init=False)
    """The validators in mode `enforce` that validate a field which they also inject."""
    steerers: tuple[BoundRule, ...] = field(init=False)
    """The rules in mode `enforce` that say which nodes do not suit a pod, by key; empty unless there are several."""
    labels: frozenset[str] = field(init=False)
    """The labels by which rules select pods."""
    changes: tuple[float, ...] = field(init=False)
    """When node pools get their next drivers, in seconds since 1970, in order; empty if none is to come."""
    _later: dict[int, "Policy"] = field(init=False, compare=False, repr=False)
    """The policy after the first of these changes, the first two, and so on."""

    def __post_init__(self) -> None:
        mutating = [bound for bound in self.rules if bound.rule.mutate is not None]
        able = [bound for bound in mutating if bound.rule.can_mutate(bound.settings)]
        stages = tuple(tuple(bound for bound in able if bound.rule.stage is stage) for stage in Stage)
        object.__setattr__(self, "mutators", stages)
        injectors = tuple(bound for stage in stages for bound in stage if bound.mode is Mode.ENFORCE)
        object.__setattr__(self, "injectors", injectors)
        object.__setattr__(self, "is_injecting", any(bound.mode is Mode.ENFORCE for bound in mutating))
        judging = [bound for bound in self.rules if bound.rule.validate is not None]
        validators = tuple(bound for bound in judging if bound.rule.can_validate(bound.settings))
        object.__setattr__(self, "validators", validators)
        anticipators = tuple(bound for bound in validators if bound.rule.may_fail_api_validation)
        object.__setattr__(self, "anticipators", anticipators)
        objecting = (bound for bound in validators if bound.rule.validates_own_injection)
        object.__setattr__(self, "contradicted", tuple(bound for bound in objecting if bound.mode is Mode.ENFORCE))
        object.__setattr__(self, "steerers", _steerers(validators))
        labels = frozenset(label for bound in self.rules for label in bound.rule.labels(bound.settings))
        object.__setattr__(self, "labels", labels)
        changes = sorted(pool.next.begins for pool in self.node_pools if pool.next is not None)
        object.__setattr__(self, "changes", tuple(changes))
        object.__setattr__(self, "_later", {})

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
            usual = None if self.usual is None else self.usual.at(now)
            base = None if self.base is None else self.base.at(now)
            later = self._later[passed] = replace(self, node_pools=pools, usual=usual, base=base)
        return later

    def quota_of(self, namespace: str) -> BoundQuota | None:
        """The quota of one of its namespaces by the rule `gpuQuota`; None without limits."""
        for bound in self.rules:
            if isinstance(bound.settings, gpu_quota.Settings) and bound.settings.limits:
                return BoundQuota.of(
                    QuotaScope.NAMESPACE, namespace, (namespace,), bound.settings, bound.origin, bound.line
                )
        return None

    def exception_to(self, rule: str) -> AppliedException | None:
        """The exception that holds for a rule; None without any."""
        return next((one for one in self.exceptions if rule in one.rules), None)

    @property
    def as_a_whole(self) -> "Policy":
        """What holds for the pod as a whole: for what is injected into no particular container, and for quotas."""
        return self.base or self

    @property
    def exceptions_to_containers(self) -> Mapping[str, AppliedException]:
        """The exceptions that say which containers are meant, by rule; empty for nearly all policies."""
        meant = [one for one in self.exceptions if one.exception.match.is_about_containers]
        return {rule: one for one in meant for rule in one.rules}

    def only(self, keep: Callable[[BoundRule], bool]) -> "Policy":
        """The policy with some of its rules, with and without exceptions."""
        usual = None if self.usual is None else self.usual.only(keep)
        base = None if self.base is None else self.base.only(keep)
        return replace(self, rules=tuple(filter(keep, self.rules)), usual=usual, base=base)

    def under(self, applied: tuple[AppliedException, ...], exceptions: PolicyExceptions) -> "Policy":
        """The policy as it is for pods for which exceptions hold."""
        rules = excepted_rules(self.name, self.rules, applied, exceptions)
        parts = [[one.name, one.rules, one.is_whole, repr(one.exception)] for one in applied]
        whole = tuple(one for one in applied if one.is_whole)
        base = None if whole == applied else self.under(whole, exceptions) if whole else self
        new_hash = content_hash([self.hash, parts])
        return replace(self, rules=rules, hash=new_hash, exceptions=applied, usual=self, base=base)

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash, for people."""
        return self.hash[:12]


def _steerers(validators: Sequence[BoundRule]) -> tuple[BoundRule, ...]:
    enforced = [bound for bound in validators if bound.rule.unsuited is not None and bound.mode is Mode.ENFORCE]
    found = [bound for bound in enforced if bound.rule.can_be_unsuited(bound.settings)]
    return tuple(sorted(found, key=lambda bound: bound.rule.key)) if len(found) > 1 else ()


NO_POLICY = Policy(DEFAULT_FILE.removesuffix(".yaml"), (), content_hash({}), ())
"""The policy without any file: no rules."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds for a pod: its policy, and the quotas that it counts against."""

    policy: Policy
    quotas: tuple[BoundQuota, ...]

    def at(self, now: float) -> "InForce":
        """The same with the policy at a moment in seconds since 1970."""
        policy = self.policy.at(now)
        return self if policy is self.policy else InForce(policy, self.quotas)


@dataclass(frozen=True, slots=True, eq=False)
class PolicySet:
    """The policies of all namespaces. `hash` is the hex SHA-256 of everything in them that can change a verdict."""

    default: Policy
    """The policy of namespaces without a file of their own. It has no rules if there is no default file."""
    has_default: bool
    policies: tuple[Policy, ...]
    """Every policy once: the default, then all others by name."""
    notices: tuple[str, ...]
    """Remarks about the files that are no mistakes."""
    shared_quotas: tuple[BoundQuota, ...]
    """The quotas that namespaces share, by name, without disabled ones."""
    claims: Mapping[str, Policy]
    """The policy of each name and glob of namespaces that a file claims."""
    names: tuple[str, ...]
    """The namespaces that files claim by an exact name."""
    cuda: PlatformTables
    """The tables by which images are judged in all namespaces."""
    hash: str
    exceptions: PolicyExceptions
    """The exceptions, whether or not they hold now."""
    max_days: int
    """How many days ahead exceptions may end."""
    _policy: Callable[[str], Policy]
    _quotas: Callable[[str], tuple[BoundQuota, ...]]
    _excepted: Callable[[str, tuple[AppliedException, ...]], InForce]

    @classmethod
    def of(  # noqa: PLR0913, PLR0917  # all parts of a set
        cls,
        default: Policy | None,
        claims: Mapping[str, Policy],
        notices: Sequence[str] = (),
        shared_quotas: SharedQuotas = NO_SHARED_QUOTAS,
        cuda: PlatformTables = SHIPPED_ONLY,
        exceptions: PolicyExceptions = NO_EXCEPTIONS,
        max_days: int = MOST_DAYS,
    ) -> "PolicySet":
        """The set with the policies of the names and globs in `claims`. All other namespaces have `default`."""
        fallback = default or NO_POLICY
        named = {policy.name: policy for policy in claims.values()}
        content = [default is not None, fallback.hash, {key: [p.name, p.hash] for key, p in claims.items()}]
        content += shared_quotas.written
        content += [{CUDA_KIND: cuda.written}] if cuda.written else []
        content += [{EXCEPTIONS_KIND: [*exceptions.written, max_days]}] if exceptions.written else []
        find = policy_finder(claims, fallback)
        quotas = _quota_finder(find, shared_quotas.quotas)
        return cls(
            default=fallback,
            has_default=default is not None,
            policies=(fallback, *(named[name] for name in sorted(named))),
            notices=tuple(notices),
            shared_quotas=shared_quotas.quotas,
            claims=dict(claims),
            names=tuple(sorted(pattern for pattern in claims if not is_glob(pattern))),
            cuda=cuda,
            hash=content_hash(content),
            exceptions=exceptions,
            max_days=max_days,
            _policy=find,
            _quotas=quotas,
            _excepted=lru_cache(maxsize=_EXCEPTED)(partial(_excepted, find, quotas, exceptions)),
        )

    def in_force(self, namespace: str, subject: Callable[[], PodSubject], now: float) -> InForce:
        """What holds for a pod at a moment, in seconds since 1970, with the exceptions that hold for it.

        `subject` says which pod it is; it is called only if there are exceptions for the namespace.
        """
        if self.exceptions.are_in(namespace):
            applied = self.exceptions.applied(namespace, subject(), now, self.accelerators)
            if applied:
                return self._excepted(namespace, applied).at(now)
        policy = self._policy(namespace)
        return InForce(policy.at(now) if policy.changes else policy, self._quotas(namespace))

    def for_namespace(self, name: str) -> Policy:
        """The policy of a namespace: one look-up, after globs were compared with its name once.

        An object without a namespace, whose name is empty, has the default.
        """
        return self._policy(name)

    def quotas_for(self, namespace: str) -> tuple[BoundQuota, ...]:
        """The quotas of a namespace: its own, then its shared quotas by name. One look-up, as for its policy.

        Disabled quotas and quotas without a limit are left out. An object without a namespace has no quota.
        """
        return self._quotas(namespace)

    @property
    def accelerators(self) -> Accelerators:
        """The names of GPUs."""
        return self.default.accelerators

    @property
    def has_quotas(self) -> bool:
        """Whether any namespace has a quota."""
        return bool(self.shared_quotas) or any(policy.quota_of("") is not None for policy in self.policies)

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash."""
        return self.hash[:12]


def policy_finder(claims: Mapping[str, Policy], fallback: Policy) -> Callable[[str], Policy]:
    """A function that finds the policy of a namespace by name, or by the first glob that matches, and remembers it."""
    exact = {pattern: policy for pattern, policy in claims.items() if not is_glob(pattern)}
    ranked = sorted((pattern for pattern in claims if is_glob(pattern)), key=lambda glob: (-len(glob), glob))
    globs = tuple((matcher(glob), claims[glob]) for glob in ranked)

    @lru_cache(maxsize=REMEMBERED)
    def resolve(name: str) -> Policy:
        return next((policy for glob, policy in globs if name and glob.fullmatch(name)), fallback)

    return lambda name: exact.get(name) or resolve(name)


def _excepted(
    policy_of: Callable[[str], Policy],
    quotas_of: Callable[[str], tuple[BoundQuota, ...]],
    exceptions: PolicyExceptions,
    namespace: str,
    applied: tuple[AppliedException, ...],
) -> InForce:
    """What holds in a namespace for pods for which exceptions hold."""
    usual = policy_of(namespace)
    policy = usual.under(applied, exceptions)
    quotas = quotas_of(namespace)
    whole = policy.as_a_whole
    exception = whole.exception_to(gpu_quota.RULE.key)
    shared_quotas = [bound for bound in quotas if bound.quota.scope is QuotaScope.SHARED]
    if exception is not None and gpu_quota.RULE.key in exception.exception.rules:
        shared_quotas = excepted_shared_quotas(shared_quotas, exception)
    before = next((bound for bound in quotas if bound.quota.scope is not QuotaScope.SHARED), None)
    own = whole.quota_of(namespace) if before is not None else None  # nobody else's pods count in a new ledger
    if own is not None and exception is not None:
        own = replace(own, exception=exception, usual=before)
    return InForce(policy, (*(() if own is None else (own,)), *shared_quotas))


def _quota_finder(
    policy_of: Callable[[str], Policy], shared_quotas: tuple[BoundQuota, ...]
) -> Callable[[str], tuple[BoundQuota, ...]]:
    """A function that finds the quotas of a namespace, and remembers them."""
    shared_quotas_of = shared_quota_finder(shared_quotas)

    @lru_cache(maxsize=REMEMBERED)
    def resolve(namespace: str) -> tuple[BoundQuota, ...]:
        if not namespace:
            return ()
        own = policy_of(namespace).quota_of(namespace)
        shared = shared_quotas_of(namespace)
        return shared if own is None else (own, *shared)

    return resolve

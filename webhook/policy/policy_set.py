"""The policies of all namespaces as one immutable value, and which policy a namespace gets.

An exact name takes precedence over any glob, a longer glob over a shorter one, and each of them over the default. The
length of a glob is the number of its characters, wildcards included. The loader refuses two files that could claim a
namespace at the same rank, so the order of files makes no difference.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob, matcher
from webhook.model.node import NodePool
from webhook.model.pod import Container
from webhook.model.subject import PodSubject
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables
from webhook.policy.exceptions import NO_EXCEPTIONS, AppliedException, PolicyExceptions, ReadSettings, merged
from webhook.policy.policy_quotas import NO_SHARED_QUOTAS, BoundQuota, SharedQuotas, shared_quota_finder
from webhook.policy.schema import CUDA_KIND, DEFAULT_FILE, EXCEPTIONS_FILE, EXCEPTIONS_KIND, MOST_DAYS, WorkloadsMode
from webhook.quota.quotas import QuotaScope
from webhook.rules import gpu_limits, gpu_quota
from webhook.rules.rule import Rule, Stage
from webhook.rules.rule_settings import Mode, RuleSettings

REMEMBERED = 10_000
"""Namespaces whose policy and quotas are remembered after globs were compared with their names."""
_EXCEPTED = 4_096
"""Policies under exceptions that are remembered."""
_STRICTNESS = {Mode.ENFORCE: 3, Mode.WARN: 2, Mode.AUDIT: 1, Mode.DISABLED: 0}


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
    exception: AppliedException | None = None
    """The exception by which its mode or its settings are others."""
    is_lifted: bool = False
    """Whether it would refuse and inject without the exception."""
    split_by: AppliedException | None = None
    """The exception to some containers, by which the rule stands in the policy twice: under the exception for these,
    and without it for all others."""

    def holds_for(self, container: Container | None) -> bool:
        """Whether it is about a container of a pod; None asks about the pod as a whole."""
        return self.split_by is None or self.split_by.covers(container) is (self.exception is not None)

    def _under(self, held: AppliedException, policy: str, read: ReadSettings) -> "BoundRule":
        """The rule as the policy of this name has it under an exception.

        Raises pydantic's ValidationError for settings that the rule refuses; the loader has tried all of them.
        """
        exception = held.exception
        if self.rule.key in exception.rules:
            mode = min(self.mode, exception.mode, key=_STRICTNESS.__getitem__)
            settings = self.settings.model_copy(update={"mode": mode})
            return replace(self, mode=mode, settings=settings, exception=held, is_lifted=self.mode is Mode.ENFORCE)
        written = merged(self.rule, self.written or {}, exception.settings[self.rule.key])
        settings = read(policy, self.rule, written)
        if isinstance(settings, gpu_limits.Settings) and isinstance(self.settings, gpu_limits.Settings):
            settings = settings.weighing(self.settings.weights)
        return replace(
            self,
            mode=settings.mode,
            settings=settings,
            origin=EXCEPTIONS_FILE,
            line=exception.line,
            written=written,
            exception=held,
        )

    def parts(self, held: AppliedException, policy: str, read: ReadSettings) -> Iterator["BoundRule"]:
        """The rule under an exception, and for the containers that the exception is not about."""
        split_by = held if held.exception.match.is_about_containers else None
        yield replace(self._under(held, policy, read), split_by=split_by)
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
    """The exceptions that it is under."""

    @cached_property
    def mutators(self) -> tuple[tuple[BoundRule, ...], ...]:
        """The rules that mutate under their settings: one tuple for each stage, in the order of stages."""
        able = [bound for bound in self.rules if bound.rule.mutate and bound.rule.can_mutate(bound.settings)]
        return tuple(tuple(bound for bound in able if bound.rule.stage is stage) for stage in Stage)

    @cached_property
    def injectors(self) -> tuple[BoundRule, ...]:
        """The mutators in mode `enforce`, which inject their edits."""
        return tuple(bound for stage in self.mutators for bound in stage if bound.mode is Mode.ENFORCE)

    @cached_property
    def is_enforcing(self) -> bool:
        return any(bound.mode is Mode.ENFORCE for bound in self.rules)

    @cached_property
    def validators(self) -> tuple[BoundRule, ...]:
        """The rules that validate under their settings."""
        return tuple(b for b in self.rules if b.rule.validate and b.rule.can_validate(b.settings))

    @cached_property
    def judging_nodes(self) -> tuple[BoundRule, ...]:
        """The rules that say which nodes do not suit a pod as a whole."""
        able = [bound for bound in self.rules if bound.rule.unsuited and bound.rule.can_be_unsuited(bound.settings)]
        return tuple(bound for bound in able if bound.holds_for(None))

    @cached_property
    def steerers(self) -> tuple[BoundRule, ...]:
        """Those of these rules that are in mode `enforce`, so that pods are kept off such nodes."""
        return tuple(bound for bound in self.judging_nodes if bound.mode is Mode.ENFORCE)

    @cached_property
    def labels(self) -> frozenset[str]:
        """The labels by which rules select pods."""
        return frozenset(label for bound in self.rules for label in bound.rule.labels(bound.settings))

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

    def quota_of(self, namespace: str) -> BoundQuota | None:
        """The quota of one of its namespaces by the rule `gpuQuota`; None without limits."""
        for bound in self.rules:
            if isinstance(bound.settings, gpu_quota.Settings) and bound.settings.limits and bound.holds_for(None):
                of = BoundQuota.of(
                    QuotaScope.NAMESPACE, namespace, (namespace,), bound.settings, bound.origin, bound.line
                )
                return replace(of, exception=bound.exception) if bound.is_lifted else of
        return None

    def only(self, keep: Callable[[BoundRule], bool]) -> "Policy":
        """The policy with some of its rules."""
        return replace(self, rules=tuple(filter(keep, self.rules)))

    def under(self, applied: tuple[AppliedException, ...], exceptions: PolicyExceptions) -> "Policy":
        """The policy as it is for pods for which exceptions hold. An exception adds no rule."""
        by_rule = {rule: one for one in applied for rule in one.rules}
        rules: list[BoundRule] = []
        for bound in self.rules:
            held = by_rule.get(bound.rule.key)
            rules += [bound] if held is None else bound.parts(held, self.name, exceptions.read)
        parts = [[one.name, one.rules, one.is_whole, repr(one.exception)] for one in applied]
        return replace(self, rules=tuple(rules), hash=content_hash([self.hash, parts]), exceptions=applied)

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash, for people."""
        return self.hash[:12]


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
    policy = policy_of(namespace).under(applied, exceptions)
    key = gpu_quota.RULE.key
    lifted = next((one for one in applied if one.is_whole and key in one.rules and key in one.exception.rules), None)
    quotas: list[BoundQuota] = []
    for bound in quotas_of(namespace):  # a quota that only an exception sets would count in a new ledger
        if bound.quota.scope is not QuotaScope.SHARED:
            quotas += filter(None, [policy.quota_of(namespace)])
        elif lifted is not None and bound.mode is Mode.ENFORCE:
            quotas.append(replace(bound, mode=lifted.exception.mode, exception=lifted))
        else:
            quotas.append(bound)
    return InForce(policy, tuple(quotas))


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

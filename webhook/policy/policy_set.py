"""The policies of all namespaces as one immutable value, and which of them a namespace gets.

For a namespace, an exact name beats a longer glob, a longer glob beats a shorter one, and any of them beats the
default. The length of a glob is the number of its characters, wildcards included. The loader refuses two files that
could claim a namespace at the same rank, so the order of files never decides.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob, matcher
from webhook.model.node import NodePool
from webhook.policy.bound_quotas import NO_POTS, BoundQuota, Pots, pot_finder
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables
from webhook.policy.schema import CUDA_KIND, DEFAULT_FILE, WorkloadsMode
from webhook.quota.quotas import QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule import Rule, Stage
from webhook.rules.rule_settings import Mode, RuleSettings

REMEMBERED = 10_000
"""Namespaces whose policy and quotas are remembered after their globs were resolved once."""


def content_hash(content: object) -> str:
    """Hex SHA-256 of a JSON value, independent of the order of map keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with its settings in one policy. `origin` is the file that had the last word on it, `line` where in it,
    from 1; 0 where that is not known.
    """

    rule: Rule
    mode: Mode
    settings: RuleSettings
    origin: str
    line: int = field(default=0, compare=False)
    contact: str = ""
    """Whom messages send people to; empty where the policy names nobody."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds in a namespace: the rules that are not disabled, in the order of the list of rules.

    `files` are the names of the files that contributed, the default first; `hash` is of the merged content.
    `pools_origin` is the file that declares the node pools, `workloads_origin` the one with the mode for workloads;
    empty where none does.
    """

    name: str
    files: tuple[str, ...]
    hash: str
    rules: tuple[BoundRule, ...]
    node_pools: tuple[NodePool, ...] = ()
    pools_origin: str = ""
    workloads: WorkloadsMode = WorkloadsMode.WARN
    """What becomes of a workload whose pods would be refused."""
    workloads_origin: str = ""
    accelerators: Accelerators = BUILT_IN
    """Which resource names are GPUs, the same in every policy of a set."""
    contact: str = ""
    """Whom messages send people to; empty where no file names anybody."""
    mutators: tuple[tuple[BoundRule, ...], ...] = field(init=False)
    """The rules that mutate, one tuple for each stage, in the order of stages. Those are left out that never do under
    their settings."""
    injectors: tuple[BoundRule, ...] = field(init=False)
    """Those of them that inject what they yield."""
    is_injecting: bool = field(init=False)
    """Whether any rule is enforced that mutates, and be it one that never does under its settings."""
    validators: tuple[BoundRule, ...] = field(init=False)
    """The rules that validate, but for those that never object to anything under their settings."""
    anticipators: tuple[BoundRule, ...] = field(init=False)
    """Those of them that know what API validation refuses."""
    contradicted: tuple[BoundRule, ...] = field(init=False)
    """Those of them that are enforced and object to what an author says against what they would inject."""
    labels: frozenset[str] = field(init=False)
    """The labels that rules tell pods by."""

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
        labels = frozenset(label for bound in self.rules for label in bound.rule.labels(bound.settings))
        object.__setattr__(self, "labels", labels)

    def quota_of(self, namespace: str) -> BoundQuota | None:
        """The quota that one of its namespaces has for itself; None where nothing limits it."""
        for bound in self.rules:
            if isinstance(bound.settings, gpu_quota.Settings) and bound.settings.limits:
                return BoundQuota.of(
                    QuotaScope.NAMESPACE, namespace, (namespace,), bound.settings, bound.origin, bound.line
                )
        return None

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash, enough to tell policies apart by eye."""
        return self.hash[:12]


NO_POLICY = Policy(DEFAULT_FILE.removesuffix(".yaml"), (), content_hash({}), ())
"""What holds where no file says anything: no rules."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicySet:
    """All policies of all namespaces; `hash` is the hex SHA-256 of everything in them that can change a verdict."""

    default: Policy
    """What holds where no other policy does; without rules where there is no default file."""
    has_default: bool
    policies: tuple[Policy, ...]
    """Every policy once: the default, then the others by name."""
    notices: tuple[str, ...]
    """What people should know although nothing is wrong."""
    pots: tuple[BoundQuota, ...]
    """The quotas that namespaces share, by name; disabled ones are left out."""
    claims: Mapping[str, Policy]
    """The policy of each name and glob of namespaces that a file has."""
    names: tuple[str, ...]
    """The namespaces that files name, not by a glob."""
    cuda: PlatformTables
    """The tables by which images are judged in all namespaces."""
    hash: str
    _policy: Callable[[str], Policy]
    _quotas: Callable[[str], tuple[BoundQuota, ...]]

    @classmethod
    def of(
        cls,
        default: Policy | None,
        claims: Mapping[str, Policy],
        notices: Sequence[str] = (),
        pots: Pots = NO_POTS,
        cuda: PlatformTables = SHIPPED_ONLY,
    ) -> "PolicySet":
        """The set in which each name or glob in `claims` leads to a policy, and every other namespace to `default`."""
        fallback = default or NO_POLICY
        named = {policy.name: policy for policy in claims.values()}
        content = [default is not None, fallback.hash, {key: [p.name, p.hash] for key, p in claims.items()}]
        content += pots.written
        content += [{CUDA_KIND: cuda.written}] if cuda.written else []
        find = _finder(claims, fallback)
        return cls(
            default=fallback,
            has_default=default is not None,
            policies=(fallback, *(named[name] for name in sorted(named))),
            notices=tuple(notices),
            pots=pots.quotas,
            claims=dict(claims),
            names=tuple(sorted(pattern for pattern in claims if not is_glob(pattern))),
            cuda=cuda,
            hash=content_hash(content),
            _policy=find,
            _quotas=_quota_finder(find, pots.quotas),
        )

    def for_namespace(self, name: str) -> Policy:
        """The policy of a namespace: one look-up, however many policies there are, once its globs were resolved.

        What is in no namespace, whose name is empty, has the default.
        """
        return self._policy(name)

    def quotas_for(self, namespace: str) -> tuple[BoundQuota, ...]:
        """What limits a namespace: its own quota, then the pots it is in, by name; one look-up like that of its policy.

        Quotas without a limit and disabled ones are left out. What is in no namespace is in no quota.
        """
        return self._quotas(namespace)

    @property
    def accelerators(self) -> Accelerators:
        """Which resource names are GPUs."""
        return self.default.accelerators

    @property
    def has_quotas(self) -> bool:
        """Whether anything is limited in any namespace."""
        return bool(self.pots) or any(policy.quota_of("") is not None for policy in self.policies)

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash."""
        return self.hash[:12]


def _finder(claims: Mapping[str, Policy], fallback: Policy) -> Callable[[str], Policy]:
    """What finds the policy of a namespace: by its name, or by the first glob that matches, which it remembers."""
    exact = {pattern: policy for pattern, policy in claims.items() if not is_glob(pattern)}
    ranked = sorted((pattern for pattern in claims if is_glob(pattern)), key=lambda glob: (-len(glob), glob))
    globs = tuple((matcher(glob), claims[glob]) for glob in ranked)

    @lru_cache(maxsize=REMEMBERED)
    def resolve(name: str) -> Policy:
        return next((policy for glob, policy in globs if name and glob.fullmatch(name)), fallback)

    return lambda name: exact.get(name) or resolve(name)


def _quota_finder(
    policy_of: Callable[[str], Policy], pots: tuple[BoundQuota, ...]
) -> Callable[[str], tuple[BoundQuota, ...]]:
    """What finds the quotas of a namespace, and remembers them."""
    pots_of = pot_finder(pots)

    @lru_cache(maxsize=REMEMBERED)
    def resolve(namespace: str) -> tuple[BoundQuota, ...]:
        if not namespace:
            return ()
        own = policy_of(namespace).quota_of(namespace)
        shared = pots_of(namespace)
        return shared if own is None else (own, *shared)

    return resolve

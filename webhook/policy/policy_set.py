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

from webhook.policy.globs import is_glob, matcher
from webhook.policy.schema import DEFAULT_FILE
from webhook.rules.rule import Mode, Rule, RuleSettings, Stage

REMEMBERED = 10_000
"""Namespaces whose policy is remembered after their globs were resolved once."""


def content_hash(content: object) -> str:
    """Hex SHA-256 of a JSON value, independent of the order of map keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with its settings in one policy. `origin` is the file that had the last word on it."""

    rule: Rule
    mode: Mode
    settings: RuleSettings
    origin: str


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds in a namespace: the rules that are not disabled, in the order of the list of rules.

    `files` are the names of the files that contributed, the default first; `hash` is of the merged content.
    """

    name: str
    files: tuple[str, ...]
    hash: str
    rules: tuple[BoundRule, ...]
    mutators: tuple[tuple[BoundRule, ...], ...] = field(init=False)
    """The rules that mutate, one tuple for each stage, in the order of stages."""
    validators: tuple[BoundRule, ...] = field(init=False)
    """The rules that validate."""

    def __post_init__(self) -> None:
        stages = tuple(
            tuple(bound for bound in self.rules if bound.rule.mutate is not None and bound.rule.stage is stage)
            for stage in Stage
        )
        object.__setattr__(self, "mutators", stages)
        object.__setattr__(self, "validators", tuple(bound for bound in self.rules if bound.rule.validate is not None))

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash, enough to tell policies apart by eye."""
        return self.hash[:12]


NO_POLICY = Policy(DEFAULT_FILE.removesuffix(".yaml"), (), content_hash({}), ())
"""What holds where no file says anything: no rules."""


class PolicySet:
    """All policies, immutable. `claims` gives, for each pattern of namespaces, the policy that it leads to."""

    __slots__ = ("_exact", "_globs", "_resolve", "default", "has_default", "hash", "notices", "policies")

    def __init__(self, default: Policy | None, claims: Mapping[str, Policy], notices: Sequence[str] = ()) -> None:
        self.default: Policy = default or NO_POLICY
        self.has_default: bool = default is not None
        self.notices: tuple[str, ...] = tuple(notices)
        """What people should know although nothing is wrong."""
        named = {policy.name: policy for policy in claims.values()}
        self.policies: tuple[Policy, ...] = (self.default, *(named[name] for name in sorted(named)))
        """Every policy once: the default, then the others by name."""
        content = [self.has_default, self.default.hash, {key: [p.name, p.hash] for key, p in claims.items()}]
        self.hash: str = content_hash(content)
        """Hex SHA-256 of everything that can change a verdict."""
        globs = sorted((pattern for pattern in claims if is_glob(pattern)), key=lambda glob: (-len(glob), glob))
        self._globs = tuple((matcher(glob), claims[glob]) for glob in globs)
        self._exact = {pattern: policy for pattern, policy in claims.items() if not is_glob(pattern)}
        self._resolve: Callable[[str], Policy] = lru_cache(maxsize=REMEMBERED)(self._first_match)

    def for_namespace(self, name: str) -> Policy:
        """The policy of a namespace: one look-up, however many policies there are, once its globs were resolved."""
        return self._exact.get(name) or (self._resolve(name) if self._globs else self.default)

    @property
    def short_hash(self) -> str:
        """The first 12 characters of the hash."""
        return self.hash[:12]

    def _first_match(self, name: str) -> Policy:
        return next((policy for pattern, policy in self._globs if pattern.fullmatch(name)), self.default)

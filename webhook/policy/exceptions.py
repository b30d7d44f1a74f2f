"""Exceptions as values: which pods they are about, and which of them hold for a pod at a moment.

Of several exceptions about one rule, the first in the file that holds for the pod holds alone.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any

from webhook.model.accelerators import BUILT_IN, GPU_ATTRIBUTES, Accelerators
from webhook.model.globs import is_glob, matcher
from webhook.model.image import parse_reference
from webhook.model.pod import Container
from webhook.model.shape import FormatError
from webhook.model.subject import CLAIMS, PodSubject
from webhook.policy.exception_times import Period
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.file_errors import KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

REMEMBERED = 10_000
"""Namespaces with answers that are remembered, because comparing a name with all globs takes time."""
_NO_DEVICES: frozenset[str] = frozenset()
_DRIVER_RULE = "cudaDriver"


class Patterns:
    """Names and globs that are compared with many texts. Globs are read once, because texts come from tenants.

    In globs `in_parts`, of images, `**` alone takes slashes.
    """

    __slots__ = ("_exact", "_globs", "_is_empty")

    def __init__(self, patterns: Sequence[str], *, in_parts: bool = False) -> None:
        self._exact = frozenset(pattern for pattern in patterns if not is_glob(pattern))
        self._globs = tuple(matcher(glob, in_parts=in_parts).fullmatch for glob in patterns if is_glob(glob))
        self._is_empty = not patterns

    def match(self, texts: Sequence[str], *whole: str) -> bool:
        """Whether one of the texts has one of the patterns, if there are any. Globs are not compared with `whole`."""
        if self._is_empty or not self._exact.isdisjoint((*texts, *whole)):
            return True
        return any(matches(text) for matches in self._globs for text in texts)


@dataclass(frozen=True, slots=True)
class Match:
    """What has to hold of a pod; an empty part always holds. `names` and `kinds` hold of one object: the pod, or a
    workload that makes it. `containers` and `images` hold of one container.
    """

    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    _patterns: Mapping[str, Patterns] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        lists = {"kinds": self.kinds, "names": self.names, "containers": self.containers}
        patterns = {key: Patterns(one) for key, one in lists.items()}
        object.__setattr__(self, "_patterns", {**patterns, "images": Patterns(self.images, in_parts=True)})

    def holds(self, subject: PodSubject) -> bool:
        """Whether it holds for a pod, or for some of its containers."""
        if any(subject.labels.get(key) != value for key, value in self.labels.items()):
            return False
        names, kinds = self._patterns["names"], self._patterns["kinds"]
        if not any(names.match((name,)) and kinds.match((kind,)) for kind, name in subject.members):
            return False
        return not self.is_about_containers or any(self.is_about(*one) for one in subject.containers)

    @property
    def is_about_containers(self) -> bool:
        return bool(self.containers or self.images)

    def is_about(self, name: str, image: str) -> bool:
        images, names = self._patterns["images"], self._patterns["containers"]
        return images.match(*image_texts(image)) and names.match((name,))

    def is_about_all_of(self, subject: PodSubject, accelerators: Accelerators) -> bool:
        """Whether a pod for which it holds is meant as a whole: all of its containers with GPUs, by resources or by
        claims; all of its containers if none has GPUs.
        """
        if not self.is_about_containers:
            return True

        def is_gpu(device: str) -> bool:  # another webhook may turn attributes of GPUs into a GPU
            return device == CLAIMS or device in GPU_ATTRIBUTES or accelerators.of(device) is not None

        devices = (*subject.devices, *repeat(_NO_DEVICES, len(subject.containers) - len(subject.devices)))
        pairs = zip(subject.containers, devices, strict=True)
        using = [one for one, names in pairs if any(is_gpu(name) or accelerators.may_be_gpus(name) for name in names)]
        return all(self.is_about(*one) for one in using or subject.containers)


def image_texts(image: str) -> tuple[tuple[str, ...], str]:
    """The texts of an image that patterns are compared with, as written and in full, and one for exact patterns alone.
    That is the digest, or else what is no reference: it may have any length.

    >>> image_texts("nginx")
    (('nginx', 'docker.io/library/nginx:latest'), '')
    """
    try:
        reference = parse_reference(image)
    except FormatError:
        return (), image
    return (image, str(reference)), reference.digest


@dataclass(frozen=True, slots=True)
class PolicyException:
    """An exception as the file has it. `rules` are the rules that it excepts from; `settings` are by rule, as written.

    `node` is the exception in the file, and `key` its place.
    """

    name: str
    namespaces: tuple[str, ...]
    match: Match
    rules: tuple[str, ...]
    mode: Mode
    settings: Mapping[str, Mapping[str, Any]] = field(hash=False)
    period: Period
    reason: str
    ticket: str
    owner: str
    node: YamlNode = field(compare=False, repr=False)
    key: KeyPath = field(compare=False, repr=False)

    @property
    def concerned(self) -> tuple[str, ...]:
        return (*self.rules, *self.settings)


@dataclass(frozen=True, slots=True)
class AppliedException:
    """An exception that holds for a pod: for which `rules` it is the one that counts, and until when.

    If it is not about the pod as a whole (`is_whole`), it covers findings about the containers that it means, alone.
    """

    exception: PolicyException
    rules: tuple[str, ...]
    until: str
    is_whole: bool = True

    def covers(self, container: Container | None) -> bool:
        """Whether it is about a container of the pod; None asks about the pod as a whole."""
        if container is None:
            return self.is_whole
        match = self.exception.match
        return not match.is_about_containers or match.is_about(container.name, container.image)

    @property
    def name(self) -> str:
        return self.exception.name

    def told(self, what: str = "admitted") -> str:
        """What messages say of it.

        `admitted until 2026-12-01 by exception bert-legacy, OPS-123`
        """
        ticket = f", {self.exception.ticket}" if self.exception.ticket else ""
        return f"{what} until {self.until} by exception {self.name}{ticket}"


@dataclass(frozen=True, eq=False)
class PolicyExceptions:
    """The exceptions of a set of policies, in the order of the file.

    `settings` has the settings of rules under exceptions, by the names of policy and exception and the key of the rule.
    """

    all: tuple[PolicyException, ...] = ()
    settings: Mapping[tuple[str, str, str], RuleSettings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", lru_cache(maxsize=REMEMBERED)(self.of))

    def of(self, namespace: str) -> tuple[PolicyException, ...]:
        """The exceptions for a namespace, at whatever time; none for an object without a namespace."""
        return tuple(one for one in self.all if namespace and Patterns(one.namespaces).match((namespace,)))

    def may_hold(self, namespace: str, rules: Set[str], now: float) -> bool:
        """Whether an exception about one of these rules is in force in a namespace, for whatever pods."""
        return any(not rules.isdisjoint(one.concerned) and one.period.until(now) for one in self.of(namespace))

    def applied(
        self, namespace: str, subject: PodSubject, now: float, accelerators: Accelerators = BUILT_IN
    ) -> tuple[AppliedException, ...]:
        """The exceptions that hold for a pod at a moment, in seconds since 1970. `accelerators` says what GPUs are."""
        taken: set[str] = set()
        applied = []
        for one in self.of(namespace):
            rules = tuple(rule for rule in one.concerned if rule not in taken)
            if rules and (until := one.period.until(now)) and one.match.holds(subject):
                taken.update(rules)
                is_whole = one.match.is_about_all_of(subject, accelerators)
                applied.append(AppliedException(one, rules, until, is_whole))
        return tuple(applied)

    def for_driver(self, kind: str, subject: PodSubject, now: float) -> AppliedException | None:
        """The exception for an object that changes the driver of nodes, at a moment: one that names its kind, and
        cudaDriver among its rules, whatever its namespaces.
        """
        for one in self.all:
            is_named = kind in one.match.kinds and _DRIVER_RULE in one.rules and one.match.holds(subject)
            if is_named and (until := one.period.until(now)):
                return AppliedException(one, (_DRIVER_RULE,), until)
        return None


NO_EXCEPTIONS = PolicyExceptions()
"""A set of policies without exceptions."""

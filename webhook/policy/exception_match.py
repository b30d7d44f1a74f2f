"""Which pods an exception is about, and which of two exceptions is more specific.

The rank of a match is compared part by part: the namespace, the number of keys that are written, names, images,
containers, kinds, labels. In each of these an exact text comes before a glob, and a longer glob before a shorter one,
where `**` counts as one character less than `*`.
Ranks depend on what was matched: a list has the rank of its most specific entry that holds.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from webhook.model.accelerators import GPU_ATTRIBUTES, Accelerators
from webhook.model.globs import glob_tester, is_glob, matcher, overlap
from webhook.model.image import parse_reference
from webhook.model.shape import FormatError
from webhook.model.subject import CLAIMS, PodSubject
from webhook.policy import namespaces

Rank = tuple[tuple[int, int], ...]
"""The greater, the more specific."""

_NO_KEY = (0, 0)
_EXACT = (2, 0)
_RUN = re.compile(r"\*\*+")
_NO_DEVICES: frozenset[str] = frozenset()


def pattern_rank(pattern: str) -> tuple[int, int]:
    """The rank of one name or glob: exact texts first, then globs by their length."""
    return (1, 1 + len(_RUN.sub("", pattern))) if is_glob(pattern) else _EXACT


class RankedPatterns:
    """Names and globs that are compared with many texts. Globs are read once, because texts come from tenants.

    In globs `in_parts`, of images, `**` alone takes slashes.
    """

    __slots__ = ("_exact", "_globs", "_is_empty")

    def __init__(self, patterns: Sequence[str], *, in_parts: bool = False) -> None:
        globs = sorted(filter(is_glob, patterns), key=pattern_rank, reverse=True)
        self._exact = frozenset(pattern for pattern in patterns if not is_glob(pattern))
        self._globs = tuple((pattern_rank(glob), glob_tester(glob, in_parts=in_parts)) for glob in globs)
        self._is_empty = not patterns

    def rank(self, texts: Sequence[str], *whole: str) -> tuple[int, int] | None:
        """The rank of the most specific pattern that one of the texts has; None for none. No pattern is any text.

        Globs are not compared with the `whole` texts.
        """
        if self._is_empty:
            return _NO_KEY
        if not self._exact.isdisjoint((*texts, *whole)):
            return _EXACT
        return next((rank for rank, matches in self._globs if any(map(matches, texts))), None)


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
    _ranked: Mapping[str, RankedPatterns] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        lists = {"kinds": self.kinds, "names": self.names, "containers": self.containers}
        ranked = {key: RankedPatterns(one) for key, one in lists.items()}
        object.__setattr__(self, "_ranked", {**ranked, "images": RankedPatterns(self.images, in_parts=True)})

    def rank(self, subject: PodSubject) -> Rank | None:
        """How specific the match is for a pod; None if it does not hold."""
        if any(subject.labels.get(key) != value for key, value in self.labels.items()):
            return None
        called = max(self._members(subject), default=None)
        held = max(self._containers(subject.containers), default=None)
        if called is None or held is None:
            return None
        count = sum(map(bool, (self.kinds, self.names, self.labels, self.containers, self.images)))
        return ((count, 0), called[0], *held, called[1], (len(self.labels), 0))

    def _members(self, subject: PodSubject) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The ranks of name and kind, for each object that has both."""
        names, kinds = self._ranked["names"], self._ranked["kinds"]
        for kind, name in subject.members:
            of_name, of_kind = names.rank((name,)), kinds.rank((kind,))
            if of_name is not None and of_kind is not None:
                yield of_name, of_kind

    def _containers(self, containers: Iterable[tuple[str, str]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The ranks of image and name, for each container that has both."""
        if not self.is_about_containers:
            yield _NO_KEY, _NO_KEY
            return
        images, names = self._ranked["images"], self._ranked["containers"]
        for name, image in containers:
            of_image, of_name = images.rank(*image_texts(image)), names.rank((name,))
            if of_image is not None and of_name is not None:
                yield of_image, of_name

    @property
    def is_about_containers(self) -> bool:
        """Whether it says which containers are meant."""
        return bool(self.containers or self.images)

    def is_about(self, name: str, image: str) -> bool:
        """Whether this container is meant."""
        return any(self._containers([(name, image)]))

    def is_about_all_of(self, subject: PodSubject, accelerators: Accelerators) -> bool:
        """Whether a pod for which it holds is meant as a whole: all of its containers with GPUs, by resources or by
        claims; all of its containers if none has GPUs.
        """
        if not self.is_about_containers:
            return True
        devices = (*subject.devices, *repeat(_NO_DEVICES, len(subject.containers) - len(subject.devices)))
        pairs = zip(subject.containers, devices, strict=True)
        using = [one for one, names in pairs if any(_is_gpu(name, accelerators) for name in names)]
        return all(self.is_about(*one) for one in using or subject.containers)

    def may_tie(self, other: "Match") -> bool:
        """Whether both may hold of one pod with the same rank. If that is not certain either way, they may."""
        if any(other.labels.get(key, value) != value for key, value in self.labels.items()):
            return False
        if len(self.labels) != len(other.labels):
            return False
        pairs = ((self.kinds, other.kinds), (self.names, other.names), (self.containers, other.containers))
        return all(_may_tie(*pair) for pair in pairs) and _may_tie(self.images, other.images, in_parts=True)


def _is_gpu(device: str, accelerators: Accelerators) -> bool:
    """Whether a resource is a GPU, or may be one. Another webhook may turn attributes of GPUs into a GPU."""
    is_known = device == CLAIMS or device in GPU_ATTRIBUTES or accelerators.of(device) is not None
    return is_known or accelerators.may_be_gpus(device)


def _may_tie(one: Sequence[str], other: Sequence[str], *, in_parts: bool = False) -> bool:
    if not (one and other):
        return not one and not other
    return any(pattern_rank(a) == pattern_rank(b) and overlap(a, b, in_parts=in_parts) for a in one for b in other)


def image_texts(image: str) -> tuple[tuple[str, ...], str]:
    """The texts of an image that globs are compared with, as written and in full, and one for exact patterns alone: its
    digest, or what is no reference, and so has any length.

    >>> image_texts("nginx")
    (('nginx', 'docker.io/library/nginx:latest'), '')
    """
    try:
        reference = parse_reference(image)
    except FormatError:
        return (), image
    return (image, str(reference)), reference.digest


def namespace_rank(patterns: Sequence[str], namespace: str) -> tuple[int, int] | None:
    """The rank of the most specific pattern for a namespace; None if none holds. No pattern is about an empty name."""
    return RankedPatterns(patterns).rank((namespace,)) if namespace else None


def shared_namespaces(one: Sequence[str], other: Sequence[str]) -> str:
    """The namespaces, in words, for which both lists of patterns may hold at the same rank; empty if surely none.

    Two globs of one length have a tie in every namespace that both match, except where a pattern of a higher rank holds
    as well. Only a pattern that holds for all of these namespaces is sure to decide.
    """
    for a in one:
        for b in other:
            if pattern_rank(a) != pattern_rank(b):
                continue
            is_shared = a == b or (is_glob(a) and namespaces.overlap(a, b) is not None)
            if is_shared and not any(_decides(closer, a, b) for closer in (*one, *other)):
                return f"namespace {a}" if not is_glob(a) else f"a namespace of {a}" + (f" and {b}" if a != b else "")
    return ""


def _decides(closer: str, a: str, b: str) -> bool:
    """Whether a pattern ranks before two others and holds wherever both of these do."""
    return pattern_rank(closer) > pattern_rank(a) and (holds_for_all(closer, a) or holds_for_all(closer, b))


def may_hold_for(patterns: Sequence[str], claim: str) -> bool:
    """Whether a namespace that has the name, or matches the glob, may be among those that the patterns name."""
    for pattern in patterns:
        if not is_glob(claim):
            if matcher(pattern).fullmatch(claim) or pattern == claim:
                return True
        elif not is_glob(pattern):
            if matcher(claim).fullmatch(pattern):
                return True
        elif namespaces.overlap(pattern, claim) is not None:
            return True
    return False


def holds_for_all(claim: str, pattern: str) -> bool:
    """Whether it is certain that a claim of namespaces holds for each one that a name or glob means.

    >>> holds_for_all("team-*", "team-?*"), holds_for_all("team-?", "team-*")
    (True, False)

    A star of the claim may stand for anything, a `?` for any one character, so for no star.
    """
    if claim == pattern or not is_glob(claim):
        return claim == pattern
    pieces = [".*" if character == "*" else "[^*]" if character == "?" else re.escape(character) for character in claim]
    return re.fullmatch("".join(pieces), pattern) is not None

"""Which pods an exception is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from webhook.model.accelerators import GPU_ATTRIBUTES, Accelerators
from webhook.model.globs import glob_tester, is_glob
from webhook.model.image import parse_reference
from webhook.model.shape import FormatError
from webhook.model.subject import CLAIMS, PodSubject

_NO_DEVICES: frozenset[str] = frozenset()


class Patterns:
    """Names and globs that are compared with many texts. Globs are read once, because texts come from tenants.

    In globs `in_parts`, of images, `**` alone takes slashes.
    """

    __slots__ = ("_exact", "_globs", "_is_empty")

    def __init__(self, patterns: Sequence[str], *, in_parts: bool = False) -> None:
        self._exact = frozenset(pattern for pattern in patterns if not is_glob(pattern))
        self._globs = tuple(glob_tester(glob, in_parts=in_parts) for glob in patterns if is_glob(glob))
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
        """Whether it says which containers are meant."""
        return bool(self.containers or self.images)

    def is_about(self, name: str, image: str) -> bool:
        """Whether this container is meant."""
        images, names = self._patterns["images"], self._patterns["containers"]
        return images.match(*image_texts(image)) and names.match((name,))

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


def _is_gpu(device: str, accelerators: Accelerators) -> bool:
    """Whether a resource is a GPU, or may be one. Another webhook may turn attributes of GPUs into a GPU."""
    is_known = device == CLAIMS or device in GPU_ATTRIBUTES or accelerators.of(device) is not None
    return is_known or accelerators.may_be_gpus(device)


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

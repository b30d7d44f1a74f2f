"""GPU containers run a chosen version of their image, from a registry that the platform trusts.

The tag `latest`, which also applies where no tag is written, stands for whatever was pushed last. A digest names one
image for ever; a tag beside it means nothing. A name that is not valid is refused only if `registries` is set; the
kubelet refuses it otherwise.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from webhook.model.globs import is_glob, matcher
from webhook.model.image import ImageReference, parse_reference
from webhook.model.pod import Container, Pod
from webhook.model.shape import FormatError, spelled
from webhook.rules.rule import Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import RuleSettings

_HOST = re.compile(r"([a-z0-9.*?-]+|\[[0-9a-f:.]+\])(:[0-9*?]{1,5})?", re.ASCII)
_PATH = re.compile(r"[a-z0-9._*?-]+(/[a-z0-9._*?-]+)*", re.ASCII)
_DOCKER_HUB = frozenset({"hub.docker.com", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
"""Hosts of Docker Hub. Its images are called docker.io/library/python and the like, whatever the host."""


def _registry(glob: str) -> str:
    """Check a glob of registries or repositories. A glob that matches no image would refuse every image."""
    host, slash, path = glob.partition("/")
    fault = _fault(host, slash, path)
    if fault:
        raise ValueError(f"{spelled(glob)} {fault}")
    if not _HOST.fullmatch(host) or (slash and not _PATH.fullmatch(path)):
        raise ValueError(
            f"{spelled(glob)} is no registry or repository; write one such as nvcr.io or registry.example.com/team, "
            "in lower case, where * is any text and ? one character"
        )
    return glob


def _fault(host: str, slash: str, path: str) -> str:
    """A common mistake in a glob, and what to write instead; empty if there is none."""
    if host.endswith(":") and path.startswith("/"):
        return f"is a URL; write the host without {host}//"
    if ":" in path or "@" in path:
        return "has a tag or a digest; write the registry or repository alone"
    if host in _DOCKER_HUB:
        return "is another name of Docker Hub; write docker.io"
    if host and not (is_glob(host) or set(".:") & set(host) or host == "localhost"):
        return "names no registry; one of Docker Hub starts with docker.io/"
    if host and (slash + path).endswith("/"):
        return "ends with a slash; leave it out"
    return ""


class Settings(RuleSettings):
    """Settings of `imagePinning`."""

    require: Literal["tag", "digest"] = "tag"
    """What the image of a GPU container needs: `tag`, which is another tag than `latest` or a digest, or `digest`."""
    registries: tuple[Annotated[str, Field(max_length=255), AfterValidator(_registry)], ...] = ()
    """Where images of GPU containers may come from: globs of registries such as `*.example.com`, or of repositories
    such as `registry.example.com/team`, with all below them. Docker Hub's own are `docker.io/library/python` and the
    like. Empty: from anywhere."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse images of GPU containers whose name may mean another image later, or whose registry is not allowed."""
    for container in pod.lasting_containers():
        if not container.gpu_count or not container.image:
            continue
        try:
            reference = parse_reference(container.image)
        except FormatError:
            if settings.registries:
                found = f"{spelled(container.image)} is not an image reference, so it is from no registry"
                yield _elsewhere(container, found, settings, "Write registry/repository:tag")
            continue
        if not reference.digest:
            yield from _unpinned(container, reference, settings)
        if settings.registries and not any(_covers(glob, reference) for glob in settings.registries):
            found = f"{spelled(container.image)} comes from {reference.registry}"
            yield _elsewhere(container, found, settings, "Use a copy there, or ask the platform team to allow it")


def _unpinned(container: Container, reference: ImageReference, settings: Settings) -> Iterator[Violation]:
    where, image = f"{container.path}.image", spelled(container.image)
    if settings.require == "digest":
        allowed = "the policy wants one, because a tag can be moved to another image"
        yield Violation(where, f"{image} has no digest", allowed, "Append @sha256: and the digest of the image")
    elif reference.tag == "latest":
        is_written = container.image.endswith(":latest")
        found = f"{image} has the tag latest" if is_written else f"{image} has no tag, which means latest"
        yield Violation(
            where, found, "which image that is changes with every push", "Write the tag of a version, or a digest"
        )


def _elsewhere(container: Container, found: str, settings: Settings, remedy: str) -> Violation:
    shown, rest = settings.registries[:3], len(settings.registries) - 3
    allowed = ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
    return Violation(f"{container.path}.image", found, f"the policy allows {allowed}", remedy)


def _covers(glob: str, reference: ImageReference) -> bool:
    """Whether an image is in a registry or repository, or below it. A star in the host matches no part of the path."""
    host, slash, path = glob.partition("/")
    if not matcher(host).fullmatch(reference.registry):
        return False
    repository = reference.repository
    return not slash or any(matcher(pattern).fullmatch(repository) for pattern in (path, f"{path}/*"))


RULE = Rule(
    key="imagePinning",
    promise="GPU containers say which version of their image they run.",
    problem="A job that ran yesterday fails today, because another image was pushed under the same tag.",
    example=Example(training_pod(image="pytorch/pytorch"), {"registries": ["nvcr.io", "registry.example.com/team"]}),
    settings=Settings,
    validate=validate,
)

"""What an image needs, by the strongest evidence.

From strong to weak, the evidence is: the policy and the platform's table, the container's environment, the pod's
annotation, the image's configuration in its registry, and the tables of image names. Each answer names its evidence.
Tenants choose names, variables and annotations, so none of them raises. A false claim harms only the pod that makes it.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from webhook.cuda import environment, families
from webhook.cuda.cuda_tables import PLATFORM_FILE, SHIPPED, CudaTables, PlatformImage
from webhook.cuda.environment import Pairs
from webhook.cuda.forward_compat import Base
from webhook.cuda.image_reading import Reading
from webhook.cuda.libcuda import PATH, Start, libcuda_of
from webhook.cuda.need import BuiltFor, Compat, ImageEnv, Need
from webhook.model.globs import closest
from webhook.model.image import NOT_LOOKED_UP, ImageInfo, ImageReference, parse_reference
from webhook.model.shape import FormatError
from webhook.model.versions import Version

_NO_CUDA = "none"
"""Value in a policy or an annotation for an image without CUDA."""
_LONGEST_IMAGE = 1024
"""Most characters of an image that is compared with the globs of policies and platforms."""
_LONGEST_KEY = 5120
"""Most characters of a question whose answer is kept. With `_ANSWERS`, this bounds the memory that tenants can use."""
_ANSWERS = 2048

_NOTHING_KNOWN = Reading(BuiltFor.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ImageContext:
    """What is known about an image besides its name.

    `mapping` has the policy's globs of images, each with a CUDA version or `none`. `env` has the container's variables
    in order; None stands for a value from another source, such as a Secret. `annotation` is what the pod says about
    this container.
    """

    mapping: tuple[tuple[str, str], ...] = ()
    env: Pairs = ()
    annotation: str | None = None
    info: ImageInfo = field(default=NOT_LOOKED_UP)
    tables: CudaTables = SHIPPED
    start: Start = Start.ENTRY_POINT


class _Config(NamedTuple):
    """An image's configuration, hashable."""

    env: tuple[tuple[str, str], ...]
    architectures: tuple[str, ...]


class _Question(NamedTuple):
    """Everything that an answer depends on."""

    image: str
    mapping: tuple[tuple[str, str], ...]
    env: Pairs
    annotation: str | None
    start: Start
    config: _Config | None
    is_pending: bool
    problem: str
    tables: CudaTables


class _Answer(NamedTuple):
    """The answer of one piece of evidence."""

    kind: BuiltFor
    cuda: Version | None
    evidence: str
    is_verified: bool = True


def need_of(image: str, context: ImageContext) -> Need:
    """What `image` needs, as far as that is known. Never raises, whatever tenants write.

    >>> need = need_of("registry.corp/mirror/nvidia/cuda:12.4.1-base-ubuntu22.04", ImageContext())
    >>> str(need.cuda), need.evidence
    ('12.4.1', 'tag 12.4.1-base-ubuntu22.04 of mirror/nvidia/cuda')
    """
    env = environment.cuda_variables(context.env)
    info = context.info
    found = info.config
    config = None if found is None else _Config(tuple(found.env.items()), found.architectures)
    question = _Question(
        image,
        context.mapping,
        env,
        context.annotation,
        context.start,
        config,
        info.is_pending,
        info.problem,
        context.tables,
    )
    size = len(image) + len(context.annotation or "") + sum([len(name) + len(value or "") for name, value in env])
    return _answered(question) if size <= _LONGEST_KEY else _answer(question)


def _answer(question: _Question) -> Need:
    notes: list[str] = []
    reference = _reference(question.image, notes)
    reading = families.look_up(reference, question.tables) if reference is not None else _NOTHING_KNOWN
    image_env = {} if question.config is None else dict(question.config.env)
    said = _of_platform(question, reference)
    stronger = (
        _mapped(question, reference, notes)
        or (_of_row(said) if said is not None else None)
        or _container(question, notes)
        or _annotated(question, notes)
    )
    if stronger is None and question.is_pending and question.config is None:
        return Need(BuiltFor.UNKNOWN, None, "none", notes=tuple(notes), is_pending=True)
    if question.problem:
        notes.append(f"the look-up in its registry failed: {question.problem}")
    answer = stronger or (None if reading.outweighs_configuration else _configured(image_env, notes))
    if answer is None:
        answer = _Answer(reading.kind, reading.cuda, reading.evidence, reading.is_verified)
        notes.extend(reading.notes)
    need = _detailed(answer, question, image_env, reading, tuple(notes))
    if reference is not None and need.kind is BuiltFor.CUDA:
        own = libcuda_of(
            (reference.repository, reference.tag.lower()),
            need.cuda,
            path=image_env.get(PATH),
            env=dict(question.env),
            start=question.start,
            is_checked=reading.base is Base.NGC or "_CUDA_COMPAT_PATH" in image_env,
        )
        need = replace(need, libcuda=own)
    return (
        need if said is None else replace(need, compat=said.compat or need.compat, kernels=said.kernels or need.kernels)
    )


_answered = lru_cache(maxsize=_ANSWERS)(_answer)


def _reference(image: str, notes: list[str]) -> ImageReference | None:
    try:
        return parse_reference(image)
    except FormatError as error:
        notes.append(str(error))
        return None


def _mapped(question: _Question, reference: ImageReference | None, notes: list[str]) -> _Answer | None:
    """What the policy says about the image. A glob may match any of its names."""
    if not question.mapping or len(question.image) > _LONGEST_IMAGE:
        return None
    texts = _names(question.image, reference)
    mapping = dict(question.mapping)
    globs = [glob for text in texts if (glob := closest(mapping, text)) is not None]
    if not globs:
        return None
    glob = min(globs, key=lambda glob: (glob not in texts, -len(glob), glob))
    return _said(mapping[glob], f"policy images: {glob}", notes)


def _names(image: str, reference: ImageReference | None) -> set[str]:
    """The names of an image: as it is written, with and without registry, tag and digest."""
    names = {image}
    if reference is not None:
        for name in (f"{reference.registry}/{reference.repository}", reference.familiar):
            names |= {name, f"{name}:{reference.tag}"} if reference.tag else {name}
    return names


def _of_platform(question: _Question, reference: ImageReference | None) -> PlatformImage | None:
    """The row of the platform's table about the image; None if it has none."""
    images = question.tables.images
    if not images.rows or len(question.image) > _LONGEST_IMAGE:
        return None
    return images.named(_names(question.image, reference))


def _of_row(row: PlatformImage) -> _Answer | None:
    """The CUDA that an image needs by a row of the platform; None if the row does not say."""
    evidence = f"{PLATFORM_FILE} images: {row.glob}"
    if row.is_cpu_only:
        return _Answer(BuiltFor.NONE, None, evidence)
    return None if row.cuda is None else _Answer(BuiltFor.CUDA, row.cuda, evidence)


def _container(question: _Question, notes: list[str]) -> _Answer | None:
    """What the container's environment says. The last value of a variable counts."""
    if not question.env:
        return None
    known = {name: value for name, value in dict(question.env).items() if value is not None}
    found = environment.read(known)
    notes.extend(found.notes)
    return _Answer(BuiltFor.CUDA, found.cuda, f"env {found.variable}", found.is_verified) if found.cuda else None


def _annotated(question: _Question, notes: list[str]) -> _Answer | None:
    text = (question.annotation or "").strip()
    return _said(text, "annotation", notes) if text else None


def _configured(env: dict[str, str], notes: list[str]) -> _Answer | None:
    """What the image's configuration in its registry says."""
    found = environment.read(env)
    notes.extend(found.notes)
    evidence = f"image configuration: {found.variable}"
    return _Answer(BuiltFor.CUDA, found.cuda, evidence, found.is_verified) if found.cuda else None


def _said(text: str, evidence: str, notes: list[str]) -> _Answer | None:
    """The CUDA version in a policy or an annotation. A text that is no version becomes a note."""
    if text == _NO_CUDA:
        return _Answer(BuiltFor.NONE, None, evidence)
    try:
        return _Answer(BuiltFor.CUDA, environment.cuda_version(text), evidence)
    except FormatError as error:
        notes.append(f"{evidence}: {error}")
        return None


def _agree(said: Version | None, named: Version | None) -> bool:
    """Whether stronger evidence and the name of an image mean the same CUDA, as far as both say."""
    if said is None or named is None:
        return said is named
    length = min(len(said.parts), len(named.parts), 2)
    return said.parts[:length] == named.parts[:length]


def _toolkit_env(question: _Question, image_env: dict[str, str], reading: Reading) -> ImageEnv | None:
    """The environment that the container toolkit will read."""
    if question.config is not None:
        of_image: ImageEnv | None = ImageEnv.of(image_env)
    else:
        of_image = reading.base.env(reading.cuda, reading.architectures, question.tables.forward_compat)
    return environment.toolkit_env(of_image, question.env)


def _detailed(
    answer: _Answer, question: _Question, image_env: dict[str, str], reading: Reading, notes: tuple[str, ...]
) -> Need:
    """The need: the answer, with base, framework and architectures, which other evidence tells."""
    known = {name: value for name, value in {**image_env, **dict(question.env)}.items() if value is not None}
    compat = environment.compat_in(known)
    release = environment.release_in(known) if reading.floor is None else None
    floor = release or reading
    return Need(
        answer.kind,
        answer.cuda,
        answer.evidence if answer.is_verified else f"{answer.evidence}, unverified",
        compat=reading.base.compat if compat is Compat.UNKNOWN else compat,
        compute_floor=floor.floor,
        is_floor_verified=floor.is_floor_verified,
        certain_floor=floor.certain_floor,
        architectures=(question.config.architectures if question.config else ()) or reading.architectures,
        env=_toolkit_env(question, image_env, reading),
        notes=notes,
        platform=reading.platform if answer.kind is BuiltFor.OTHER else "",
        is_cuda_verified=answer.is_verified,
        kernels=reading.build.kernels(answer.cuda),
        is_of_project=reading.is_of_project,
        libraries=reading.libraries if _agree(answer.cuda, reading.cuda) else (),
    )

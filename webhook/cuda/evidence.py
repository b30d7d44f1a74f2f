"""What an image needs, by the strongest evidence.

From strong to weak, the evidence is: the policy and the platform's table, the container's environment, the pod's
annotation, the image's configuration in its registry, and the tables of image names. Each answer names its evidence.
Tenants choose names, variables and annotations, so none of them raises. A false claim harms only the pod that makes it.

Of the variables of a container or image, CUDA_VERSION comes first, then the month of NVIDIA's framework containers,
which images built on them inherit. The lower bound in NVIDIA_REQUIRE_CUDA comes last, because images may need more than
it says.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from webhook.cuda import families
from webhook.cuda.compiled_code import kernels_of
from webhook.cuda.cuda_tables import PLATFORM_FILE, SHIPPED, CudaTables, PlatformImage
from webhook.cuda.forward_compat import NGC_REQUIREMENT, Base
from webhook.cuda.image_reading import Reading
from webhook.cuda.libcuda import PATH, SWITCHES, Start, libcuda_of
from webhook.cuda.need import BuiltFor, Compat, ImageEnv, Need
from webhook.cuda.releases import MONTHS, MonthlyRelease, month_of
from webhook.model.globs import closest
from webhook.model.image import NOT_LOOKED_UP, ImageInfo, ImageReference, parse_reference
from webhook.model.shape import FormatError, shortened, spelled
from webhook.model.versions import Version, parse_version

REQUIRE_CUDA, REQUIRE, DISABLE = "NVIDIA_REQUIRE_CUDA", "NVIDIA_REQUIRE_", "NVIDIA_DISABLE_REQUIRE"
NOT_EVALUATED = "NVIDIA_REQUIRE_JETPACK"
TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
"""The texts that Go parses as true."""
_MONTHS = (
    "NVIDIA_PYTORCH_VERSION",
    "NVIDIA_TENSORFLOW_VERSION",
    "TRITON_SERVER_VERSION",
    "NVIDIA_TRITON_SERVER_VERSION",
)
_COMPAT = ("_CUDA_COMPAT_PATH", "NV_CUDA_COMPAT_PACKAGE")
_OF_NVIDIA_CUDA = ("NVARCH", "NV_CUDA_CUDART_VERSION", REQUIRE_CUDA)
_READ = frozenset(("CUDA_VERSION", DISABLE, *_MONTHS, *_COMPAT, *_OF_NVIDIA_CUDA, PATH, *SWITCHES))
_NGC_BOUND = parse_version(NGC_REQUIREMENT[REQUIRE_CUDA].removeprefix("cuda>="))
_LOWER_BOUND = re.compile(r"cuda>=(.*)", re.IGNORECASE | re.DOTALL)

_LONGEST_IMAGE = 1024
"""Most characters of an image that is compared with the globs of policies and platforms."""
_LONGEST_KEY = 5120
"""Most characters of a question whose answer is kept. With the number of answers, this bounds the memory that tenants
can use."""
_LONGEST_VARIABLES = 4608
"""Most characters of the variables of a container that the toolkit reads; NVIDIA's own have 4,000. Verdicts are kept
together with the variables, so this bounds the memory that tenants can use."""

Pairs = tuple[tuple[str, str | None], ...]
"""Variables in order; None stands for a value from another source, such as a Secret."""


@dataclass(frozen=True, slots=True)
class ImageContext:
    """What is known about an image besides its name.

    `mapping` has the policy's globs of images, each with a CUDA version or `none`. `env` has the container's variables.
    `annotation` is what the pod says about this container.
    """

    mapping: tuple[tuple[str, str], ...] = ()
    env: Pairs = ()
    annotation: str | None = None
    info: ImageInfo = field(default=NOT_LOOKED_UP)
    tables: CudaTables = SHIPPED
    start: Start = Start.ENTRY_POINT


def need_of(image: str, context: ImageContext) -> Need:
    """What `image` needs, as far as that is known. Never raises, whatever tenants write.

    >>> need = need_of("registry.corp/mirror/nvidia/cuda:12.4.1-base-ubuntu22.04", ImageContext())
    >>> str(need.cuda), need.evidence
    ('12.4.1', 'tag 12.4.1-base-ubuntu22.04 of mirror/nvidia/cuda')
    """
    env = context.env
    if env:
        read = [pair for pair in env if pair[0] in _READ or pair[0].startswith(REQUIRE)]
        env = tuple([pair for pair in read if not pair[0].startswith(NOT_EVALUATED)])
        context = replace(context, env=env)
    size = len(image) + len(context.annotation or "") + sum([len(name) + len(value or "") for name, value in env])
    return _answered(image, context) if size <= _LONGEST_KEY else _answered.__wrapped__(image, context)


@lru_cache(maxsize=2048)
def _answered(image: str, context: ImageContext) -> Need:
    notes: list[str] = []
    reference: ImageReference | None = None
    reading = Reading(BuiltFor.UNKNOWN)
    try:
        reference = parse_reference(image)
        reading = families.look_up(reference, context.tables)
    except FormatError as error:
        notes.append(str(error))
    config, images = context.info.config, context.tables.images
    image_env = {} if config is None else dict(config.env)
    own_env = {name: value for name, value in dict(context.env).items() if value is not None}
    names = _names(image, reference) if (context.mapping or images) and len(image) <= _LONGEST_IMAGE else set()
    mapping = dict(context.mapping)
    own, glob = _closest(mapping, names), _closest(images, names)
    row = None if glob is None else images[glob]
    stronger = (
        (None if own is None else _said(mapping[own], f"policy images: {own}", notes))
        or (_of_row(row) if row is not None else None)
        or _declared(own_env, "env", notes)
        or _said((context.annotation or "").strip(), "annotation", notes)
    )
    if stronger is None and context.info.is_pending and config is None:
        return Need(BuiltFor.UNKNOWN, None, "none", notes=tuple(notes), is_pending=True)
    if context.info.problem:
        notes.append(f"the look-up in its registry failed: {context.info.problem}")
    answer = stronger
    if answer is None and not reading.outweighs_configuration:
        answer = _declared(image_env, "image configuration:", notes)
    if answer is None:
        answer = reading
        notes.extend(reading.notes)
    need = _detailed(answer, context, image_env, reading, tuple(notes))
    if reference is not None and need.kind is BuiltFor.CUDA:
        loaded = libcuda_of(
            (reference.repository, reference.tag.lower()),
            need.cuda,
            path=image_env.get(PATH),
            env=dict(context.env),
            start=context.start,
            is_checked=reading.base is Base.NGC or "_CUDA_COMPAT_PATH" in image_env,
        )
        need = replace(need, libcuda=loaded)
    if row is None:
        return need
    return replace(need, compat=row.compat or need.compat, kernels=row.kernels or need.kernels)


def _names(image: str, reference: ImageReference | None) -> set[str]:
    """The names of an image: as it is written, with and without registry, tag and digest."""
    names = {image}
    if reference is not None:
        for name in (f"{reference.registry}/{reference.repository}", reference.familiar):
            names |= {name, f"{name}:{reference.tag}"} if reference.tag else {name}
    return names


def _closest(globs: Iterable[str], names: set[str]) -> str | None:
    """The most specific glob that matches any of these names: a name itself before globs, long globs before short."""
    found = [glob for name in names if (glob := closest(globs, name)) is not None]
    return min(found, key=lambda glob: (glob not in names, -len(glob), glob), default=None)


def _of_row(row: PlatformImage) -> Reading | None:
    """The CUDA that an image needs by a row of the platform; None if the row does not say."""
    evidence = f"{PLATFORM_FILE} images: {row.glob}"
    if row.is_cpu_only:
        return Reading(BuiltFor.NONE, None, evidence)
    return None if row.cuda is None else Reading(BuiltFor.CUDA, row.cuda, evidence)


def _said(text: str, evidence: str, notes: list[str]) -> Reading | None:
    """The CUDA version, or `none`, in a policy or an annotation. A text that is no version becomes a note."""
    if not text:
        return None
    if text == "none":
        return Reading(BuiltFor.NONE, None, evidence)
    try:
        return Reading(BuiltFor.CUDA, cuda_version(text), evidence)
    except FormatError as error:
        notes.append(f"{evidence}: {error}")
        return None


def cuda_version(text: str) -> Version:
    """The first three numbers of a version of CUDA, such as 13.0.2.006 or v12.4. Raises FormatError.

    >>> str(cuda_version(" 13.0.2.006 "))
    '13.0.2'
    """
    version = parse_version(text.strip().removeprefix("v"))
    if not 0 < version.major < 100:
        raise FormatError(f"{spelled(text)} is no version of CUDA; write numbers with dots, such as 12.4")
    return Version(version.parts[:3])


def _declared(env: Mapping[str, str], where: str, notes: list[str]) -> Reading | None:
    """The CUDA version that variables say, and which one says it. Values that cannot be read become notes."""

    def answer(cuda: Version, name: str, *, is_verified: bool = True) -> Reading:
        shown = shortened(env[name].strip() if name == "CUDA_VERSION" else env[name], 60)
        return Reading(BuiltFor.CUDA, cuda, f"{where} {name}={shown}", is_verified=is_verified)

    if not env:
        return None
    if text := env.get("CUDA_VERSION", "").strip():
        try:
            return answer(cuda_version(text), "CUDA_VERSION")
        except FormatError as error:
            notes.append(f"CUDA_VERSION: {error}")
    for name in _MONTHS:
        if (release := _release(env.get(name, ""))) is not None:
            return answer(release.cuda, name, is_verified=release.is_verified)
    bound = _lower_bound(env.get(REQUIRE_CUDA, ""), notes)
    return None if bound is None else answer(bound, REQUIRE_CUDA)


def _release(text: str) -> MonthlyRelease | None:
    month = month_of(text.strip())
    return MONTHS.get(month) if month else None


def _lower_bound(require: str, notes: list[str]) -> Version | None:
    """The largest lower bound in the first alternative, unless it is the one of all NVIDIA framework containers."""
    bounds = []
    for factor in require.strip(" ").partition(" ")[0].split(",")[:8]:
        if found := _LOWER_BOUND.fullmatch(factor):
            try:
                bounds.append(cuda_version(found[1]))
            except FormatError as error:
                notes.append(f"{REQUIRE_CUDA}: {error}")
    largest = max(bounds, key=lambda bound: (*bound.parts, 0, 0)[:3], default=None)
    return None if largest is None or largest.cut(2).parts == _NGC_BOUND.parts else largest


def _detailed(
    answer: Reading, context: ImageContext, image_env: dict[str, str], reading: Reading, notes: tuple[str, ...]
) -> Need:
    """The need: the answer, and from other evidence the base, the framework and the architectures."""
    known = {name: value for name, value in {**image_env, **dict(context.env)}.items() if value is not None}
    config, compat = context.info.config, reading.base.compat
    is_built_on_cuda = "CUDA_VERSION" in known and any(name in known for name in _OF_NVIDIA_CUDA)
    if is_built_on_cuda or any(name in known for name in _COMPAT):
        compat = Compat.YES
    floor: Reading | MonthlyRelease = reading
    if reading.floor is None and known:
        floor = next((release for name in _MONTHS if (release := _release(known.get(name, "")))), reading)
    of_base = reading.base.env(reading.cuda, reading.architectures, context.tables.forward_compat)
    return Need(
        answer.kind,
        answer.cuda,
        answer.evidence if answer.is_verified else f"{answer.evidence}, unverified",
        compat=compat,
        compute_floor=floor.floor,
        is_floor_verified=floor.is_floor_verified,
        certain_floor=floor.certain_floor,
        architectures=(config.architectures if config else ()) or reading.architectures,
        env=toolkit_env(of_base if config is None else ImageEnv.of(image_env), context.env),
        notes=notes,
        platform=reading.platform if answer.kind is BuiltFor.OTHER else "",
        is_cuda_verified=answer.is_verified,
        kernels=kernels_of(reading.build, answer.cuda),
        is_of_project=reading.is_of_project,
        libraries=reading.libraries if _agree(answer.cuda, reading.cuda) else (),
    )


def _agree(said: Version | None, named: Version | None) -> bool:
    """Whether stronger evidence and the name of an image mean the same CUDA, as far as both say."""
    if said is None or named is None:
        return said is named
    length = min(len(said.parts), len(named.parts), 2)
    return said.parts[:length] == named.parts[:length]


def toolkit_env(image: ImageEnv | None, container: Pairs) -> ImageEnv | None:
    """What the container toolkit reads: the container's variables over the image's. None if that is unknown.

    A variable with the value None may have any value. The result is None for more variables than people set. The
    toolkit checks CUDA_VERSION only if NVIDIA_REQUIRE_CUDA is not set; an unknown image may set that, perhaps to a
    requirement that any driver meets.
    """
    own = {
        name: value
        for name, value in container
        if name in (DISABLE, "CUDA_VERSION") or (name.startswith(REQUIRE) and not name.startswith(NOT_EVALUATED))
    }
    known = {name: value for name, value in own.items() if value is not None}
    if known.get(DISABLE) in TRUE:
        return ImageEnv.of({DISABLE: known[DISABLE]})
    if not own:
        return image
    unknown = own.keys() - known.keys()
    if sum(map(len, (*own, *known.values()))) > _LONGEST_VARIABLES or any(name.startswith(REQUIRE) for name in unknown):
        return None
    if image is not None:
        variants = [{**dict(variant), **known} for variant in image.variants]
        is_open = "CUDA_VERSION" in unknown and not all(variant.get(REQUIRE_CUDA) for variant in variants)
    else:
        variants = [known] if REQUIRE_CUDA in known else [known, {**NGC_REQUIREMENT, **known}]
        is_open = not known.get(REQUIRE_CUDA) and not known.get("CUDA_VERSION")
    is_complete = (image is None or image.is_complete) and DISABLE not in unknown
    return None if is_open else ImageEnv.of(*variants, is_complete=is_complete)

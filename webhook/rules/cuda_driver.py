"""GPU pods run only on nodes whose driver and GPU can run the CUDA of their images.

A pod is kept off nodes that cannot run it, and refused only if none of the nodes that it could run on can.
[cuda.md](cuda.md) says what is known of images and nodes. If too little is known, no pod is refused, unless `unknown`
says otherwise. For a pod in a queue or behind a scheduling gate all nodes count, whatever their taints. An image for
CUDA is refused on GPUs of AMD and Intel, as an image for ROCm is on NVIDIA's.

If a node pool has a `next` driver ([node pools](#node-pools)), pods that its nodes could run now, but not with the next
driver, bring a warning until the day of the change. GPUs by resource claims (DRA) are judged where it is
[certain](dra.md#which-driver-a-node-has) that the pod gets one of NVIDIA.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from webhook.cuda import cuda_messages, libcuda
from webhook.cuda.assessment import Assessment, ForcedCompat, NodeVerdict, assess
from webhook.cuda.checks import Verdict, driver_for_gpu
from webhook.cuda.cuda_messages import remedy_for
from webhook.cuda.evidence import ImageContext, cuda_version, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import BuiltFor, Need
from webhook.model.accelerators import Share, Vendor
from webhook.model.node import ChangingNodes, NodeClass
from webhook.model.pod import Container, Pod
from webhook.model.programs import may_run_other_code
from webhook.model.shape import FormatError
from webhook.rules.candidates import candidates, claimed_nodes, released, selectable, selected
from webhook.rules.rule import Advice, Example, Facts, Rule, Stage, Violation, training_pod
from webhook.rules.rule_settings import TableSettings
from webhook.rules.unsuited import Judged, Unsuited, steering

ANNOTATION = "cuda.gpupolicy.dev/"
"""Prefix of annotations that say what the image of one container needs: a CUDA version, or none."""

_AS_BUILT = libcuda.Start.ENTRY_POINT
_REQUIREMENT = "NVIDIA_REQUIRE_CUDA"

_MOST_CONTAINERS = 64
"""GPU containers of one pod that are judged. A node with eight GPUs in their smallest slices has room for 56."""


def _cuda(value: str) -> str:
    if value != "none":
        try:
            cuda_version(value)
        except FormatError as error:
            raise ValueError(f"{error}, or none for an image without CUDA") from None
    return value


Unknown = Literal["allow", "warn", "deny"]
ImageGlob = Annotated[str, Field(min_length=1, max_length=512)]
CudaVersion = Annotated[str, AfterValidator(_cuda)]


class Settings(TableSettings):
    """Settings of `cudaDriver`."""

    unknown: Unknown = "allow"
    """What happens to a pod if it is not known what its images need, or on which nodes it could run. A
    registry that has not answered yet refuses no pod."""
    steer: bool = True
    """Whether the pod is kept off the nodes which cannot run its images, while others can, by node affinity."""
    forward_compat: Literal["allow", "deny"] = "allow"
    """Whether the pod may run on nodes whose driver runs the image only by forward compatibility, with cuda-compat in
    the image."""
    forced_compat: ForcedCompat = "warn"
    """What happens to a pod whose containers load the libcuda of cuda-compat before the driver's, where CUDA then fails
    with error 803 or 804 ([cuda.md](cuda.md#which-libcuda-a-container-loads)). Other risks with libcuda only
    warn."""
    images: Mapping[ImageGlob, CudaVersion] = Field(default_factory=dict)
    """What the platform team knows of images: globs of names, with or without registry and tag, each with the CUDA
    version that they need, in quotes, or `none`. The longest glob that matches beats everything else."""

    @cached_property
    def mapping(self) -> tuple[tuple[str, str], ...]:
        """`images` as pairs, which are hashable."""
        return tuple(self.images.items())

    def for_other_drivers(self) -> "Settings":
        """These settings, in which forced cuda-compat breaks an image unless the platform allows it."""
        return self if self.forced_compat == "allow" else self.model_copy(update={"forced_compat": "deny"})


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse a pod if none of the nodes that it could run on can run its images, and warn if some of them cannot."""
    survey = survey_of(pod, settings, facts)
    if survey is None:
        yield from _of_other_vendors(pod, settings, facts)
        return
    assessment = survey.assessment
    if assessment.is_none_left:
        yield from refusals(survey)
        return
    if assessment.incompatible and not pod.is_held:
        yield _mixed(survey, settings, is_steered=settings.steer and not pod.node_name)
    libraries: list[Advice] = []
    if assessment.has_wrong_libcuda and settings.forced_compat != "allow":
        libraries = list(_libraries(survey, is_held=pod.is_held))
        yield from libraries
    passable: Sequence[NodeVerdict] = assessment.compatible
    if not passable:
        yield from _unknown(survey, settings)
        others = assessment.verdicts if settings.unknown == "allow" else ()
        passable = [one for one in others if one.result.verdict is not Verdict.INCOMPATIBLE]
    if not libraries and passable and all(Gate.FAIL in one.result.gates for one in passable):
        yield _gate(survey, passable[0])
    if survey.is_by_number and (changing := facts.changing_nodes(released(pod, facts))):
        later = settings.for_other_drivers()
        yield from _before_changes(
            survey.uses, assessment, changing, lambda nodes: survey.on(nodes, later), is_held=pod.is_held
        )


def _of_other_vendors(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse images for CUDA, and for another vendor's platform, in containers with GPUs of AMD or Intel."""
    for container in pod.lasting_containers():
        own = [one for one in container.gpu_requests if one.count and one.accelerator.share not in _FOR_OTHERS]
        if not own or any(one.accelerator.vendor not in _PLATFORMS for one in own):
            continue
        need, platform = _need(container, pod, settings, facts), _PLATFORMS[own[0].accelerator.vendor]
        is_cuda = need.is_for_nvidia and not _OF_OTHERS.search(container.image)
        built_for = need.platform if need.kind is BuiltFor.OTHER else "CUDA" if is_cuda else ""
        if built_for and built_for != platform:
            yield Violation(
                f"{container.path}.image",
                f"{cuda_messages.named(container.image)} is built for {built_for} ({need.evidence})",
                f"the GPU of {own[0].resource} runs images for {platform} only",
                f"Use an image that is built for {platform}, or request the GPU that this image is built for",
            )


_PLATFORMS: Mapping[Vendor, str] = {Vendor.AMD: "AMD ROCm", Vendor.INTEL: "Intel XPUs"}
"""What images for the GPUs of other vendors are built for."""
_OF_OTHERS = re.compile(r"\b(?:amd|radeon|hip|intel|oneapi|sycl|vulkan|openvino)\b", re.IGNORECASE)
"""Words that may mean a build for other GPUs than NVIDIA's, or for both."""
_FOR_OTHERS = (Share.PASSTHROUGH, Share.NODE)
"""GPUs on which the container itself does not compute: a virtual machine does, or an agent only watches them."""


def unsuited(pod: Pod, settings: Settings, facts: Facts) -> Judged | None:
    """The nodes that cannot run the images of a pod."""
    survey = survey_of(pod, settings, facts)
    if survey is None:
        return None
    assessment = survey.wherever_selected(pod, settings, facts)
    if not assessment.incompatible:
        return None
    return _judged(assessment, *selected(pod, facts), settings)


def _judged(
    assessment: Assessment, nodes: Sequence[NodeClass], are_candidates: tuple[bool, ...], settings: Settings
) -> Judged:
    found = [
        Unsuited(one.result.cause, cuda_messages.in_few_words(one, settings.gpu_table))
        if one.result.verdict is Verdict.INCOMPATIBLE
        else None
        for one in assessment.verdicts
    ]
    return Judged(nodes, tuple(found), are_candidates, settings.tables)


@dataclass(frozen=True, slots=True)
class CudaSurvey:
    """What the containers of a pod need, and how the nodes that the pod could run on suit them."""

    uses: tuple[tuple[Container, Need], ...]
    nodes: Sequence[NodeClass]
    assessment: Assessment
    is_by_number: bool
    """Whether the pod requests GPUs by number. If only claims bring it GPUs, not every matching node counts."""

    def on(self, nodes: Sequence[NodeClass], settings: Settings) -> Assessment:
        """The assessment of other nodes."""
        return _assessed(tuple([need for _, need in self.uses]), nodes, settings)

    def wherever_selected(self, pod: Pod, settings: Settings, facts: Facts) -> Assessment:
        """The assessment of all nodes that the pod selects, whatever their taints."""
        nodes = selectable(pod, facts)
        return self.assessment if nodes is self.nodes else self.on(nodes, settings)


def survey_of(pod: Pod, settings: Settings, facts: Facts) -> CudaSurvey | None:
    """The needs and verdicts of a pod; None if it gets no NVIDIA GPU, or no container needs CUDA."""
    claimed = claimed_nodes(released(pod, facts), facts) if pod.resource_claims else None
    is_by_number = pod.requests_gpus_of(Vendor.NVIDIA)
    if claimed is None and not is_by_number:
        return None
    containers = [
        one
        for one in pod.lasting_containers()
        if one.requests_gpus_of(Vendor.NVIDIA) or (claimed is not None and claimed.are_used_by(one))
    ][:_MOST_CONTAINERS]
    needs = tuple([_need(container, pod, settings, facts) for container in containers])
    if all(need.kind is BuiltFor.NONE for need in needs):
        return None
    nodes = candidates(pod, facts)
    uses = tuple(zip(containers, needs, strict=True))
    return CudaSurvey(uses, nodes, _assessed(needs, nodes, settings), is_by_number)


def _assessed(needs: tuple[Need, ...], nodes: Sequence[NodeClass], settings: Settings) -> Assessment:
    is_allowed = settings.forward_compat == "allow"
    forced = settings.forced_compat
    return assess(needs, nodes, settings.tables, is_forward_compat_allowed=is_allowed, forced_compat=forced)


def _need(container: Container, pod: Pod, settings: Settings, facts: Facts) -> Need:
    annotation = pod.annotations.get(ANNOTATION + container.name)
    context = ImageContext(
        mapping=settings.mapping,
        env=container.env,
        annotation=annotation if isinstance(annotation, str) else None,
        start=libcuda.start_of(container.command, container.args) if container.command or container.args else _AS_BUILT,
        info=facts.image(container.image),
        tables=settings.tables,
    )
    need = need_of(container.image, context)
    if may_run_other_code(container.words):
        need = replace(need, is_changed=True)
    if container.env_from and not container.sets_env(libcuda.PATH) and container.may_take_env(libcuda.PATH):
        return replace(need, libcuda=replace(need.libcuda, is_sure=False))
    return need


def _libraries(survey: CudaSurvey, *, is_held: bool) -> Iterator[Advice]:
    """Advice about containers that load a libcuda with which CUDA fails, or may fail, on some of their nodes."""
    verdicts = survey.assessment.verdicts
    usable = [one for one in verdicts if one.result.verdict is not Verdict.INCOMPATIBLE]
    for at, (container, _) in enumerate(survey.uses):
        concerned = [one for one in usable if one.result.judgements[at].libcuda is not None]
        if (found := cuda_messages.library(container.image, concerned, at)) and not (is_held and concerned != usable):
            yield Advice(f"{container.path}.image", *found)


def refusals(survey: CudaSurvey) -> Iterator[Violation]:
    """One violation for each container that some nodes cannot run. Together they leave no node."""
    verdicts = survey.assessment.verdicts
    offers = [one.result.offer for one in verdicts]
    images = {container.image for container, _ in survey.uses}
    for at, (container, need) in enumerate(survey.uses):
        unfit = [one for one in verdicts if at in one.result.failing]
        if unfit:
            is_none = len(unfit) == len(verdicts)
            found = (
                f"{cuda_messages.needs(container.image, need)}; {'none' if is_none else 'only some'} of the nodes "
                f"that the pod could land on can run it: {cuda_messages.reasons(unfit, at)}"
            )
            allowed = "the pod's node must be able to run all its images" if len(images) > 1 else ""
            if processors := cuda_messages.other_processor(container.image, need, unfit, at):
                found, allowed = processors[0], f"{'nodes' if is_none else 'some nodes'} are {processors[1]}"
            remedy = remedy_for(container.image, need, offers, survey.assessment.tables)
            are_driven = any(driver_for_gpu(one.result.offer, survey.assessment.tables) is None for one in unfit)
            if are_driven and may_run_other_code(container.words):
                remedy += (
                    f". If its command brings another CUDA, say which in the annotation {ANNOTATION}{container.name}"
                )
            yield Violation(f"{container.path}.image", found, allowed, remedy)


def _mixed(survey: CudaSurvey, settings: Settings, *, is_steered: bool) -> Advice:
    unfit, are_candidates = survey.assessment.incompatible, (True,) * len(survey.nodes)
    at = next(at for at in range(len(survey.uses)) if any(at in one.result.failing for one in unfit))
    container, need = survey.uses[at]
    own = [one for one in unfit if at in one.result.failing]
    judged = _judged(survey.assessment, survey.nodes, are_candidates, settings)
    why = " and no label separates them" if is_steered and steering(judged).left else ""
    found = (
        f"{cuda_messages.needs(container.image, need)}, which some nodes that the pod could land on cannot run{why}: "
        f"{cuda_messages.reasons(own, at)}"
    )
    if processors := cuda_messages.other_processor(container.image, need, own, at):
        found = f"{processors[0]}; some nodes that the pod could land on are {processors[1]}{why}"
    mend = "Select nodes that run it by nodeSelector, or tell the platform team"
    return Advice(f"{container.path}.image", found, mend)


def _unknown(survey: CudaSurvey, settings: Settings) -> Iterator[Violation | Advice]:
    """Advice or violations about containers that may run or not."""
    for at, (container, need) in enumerate(survey.uses):
        verdicts = survey.assessment.verdicts
        if verdicts and all(one.result.judgements[at].is_on_cpu for one in verdicts):
            found = f"{cuda_messages.named(container.image)} will compute on the CPU, and hold a GPU: "
            found += cuda_messages.reasons(verdicts, at)
            offers = [one.result.offer for one in verdicts]
            yield Advice(f"{container.path}.image", found, remedy_for(container.image, need, offers, settings.tables))
            continue
        if settings.unknown == "allow":
            continue
        if not container.image and need.cuda is None:
            continue  # a template whose image is filled in later
        found = cuda_messages.doubt(container.image, need, at, survey.assessment.verdicts)
        if not found:
            continue
        where = f"{container.path}.image"
        clearing = _clearing(container, need, survey.assessment.verdicts)
        if settings.unknown == "warn" or need.is_pending:
            yield Advice(where, found, clearing)
        else:
            allowed = "the policy refuses pods for which this is not known"
            yield Violation(where, found, allowed, clearing)


def _clearing(container: Container, need: Need, verdicts: Sequence[NodeVerdict]) -> str:
    """The remedy that makes known whether a container will run."""
    if need.kind is not BuiltFor.OTHER and (need.cuda is None or may_run_other_code(container.words)):
        return f"Say which CUDA version it needs, or none, in the annotation {ANNOTATION}{container.name}"
    if not verdicts:
        return "Correct nodeSelector, affinity or tolerations, or declare the pool under nodePools in the policy"
    return "Select nodes that are known to run it by nodeSelector, or tell the platform team"


def _gate(survey: CudaSurvey, first: NodeVerdict) -> Advice:
    at = next(at for at, judgement in enumerate(first.result.judgements) if judgement.gate is Gate.FAIL)
    container = survey.uses[at][0]
    is_own = container.sets_env(_REQUIREMENT)
    although = " although CUDA would run" if survey.assessment.compatible else ""
    unmet = (
        f"is not met by {first}; a container toolkit before 1.18, or one in legacy mode, does not start it{although}"
    )
    mend = "NVIDIA_DISABLE_REQUIRE to true, or use the toolkit in CDI mode"
    if is_own:
        return Advice(f"{container.path}.env[{_REQUIREMENT}]", unmet, f"Remove it, or set {mend}")
    return Advice(f"{container.path}.image", f"the image's own {_REQUIREMENT} {unmet}", f"Set {mend}")


def _before_changes(
    uses: Sequence[tuple[Container, Need]],
    assessment: Assessment,
    changing: Iterable[ChangingNodes],
    judge: Callable[[Sequence[NodeClass]], Assessment],
    *,
    is_held: bool,
) -> Iterator[Advice]:
    """Advice for each node pool that may run the pod now and certainly will not with its next driver.

    `assessment` is of all nodes that match the pod, `judge` assesses the nodes of a pool. A pod that `is_held`, in a
    queue, gets advice only if no nodes would be left, because the queue chooses among them.
    """
    for change in changing:
        now, then = judge(change.now).verdicts, judge(change.then).verdicts
        lost = [after for before, after in zip(now, then, strict=True) if _may_run(before) and not _may_run(after)]
        is_last = _count(lost) == _count(filter(_may_run, assessment.verdicts))
        if lost and (is_last or not is_held):
            yield _of_change(change, lost, uses, assessment, is_last=is_last)


def _may_run(verdict: NodeVerdict) -> bool:
    return verdict.result.verdict is not Verdict.INCOMPATIBLE


def _count(verdicts: Iterable[NodeVerdict]) -> int:
    """How many nodes these are, where a pool without nodes counts as one."""
    return sum(verdict.nodes.count or 1 for verdict in verdicts)


def _of_change(
    changing: ChangingNodes,
    lost: Sequence[NodeVerdict],
    uses: Sequence[tuple[Container, Need]],
    assessment: Assessment,
    *,
    is_last: bool,
) -> Advice:
    at = min(at for verdict in lost for at in verdict.result.failing)
    container, need = uses[at]
    own = [verdict for verdict in lost if at in verdict.result.failing]
    change = changing.change
    from_then_on = f"{changing.pool} is about to install driver {change.driver} on nodes"
    if change.day:
        from_then_on = f"from {change.day} on, nodes of pool {changing.pool} have driver {change.driver}"
    rest = ", and there are no other nodes for the pod" if is_last else ""
    return Advice(
        f"{container.path}.image",
        f"{from_then_on}; {cuda_messages.needs(container.image, need)}, and will not run there{rest}: "
        f"{cuda_messages.reasons(own, at)}",
        cuda_messages.remedy_for(container.image, need, [verdict.result.offer for verdict in own], assessment.tables),
    )


RULE = Rule(
    key="cudaDriver",
    promise="GPU pods run only on nodes whose driver and GPU can run the CUDA of their images.",
    problem='A pod waits for its GPU, pulls gigabytes and fails with "CUDA driver version is insufficient for CUDA '
    'runtime version", on some nodes and not on others.',
    example=Example(
        training_pod(
            "nodeSelector: {nvidia.com/gpu.product: Tesla-T4}",
            "tolerations: [{key: nvidia.com/gpu, operator: Exists}]",
            image="pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime",
        )
    ),
    settings=Settings,
    validate=validate,
    unsuited=unsuited,
    stage=Stage.STEERING,
    judges_fractions=True,
    depends_on_cluster_state=True,
    softens_on_update=True,
    can_mutate=lambda settings: settings.steer,
)

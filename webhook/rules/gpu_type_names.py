"""Names of GPUs in settings of `gpuTypes`: models and families, MIG profiles, and globs of resource names."""

from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from webhook.cuda.cuda_tables import tables_in
from webhook.gpus.gpu_catalogue import catalogue_of
from webhook.gpus.gpu_kinds import is_profile, known_profiles
from webhook.model.accelerators import Accelerators, accelerators_in
from webhook.model.globs import is_glob, overlap
from webhook.model.shape import spelled
from webhook.model.wording import closest, hint
from webhook.quota.amounts import MIG_RESOURCES
from webhook.rules.names import are_all_names_known, bound, meant_model

_SAMPLES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    *MIG_RESOURCES,
    *(f"{name}.shared" for name in MIG_RESOURCES),
    "nvidia.com/pgpu",
    "amd.com/gpu",
    *(f"amd.com/{mode}_nps{number}" for mode in ("spx", "dpx", "qpx", "cpx") for number in (1, 2, 4, 8)),
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "intel.com/gpu",
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    "deviceclass.resource.kubernetes.io/mig.nvidia.com",
)
"""Names of GPU resources, of which a glob matches one if it is spelled right. Those of vGPU plugins are without end."""

_check_glob = bound(
    253, "[A-Za-z0-9_./*?+-]+", "a glob of resource names; write letters, digits, - _ . / and the wildcards * and ?"
)


def _resource_glob(name: str, accelerators: Accelerators) -> None:
    """Refuse a glob that matches no name of GPUs."""
    _check_glob(name)
    samples = [*_SAMPLES, *(one.name for one in accelerators.declared if one.share is not None)]
    if is_glob(name):
        is_known = any(overlap(name, sample) for sample in samples) or name.startswith("nvidia.com/")
    else:
        is_known = accelerators.of(name) is not None
    if not is_known:
        remedy = hint(name, samples) or "; write one such as nvidia.com/mig-* or amd.com/*"
        raise ValueError(f"{spelled(name)} is the name of no GPUs{remedy}")


def _model(name: str, info: ValidationInfo, others: str) -> None:
    catalogue = catalogue_of(tables_in(info.context).gpus)
    if catalogue.leaves(name):
        return
    meant = meant_model(name, catalogue)
    remedy = f"did you mean {meant}? docs/rules.md names all{others}" if meant else f"docs/rules.md names all{others}"
    raise ValueError(f"{spelled(name)} is no known model; {remedy}")


def _gpu_kind(name: str, info: ValidationInfo) -> str:
    if "/" in name or is_glob(name):
        if are_all_names_known(info):
            _resource_glob(name, accelerators_in(info.context))
    elif is_profile(name):
        profiles = known_profiles(tables_in(info.context).gpus)
        if are_all_names_known(info) and name not in profiles:
            raise ValueError(f"{spelled(name)} is a MIG profile of no GPU that is known{hint(name, profiles)}")
    elif are_all_names_known(info):
        profile = closest(name.removeprefix("mig-"), known_profiles(tables_in(info.context).gpus))
        if name.startswith("mig-") and profile:
            raise ValueError(f"{spelled(name)} is no MIG profile; did you mean {profile}?")
        _model(name, info, "; a name of resources has a slash, such as nvidia.com/mig-*")
    return name


def _preferred(name: str, info: ValidationInfo) -> str:
    if are_all_names_known(info):
        _model(name, info, "")
    return name


GpuKind = Annotated[str, AfterValidator(_gpu_kind)]
"""A model or family of the catalogue, a MIG profile, or a glob of resource names."""

GpuModelName = Annotated[str, AfterValidator(_preferred)]
"""A model or family of the catalogue."""

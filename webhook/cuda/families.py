"""What the name of an image says of the CUDA it needs: the families of images that are known, and the way through them.

A family is found by the end of the repository's path, whatever registry or mirror stands before it:
registry.corp/nvcr-proxy/nvidia/cuda is nvidia/cuda. What is in no family is read by the words in its tag and name, and
a bare version there means nothing.

Docker's official images of languages, systems and servers have no CUDA.

Not every image in `library/` is known here, because a name without a namespace may also be one that was only loaded
into a node.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from webhook.cuda import catalogue, readers, release_families
from webhook.cuda.bases import Base
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.image_reading import Name, Reader, Reading, Words, without_cuda
from webhook.cuda.kernels import KernelBuild, build_of
from webhook.cuda.need import BuiltFor
from webhook.model.image import ImageReference

WITHOUT_CUDA: frozenset[str] = frozenset(
    """
    almalinux alpine alt amazoncorretto amazonlinux archlinux bash busybox caddy cassandra centos cirros clojure
    composer consul couchdb crystal dart debian docker drupal eclipse-temurin elasticsearch elixir erlang fedora
    fluentd gcc ghost golang gradle groovy haproxy haskell hello-world httpd ibmjava influxdb java jetty joomla jruby
    julia kibana kong logstash mageia mariadb maven memcached mongo mongo-express mysql nats neo4j nextcloud nginx node
    openjdk opensuse oraclelinux perl photon php postgres pypy python r-base rabbitmq redis registry rethinkdb
    rockylinux ros ruby rust scratch solr sonarqube spark swift telegraf tomcat traefik ubuntu vault wordpress zookeeper
    """.split()  # noqa: SIM905  # a hundred lines of quotes say less
)

WITHOUT_CUDA_ANYWHERE: frozenset[str] = frozenset(
    """
    agnhost alpine busybox curl golang haproxy httpd mariadb memcached mongo mysql nginx node pause postgres python
    rabbitmq redis registry traefik
    """.split()  # noqa: SIM905  # as above
)
"""Names that mean the same in any organisation and registry: servers, and what Kubernetes is tested with (pause and
agnhost of registry.k8s.io). Languages and systems on which people build their own CUDA are left out. Python is not: its
CUDA comes with pip, and no name tells."""


_CUDA = readers.worded(BuiltFor.CUDA)
_CPU = readers.worded(BuiltFor.NONE)
_UNLESS_SAID_CPU = readers.worded(BuiltFor.NONE, Base.UNKNOWN)
_AMAZON = readers.worded(BuiltFor.UNKNOWN, Base.RELATED)
_JUPYTER = readers.worded(BuiltFor.NONE, Base.PLAIN)

_NGC_FRAMEWORKS = ("pytorch", "tensorflow", "tritonserver", "jax", "mxnet", "paddlepaddle", "vllm", "sglang")
_INFRASTRUCTURE_PLACES = ("nvidia", "k8s", "cloud-native")
_INFRASTRUCTURE = (
    "dcgm",
    "driver",
    "gdrdrv",
    "gpu-operator",
    "gpu-operator-validator",
    "k8s-container-toolkit",
    "k8s-kata-manager",
    "nvidia-fs",
    "nvidia-mig-manager",
    "vgpu-manager",
)
_DYNAMO_WITHOUT_CUDA = ("dynamo-frontend", "dynamo-planner", "kubernetes-operator")
_JUPYTER_STACKS = (
    "all-spark",
    "base",
    "datascience",
    "julia",
    "minimal",
    "pyspark",
    "pytorch",
    "r",
    "scipy",
    "tensorflow",
)
_AMAZON_FRAMEWORKS = (
    "autogluon",
    "djl",
    "huggingface-pytorch",
    "huggingface-pytorch-tgi",
    "huggingface-tensorflow",
    "mxnet",
    "pytorch",
    "stabilityai-pytorch",
    "tensorflow",
)

_ARCHITECTURES: Mapping[str, tuple[str, ...]] = {"amd64": ("amd64",), "arm64v8": ("arm64",)}
"""Docker Hub's namespaces of images for one architecture."""

_BY_END: Mapping[str, Reader] = {
    "nvidia/cuda": readers.nvidia_cuda,
    "nvidia/cudagl": readers.nvidia_cuda,
    "nvidia/cuda-arm64": readers.nvidia_cuda,
    "nvidia/cuda-ppc64le": readers.nvidia_cuda,
    "nvidia/cuda-dl-base": readers.ngc_release,
    "nvidia/tensorrt": readers.ngc_release,
    "nvidia/tensorrtserver": readers.ngc_release,
    "nvidia/samples": readers.cuda_samples,
    "k8s/cuda-sample": readers.cuda_samples,
    **{f"nvidia/{framework}": readers.ngc_release for framework in _NGC_FRAMEWORKS},
    **{f"{place}/{name}": readers.infrastructure for name in _INFRASTRUCTURE for place in _INFRASTRUCTURE_PLACES},
    "pytorch/pytorch": readers.pytorch,
    "rayproject/ray-llm": readers.worded(BuiltFor.CUDA, Base.RELATED),
    "paddlepaddle/paddle": _UNLESS_SAID_CPU,
    **{f"jupyter/{stack}-notebook": _JUPYTER for stack in _JUPYTER_STACKS},
    "jupyter/docker-stacks-foundation": _JUPYTER,
    **{f"library/{name}": _CPU for name in WITHOUT_CUDA},
    **{f"{architecture}/{name}": _CPU for architecture in _ARCHITECTURES for name in WITHOUT_CUDA},
    "continuumio/miniconda3": _CPU,
    "continuumio/anaconda3": _CPU,
    "condaforge/miniforge3": _CPU,
    "condaforge/mambaforge": _CPU,
    "mambaorg/micromamba": _CPU,
    **{f"ai-dynamo/{name}": _CPU for name in _DYNAMO_WITHOUT_CUDA},
    **release_families.BY_END,
    **catalogue.BY_END,
    **catalogue.WITHOUT_CUDA_BY_END,
}
"""By the last two parts of the path."""

_BY_NAME: Mapping[str, Reader] = {
    "sagemaker-tritonserver": readers.ngc_release,
    **{f"{name}-{use}": _AMAZON for name in _AMAZON_FRAMEWORKS for use in ("training", "inference")},
    **{f"{name}-{use}-arm64": _AMAZON for name in ("pytorch", "tensorflow") for use in ("training", "inference")},
    **{f"{name}-inference-graviton": _AMAZON for name in ("pytorch", "tensorflow")},
    **dict.fromkeys(("cuda", "cudagl", "nvidia-cuda", "nvidia_cuda"), readers.like_nvidia_cuda),
    **dict.fromkeys(_NGC_FRAMEWORKS, readers.like_ngc_release),
    **release_families.BY_NAME,
    **catalogue.BY_NAME,
    **catalogue.WITHOUT_CUDA_BY_NAME,
}
"""By the last part of the path."""

_ANYWHERE: Mapping[str, Reader] = dict.fromkeys(WITHOUT_CUDA_ANYWHERE, _CPU)
"""By the last part of the path, where nothing else is known of it."""

_BY_NAMESPACE: Mapping[str, Reader] = {
    "rapidsai": readers.rapids,
    "merlin": readers.merlin,
    "ai-dynamo": _CUDA,
    "deep-learning-containers": _AMAZON,
    "deeplearning-platform-release": readers.google,
    "vertex-ai": readers.google,
    "azureml": readers.azure,
    "acpt": readers.azure,
    "distroless": _CPU,
    **release_families.BY_NAMESPACE,
    **catalogue.BY_NAMESPACE,
}
"""By one of the two parts before the last."""

_NIM = "nim"
"""nvcr.io/nim/<organisation>/<model>: the tag is the version of the service."""

_NEVER = (_CPU, readers.infrastructure)
"""Readers of images that have no CUDA."""

_NOTHING = Words()
"""What a tag of no known family tells that reads like the name of a branch."""

_OTHER_VENDORS: Mapping[str, str] = {
    "rocm": "ROCm",
    "gaudi-docker": "Gaudi",
    "tpu-pytorch": "TPU",
    "tpu-pytorch-releases": "TPU",
    "ascendai": "Ascend",
}
"""Namespaces whose images are all for another vendor's accelerators. Names that a team may have as well, as neuron is,
are none of them: images for Neuron say it in their own name, too."""

_OF_HARDWARE = re.compile(r"(?<![a-z0-9])(?:gaudi[0-9]*|[hntx]pu|cann[0-9.]*)(?![a-z0-9])", re.ASCII)
"""Words that tell what an image is built for at the end of its name (vllm-tpu), and elsewhere what it is about
(tpu-migration), or nothing (gaudi)."""

_PLATFORMS: Mapping[str, str] = {
    "ROCm": "AMD ROCm",
    "XPU": "Intel XPUs",
    "Neuron": "AWS Neuron",
    "Gaudi": "Intel Gaudi",
    "TPU": "Google TPUs",
    "Ascend": "Huawei Ascend",
    "MUSA": "Moore Threads MUSA",
}


def look_up(reference: ImageReference, tables: CudaTables = SHIPPED) -> Reading:
    """What the name of an image says. Neither its registry nor its digest changes the answer.

    >>> from webhook.model.image import parse_reference
    >>> str(look_up(parse_reference("registry.corp/proxy/nvidia/cuda:12.4.1-base-ubuntu22.04")).cuda)
    '12.4.1'
    """
    name = Name.of(reference)
    reader = _reader(name)
    is_believed = reader is not None or name.in_tag.is_plain
    told = name.in_tag if is_believed else _NOTHING
    platform = _platform(name, told)
    if platform:
        return Reading(BuiltFor.OTHER, None, name.of_tag, Base.PLAIN, platform=_PLATFORMS[platform])
    if name.in_tag.says_cpu:
        return without_cuda(name.of_tag)
    if told.is_tegra or name.in_last.is_tegra:
        return Reading(BuiltFor.CUDA, None, name.of_tag, architectures=("arm64",), notes=("it is built for Jetson",))
    found = reader(name) if reader is not None else readers.of_no_family(name, tables.toolkits.released)
    build = build_of(name.parts) if found.build is KernelBuild.UNKNOWN and found.kind is BuiltFor.CUDA else found.build
    return replace(found, architectures=found.architectures or _architectures(name, told), build=build)


def may_have_cuda() -> Iterator[str]:
    """Every family whose images may have CUDA: the end of the path, or a namespace with /* behind it."""
    named = {**_BY_END, **_BY_NAME, **{f"{namespace}/*": reader for namespace, reader in _BY_NAMESPACE.items()}}
    never = catalogue.WITHOUT_CUDA_BY_END.keys() | catalogue.WITHOUT_CUDA_BY_NAME.keys()
    yield from (name for name, reader in named.items() if reader not in _NEVER and name not in never)
    yield f"{_NIM}/*"


def _architectures(name: Name, told: Words) -> tuple[str, ...]:
    """The CPU architectures that a name speaks of, and its tag, as far as it is believed."""
    own = next((_ARCHITECTURES[part] for part in name.parts[:-1] if part in _ARCHITECTURES), ())
    return told.architectures or name.in_last.architectures or own


def _platform(name: Name, told: Words) -> str:
    """The other vendor's platform that a name speaks of, which no word of CUDA outweighs; empty where it does not."""
    word = _OF_HARDWARE.search(name.last)
    is_sure = word is None or 0 < word.start() < word.end() == len(name.last)
    found = told.platform or (name.in_last.platform if is_sure else "")
    return found or next((_OTHER_VENDORS[part] for part in name.parts[:-1] if part in _OTHER_VENDORS), "")


def _reader(name: Name) -> Reader | None:
    """How the image is read; None for one of no family that is known."""
    parts = name.parts
    found = _BY_END.get("/".join(parts[-2:])) or _BY_NAME.get(parts[-1])
    if found is None and len(parts) > 1:
        namespaces = (part for part in reversed(parts[-3:-1]) if part in _BY_NAMESPACE)
        found = next((_BY_NAMESPACE[part] for part in namespaces), None)
    if found is None and len(parts) > 2 and parts[-3] == _NIM:
        found = catalogue.nim
    if found is None and len(parts) == 1 and parts[0] in WITHOUT_CUDA:
        found = _CPU
    return found or _ANYWHERE.get(parts[-1])

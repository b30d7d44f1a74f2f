"""Clusters and workloads by chance, and what a real upgrade leaves of the nodes: independent of the code that plans."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.facts.samples import GPU_TAINT, claim, device_class, expressions, node
from tests.strategies import examples
from webhook.facts.facts import ClusterFacts

Raw = dict[str, Any]

CUDA_OF = {"470": "11.4", "535": "12.2", "550": "12.4", "570": "12.8", "580": "13.0", "590": "13.1"}
"""Driver branch -> the CUDA that its drivers report."""
DRIVERS = ("470.82.01", "535.183.01", "550.54.15", "570.124.06", "580.95.05", "590.44.01")
PRODUCTS = {
    "Tesla-V100-SXM2-16GB": "7.0",
    "Tesla-P100-PCIE-16GB": "6.0",
    "Tesla-T4": "7.5",
    "NVIDIA-A100-SXM4-80GB": "8.0",
    "NVIDIA-H100-80GB-HBM3": "9.0",
    "NVIDIA-B200": "10.0",
    "NVIDIA-GeForce-RTX-3090": "8.6",
}
IMAGES = (
    "nvidia/cuda:11.4.3-runtime-ubuntu20.04",
    "nvidia/cuda:12.4.1-runtime-ubuntu22.04",
    "nvidia/cuda:12.8.1-devel-ubuntu24.04",
    "nvidia/cuda:13.0.0-base-ubuntu24.04",
    "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime",
    "pytorch/pytorch:2.1.0-cuda11.8-cudnn8-runtime",
    "nvcr.io/nvidia/pytorch:24.05-py3",
    "registry.corp/train:1",
    "registry.corp/known:2",
    "busybox:1.36",
)
POOLS = ("a", "b", "c", "d")
LARGE = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "512Gi"}
"""What the larger nodes have. The smaller ones have half of the GPUs, and less of everything else."""
SELECTOR = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
"""How NVIDIA's DRA driver selects the devices of its class gpu.nvidia.com."""


def driver_labels(driver: str, *, of: Sequence[str] = ("driver-version", "runtime-version")) -> dict[str, str]:
    """What GPU Feature Discovery writes about a driver, under the present or the deprecated names."""
    major, minor, revision = driver.split(".")
    cuda_major, cuda_minor = CUDA_OF[major].split(".")
    every = {
        "driver-version": {"full": driver, "major": major, "minor": minor, "revision": revision},
        "driver": {"major": major, "minor": minor, "rev": revision},
        "runtime-version": {"full": CUDA_OF[major], "major": cuda_major, "minor": cuda_minor},
        "runtime": {"major": cuda_major, "minor": cuda_minor},
    }
    return {f"nvidia.com/cuda.{family}.{part}": text for family in of for part, text in every[family].items()}


FAMILIES = (
    ("driver-version", "runtime-version"),
    ("driver-version", "driver", "runtime-version", "runtime"),
    ("driver", "runtime"),
    ("driver-version",),
)


@dataclass(frozen=True)
class Cluster:
    """The objects of a cluster: nodes, ResourceSlices, what claims need, and workloads with pods."""

    nodes: list[Raw]
    slices: list[Raw]
    objects: list[Raw]

    @property
    def facts(self) -> ClusterFacts:
        templates = [claim("gpu", "ResourceClaimTemplate", "gpu.nvidia.com", namespace="team")]
        classes = [device_class("gpu.nvidia.com", selector=SELECTOR)]
        return ClusterFacts.of(self.nodes, [], [], classes, [], templates, self.slices)

    def with_room(self, *, gpus: int, cpu: int, memory: int) -> "Cluster":
        """The cluster with only the nodes that have so many GPUs, CPUs and GiB; claimed GPUs are not counted."""
        wanted = {"nvidia.com/gpu": gpus, "cpu": cpu, "memory": memory}
        roomy = [raw for raw in self.nodes if all(_amount(raw, name) >= amount for name, amount in wanted.items())]
        names = {raw["metadata"]["name"] for raw in roomy}
        return Cluster(roomy, [raw for raw in self.slices if raw["spec"]["nodeName"] in names], self.objects)

    def upgraded(self, drivers: Mapping[str, str], retired: Sequence[str] = (), added: Sequence[Raw] = ()) -> "Cluster":
        """The cluster after somebody has really installed these drivers: node name -> driver."""
        nodes = []
        sliced = {raw["spec"]["nodeName"] for raw in self.slices}
        for raw in self.nodes:
            name = raw["metadata"]["name"]
            if name in retired:
                continue
            changed = copy.deepcopy(raw)
            if name in drivers:
                labels = changed["metadata"]["labels"]
                families = {key.split(".")[2] for key in labels if key.startswith("nvidia.com/cuda.")}
                of = sorted(families) or ([] if name in sliced else FAMILIES[1])
                labels.update(driver_labels(drivers[name], of=of))
            nodes.append(changed)
        slices = [_with_driver(raw, drivers) for raw in self.slices if raw["spec"]["nodeName"] not in retired]
        return Cluster([*nodes, *added], slices, self.objects)


def _amount(node: Raw, resource: str) -> int:
    return int(node["status"]["capacity"].get(resource, "0").removesuffix("Gi"))


def _with_driver(raw: Raw, drivers: Mapping[str, str]) -> Raw:
    driver = drivers.get(raw["spec"]["nodeName"])
    changed = copy.deepcopy(raw)
    for device in changed["spec"]["devices"] if driver is not None else ():
        device["attributes"]["driverVersion"] = {"version": driver}
        device["attributes"]["cudaDriverVersion"] = {"version": CUDA_OF[str(driver).split(".", 1)[0]]}
    return changed


def gpu_node(name: str, product: str, driver: str, families: Sequence[str], **labels: str) -> Raw:
    major, minor = PRODUCTS[product].split(".")
    known = {
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "kubernetes.io/arch": "amd64",
        **(driver_labels(driver, of=families) if families else {}),
        **labels,
    }
    taints = () if labels.get("pool") == "d" else (GPU_TAINT,)
    return node(name, labels=known, taints=taints, capacity={"nvidia.com/gpu": "8", "cpu": "64"}, uid=name)


def slice_of(name: str, product: str, driver: str) -> Raw:
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": product.replace("-", " ")},
        "driverVersion": {"version": driver},
        "cudaDriverVersion": {"version": CUDA_OF[driver.split(".", maxsplit=1)[0]]},
    }
    devices = [{"name": f"gpu-{at}", "attributes": copy.deepcopy(attributes)} for at in range(2)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"s-{name}"},
        "spec": spec,
    }


def cluster(seed: int, nodes: int = 40, workloads: int = min(400, examples(400))) -> Cluster:
    """A cluster with so many nodes and workloads; a tenth of the nodes offers its GPUs by ResourceSlices."""
    random = Random(seed)
    found, slices = [], []
    for at in range(nodes):
        product, driver = random.choice(list(PRODUCTS)), random.choice(DRIVERS[:5])
        pool = random.choice(POOLS)
        by_dra = at % 10 == 0
        size = random.choice(({"nvidia.com/gpu": "4", "cpu": "32", "memory": "128Gi"}, LARGE, LARGE))
        families = () if by_dra or at % 13 == 5 else random.choice(FAMILIES)
        raw = gpu_node(f"n{at}", product, driver, families, pool=pool, zone=random.choice("xy"))
        raw["status"]["capacity"] = {**size}
        if by_dra:
            del raw["status"]["capacity"]["nvidia.com/gpu"]
            slices.append(slice_of(f"n{at}", product, driver))
        found.append(raw)
    objects = [_workload(at, random, found) for at in range(workloads)]
    return Cluster(found, slices, objects)


def _workload(at: int, random: Random, nodes: Sequence[Raw]) -> Raw:
    """A Deployment, a Job or a pod that runs already, with one of many choices of nodes."""
    spec = spec_of(random)
    kind = random.choice(("Deployment", "Job", "Pod"))
    head = {"name": f"w{at}", "namespace": "team", "uid": f"00000000-0000-4000-8000-{at:012d}"}
    if kind == "Pod":
        if random.random() < 0.5:
            spec["nodeName"] = random.choice(nodes)["metadata"]["name"]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec, "status": {"phase": "Running"}}
    body: Raw = {"template": {"metadata": {"labels": {"app": f"w{at}"}}, "spec": spec}}
    if kind == "Deployment":
        body |= {"replicas": random.randint(1, 4), "selector": {"matchLabels": {"app": f"w{at}"}}}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": head, "spec": body}
    spec["restartPolicy"] = "Never"
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": head, "spec": body}


def spec_of(random: Random, *, has_claims: bool = True) -> Raw:
    """The spec of a pod with one container, which asks for GPUs and may choose its nodes."""
    limits = {"memory": random.choice(("8Gi", "8Gi", "256Gi")), "cpu": random.choice(("4", "4", "48"))}
    container: Raw = {"name": "main", "image": random.choice(IMAGES), "resources": {"limits": limits}}
    spec: Raw = {"containers": [container]}
    if has_claims and random.random() < 0.1:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        container["resources"]["claims"] = [{"name": "gpu"}]
    else:
        container["resources"]["limits"]["nvidia.com/gpu"] = random.choice("1148")
    _chosen(random)(random, spec)
    return spec


def _anywhere(random: Random, spec: Raw) -> None:
    """It runs wherever it fits."""


def _in_a_pool(random: Random, spec: Raw) -> None:
    spec["nodeSelector"] = {"pool": random.choice(POOLS)}


def _on_a_product(random: Random, spec: Raw) -> None:
    spec["nodeSelector"] = {"nvidia.com/gpu.product": random.choice(list(PRODUCTS))}


def _by_driver(random: Random, spec: Raw) -> None:
    spec["nodeSelector"] = {"nvidia.com/cuda.driver-version.major": random.choice(list(CUDA_OF))}


def _steered(random: Random, spec: Raw) -> None:
    old = expressions(("nvidia.com/cuda.driver-version.major", "NotIn", random.sample(list(CUDA_OF), 2)))
    spec["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [old]}}
    }


def _chosen(random: Random) -> Callable[[Random, Raw], None]:
    return random.choice((_anywhere, _in_a_pool, _in_a_pool, _on_a_product, _by_driver, _steered))

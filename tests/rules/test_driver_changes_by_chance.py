"""What is announced is what comes: warnings before an upgrade are the losses after nodes were really relabelled."""

import copy
from random import Random
from typing import Any

import pytest

from tests.rules.samples import container, pod, settings_of
from webhook.cuda.assessment import assess
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.evidence import ImageContext, need_of
from webhook.facts.facts import ClusterFacts
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.cluster_settings import PoolSettings
from webhook.rules.cuda_driver import RULE
from webhook.rules.rule import Violation

GPU = "nvidia.com/gpu"
DRIVERS = ("470.256.02", "535.183.01", "550.163.01", "570.172.08", "580.95.05", "590.48.01", "595.71.05")
CUDA = {"470": "11.4", "535": "12.2", "550": "12.4", "570": "12.8", "580": "13.0", "590": "13.1", "595": "13.2"}
PRODUCTS = (
    "Tesla-V100-SXM2-32GB",
    "Tesla-T4",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-B200",
    "NVIDIA-B300-SXM6-AC",
    "NVIDIA-GeForce-RTX-3090",
)
IMAGES = (
    "nvidia/cuda:11.4.3-base-ubuntu20.04",
    "nvidia/cuda:12.4.1-base-ubuntu22.04",
    "nvidia/cuda:13.0.0-base-ubuntu24.04",
    "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime",
    "pytorch/pytorch:2.6.0-cuda11.8-cudnn9-runtime",
    "nvcr.io/nvidia/pytorch:25.10-py3",
    "registry.example.com/team/app:1",
)
DECEMBER = 1_796_083_200.0


def labelled(driver: str) -> dict[str, str]:
    """What GPU Feature Discovery writes about a driver."""
    major, minor, revision = driver.split(".")
    parts = {"full": driver, "major": major, "minor": minor, "revision": revision}
    return {
        **{f"nvidia.com/cuda.driver-version.{part}": value for part, value in parts.items()},
        "nvidia.com/cuda.runtime-version.full": CUDA[major],
        "nvidia.com/cuda.runtime-version.major": CUDA[major].split(".")[0],
    }


def cluster(chance: Random) -> list[dict[str, Any]]:
    """Some nodes of three pools."""
    return [
        {
            "metadata": {
                "name": f"n{number}",
                "labels": {
                    "pool": chance.choice("abc"),
                    "nvidia.com/gpu.product": chance.choice(PRODUCTS),
                    **labelled(chance.choice(DRIVERS)),
                },
            },
            "status": {"capacity": {GPU: "8"}},
        }
        for number in range(chance.randint(1, 8))
    ]


def pool(chance: Random, name: str) -> NodePool:
    """A pool whose driver will change."""
    product, present, coming = chance.choice(PRODUCTS), *chance.sample(DRIVERS, 2)
    written = {
        "name": name,
        "labels": {"pool": name},
        "driver": present,
        "next": {"driver": coming, "from": "2026-12-01"},
    }
    if chance.random() < 0.5:
        written["product"] = product
    return PoolSettings.model_validate(written, by_alias=True).pool


def upgraded(nodes: list[dict[str, Any]], changing: NodePool) -> list[dict[str, Any]]:
    """The nodes after somebody has really installed the driver on those of the pool."""
    after = copy.deepcopy(nodes)
    product = dict(changing.labels).get("nvidia.com/gpu.product")
    for node in after:
        labels = node["metadata"]["labels"]
        if labels["pool"] == changing.name and product in (None, labels["nvidia.com/gpu.product"]):
            labels.update(labelled(changing.next.driver))
    return after


def failing(image: str, nodes: list[dict[str, Any]], pools: tuple[NodePool, ...]) -> dict[str, bool]:
    """Node or pool -> whether an image certainly does not run there, asked one by one."""
    alone: list[tuple[str, ClusterFacts]] = [(raw["metadata"]["name"], ClusterFacts.of([raw])) for raw in nodes]
    alone += [(f"pool {one.name}", ClusterFacts().with_pools((one,))) for one in pools]
    need = need_of(image, ImageContext())
    subject = pod_from_raw(pod(container(gpus=1, image=image)))
    return {
        name: assess((need,), facts.matching_nodes(subject), SHIPPED, is_forward_compat_allowed=True)
        .verdicts[0]
        .result.verdict
        is Verdict.INCOMPATIBLE
        for name, facts in alone
    }


@pytest.mark.parametrize("seed", range(150))
def test_what_is_announced_is_what_is_lost(seed: int) -> None:
    """Each pool alone: a warning exactly if a node, or the pool, may run the image now and certainly will not then."""
    chance = Random(seed)
    nodes = cluster(chance)
    changing = pool(chance, chance.choice("abc"))
    image = chance.choice(IMAGES)
    before = failing(image, nodes, (changing,))
    after = failing(image, upgraded(nodes, changing), (changing.at(DECEMBER),))
    lost = {name for name in before if after[name] and not before[name]}
    raw = pod(container(gpus=1, image=image))
    facts = ClusterFacts.of(nodes).with_pools((changing,))
    found = list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {"steer": False}), facts))
    is_refused = any(isinstance(one, Violation) for one in found)
    assert is_refused == all(before.values())
    assert any("1 December 2026" in one.found for one in found) == (bool(lost) and not is_refused)
    if lost and not is_refused:
        (advice,) = (one for one in found if "1 December 2026" in one.found)
        assert ("no other nodes" in advice.found) == (all(after.values()))


def test_chance_makes_every_kind_of_outcome() -> None:
    """A generator that never loses a node would prove nothing."""
    outcomes = set()
    for seed in range(150):
        chance = Random(seed)
        nodes = cluster(chance)
        changing = pool(chance, chance.choice("abc"))
        image = chance.choice(IMAGES)
        before = failing(image, nodes, (changing,))
        after = failing(image, upgraded(nodes, changing), (changing.at(DECEMBER),))
        is_lost = any(after[name] and not before[name] for name in before)
        outcomes.add((is_lost, all(before.values()), all(after.values())))
    assert outcomes >= {(True, False, True), (True, False, False), (False, True, True), (False, False, False)}

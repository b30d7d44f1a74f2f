"""Rules know images in both phases if the replica looks images up, and none otherwise."""

from pathlib import Path
from typing import Any

import pytest

from tests.build import FACTS, pod, request, workload
from webhook.admission.metrics import Metrics
from webhook.admission.service import Service
from webhook.admission.watchdog import TimeBudget
from webhook.facts.live import StaticFacts
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.policy.policy_store import PolicyStore
from webhook.replica.replica import Replica

ROOT = Path(__file__).parents[2]


class Remembering:
    """Look-ups that remember what they were asked about, and whether they run."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()
        self.recalled: set[tuple[str, str]] = set()
        self.life: list[str] = []
        self.service = self

    def info(self, text: str, asker: str = "", *, looks_up: bool = True) -> ImageInfo:
        (self.asked if looks_up else self.recalled).add((text, asker))
        return NOT_LOOKED_UP

    def start(self, metrics: Metrics) -> None:
        assert metrics.page()
        self.life.append("started")

    def close(self) -> None:
        self.life.append("closed")


@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_both_phases_ask_about_the_images_of_a_gpu_pod_for_its_namespace(phase: str) -> None:
    images = Remembering()
    service = Service(PolicyStore(ROOT / "policies"), StaticFacts(FACTS), Metrics(), images)
    asked: Any = getattr(service, phase)
    asked(request(pod(1), namespace="team-a"), FACTS, TimeBudget())
    assert images.asked == {("registry.example.com/train:1", "team-a")}


@pytest.mark.parametrize("phase", ["mutate", "validate", "workloads"])
def test_a_dry_run_goes_by_what_is_known_of_images_and_has_none_looked_up(phase: str) -> None:
    images = Remembering()
    service = Service(PolicyStore(ROOT / "policies"), StaticFacts(FACTS), Metrics(), images)
    asked: Any = getattr(service, phase)
    raw = workload("Deployment", pod(1)) if phase == "workloads" else pod(1)
    asked(request(raw, namespace="team-a", dryRun=True), FACTS, TimeBudget())
    assert (images.asked, images.recalled) == (set(), {("registry.example.com/train:1", "team-a")})


def test_look_ups_begin_and_end_with_the_replica(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    images = Remembering()
    replica = Replica(ROOT / "policies", inventory, images=images)
    assert images.life == ["started"]
    replica.close()
    assert images.life == ["started", "closed"]

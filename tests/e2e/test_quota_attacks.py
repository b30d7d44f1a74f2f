"""Attacks on quotas, on a real API server with three replicas: who has no pods stored keeps nobody out."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from uuid import uuid4

import pytest
import yaml

from tests.build import review
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.neighbour import concerning_pod, deciding
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_cases import POLICIES
from tests.e2e.quota_fixtures import create
from tests.e2e.quota_site import CONFIG_MAPS, QuotaSite, shared_quotas_text

Namespaces = Callable[[str], str]

HONEST = 12
SHARED_QUOTA = {"name": "contended", "namespaces": ["contended-*", "honest-*"], "gpus": 16}


@pytest.fixture
def shared_quota(quotas: QuotaSite) -> Iterator[str]:
    """A shared quota of 16 GPUs of which nothing is held any more; the key of its quota."""
    before = POLICIES["_quotas.yaml"]
    quotas.write_policies({"_quotas.yaml": shared_quotas_text(*yaml.safe_load(before)["spec"]["quotas"], SHARED_QUOTA)})
    eventually(lambda: not quotas.entered("shared.contended"))
    yield "shared.contended"
    quotas.write_policies({"_quotas.yaml": before})


def refuse_all_gpus(plane: ControlPlane, namespace: str) -> None:
    """A ResourceQuota that leaves no GPU."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    none = {"requests.nvidia.com/gpu": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": none}}
    plane.raw("POST", path, quota)
    status = {"status": {"hard": none, "used": none}}  # as the controller writes it, which does not run here
    assert plane.raw("PATCH", f"{path}/none/status", status)[0] == 200


def take_the_name(plane: ControlPlane, namespace: str) -> None:
    """A pod without GPUs of which no replica hears."""
    manifest = gpu_pod("taken", 1)
    del manifest["spec"]["containers"][0]["resources"]
    assert plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)[0] == 201


@contextmanager
def refused_again_and_again(quotas: QuotaSite, namespace: str, gpus: int) -> Iterator[list[int]]:
    """Four threads of creates; what each was answered."""
    answers: list[int] = []
    ends = threading.Event()

    def attack() -> None:
        while not ends.is_set():
            answers.append(create(quotas, namespace, gpu_pod("taken", gpus))[0])

    threads = [threading.Thread(target=attack, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ends.set()
        for thread in threads:
            thread.join(60)


@pytest.mark.parametrize(
    "refuse", [pytest.param(refuse_all_gpus, id="ResourceQuota"), pytest.param(take_the_name, id="AlreadyExists")]
)
def test_creates_that_others_refuse_keep_no_other_namespace_out_of_a_shared_quota(
    quotas: QuotaSite, shared_quota: str, make_namespace: Namespaces, refuse: Callable[[ControlPlane, str], None]
) -> None:
    hostile, honest = make_namespace("contended"), make_namespace("honest")
    refuse(quotas.plane, hostile)
    answers: list[tuple[int, str]] = []
    with refused_again_and_again(quotas, hostile, 8) as refused:
        eventually(lambda: len(refused) > 8)
        for number in range(HONEST):
            answers.append(create(quotas, honest, gpu_pod(f"one-{number}", 1)))
            path = f"/api/v1/namespaces/{honest}/pods/one-{number}?gracePeriodSeconds=0"
            assert quotas.plane.raw("DELETE", path)[0] == 200
    assert answers == [(201, "")] * HONEST, quotas.logs()
    assert not {201} & set(refused)


def test_a_client_tries_again_by_itself_while_pods_before_its_own_are_not_stored(
    quotas: QuotaSite, shared_quota: str, installation: Installation, make_namespace: Namespaces
) -> None:
    """Kubectl shows nothing of it: the API server makes a header Retry-After of what the webhook answers."""
    namespace, may_answer = make_namespace("contended"), Event()

    def decide(name: str) -> str:
        if name == "slow":
            may_answer.wait(10)
        return ""

    path = f"/api/v1/namespaces/{namespace}/pods"
    slow, next_one = concerning_pod("slow"), concerning_pod("next")
    for manifest in (slow, next_one):
        manifest["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8
    with deciding(installation, decide), ThreadPoolExecutor(2) as pool:
        first = pool.submit(create, quotas, namespace, slow)
        eventually(lambda: len(quotas.entered(shared_quota)) == 1)
        status, headers, _ = quotas.plane.exchange("POST", path, next_one)
        assert (status, {name.lower(): value for name, value in headers.items()}["retry-after"]) == (429, "1")
        text = yaml.safe_dump(next_one)
        second = pool.submit(quotas.plane.kubectl, "create", "-f", "-", input=text, namespace=namespace)
        may_answer.set()
        assert first.result() == (201, "")
        assert "created" in second.result().stdout
    quotas.plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")


def test_reviews_of_made_up_namespaces_leave_no_ledgers(quotas: QuotaSite) -> None:
    """By somebody who reaches the port: of namespaces that a policy covers."""
    replica = quotas.replicas.running[0]
    before = {one["metadata"]["name"] for one in quotas.plane.raw("GET", CONFIG_MAPS)[1]["items"]}
    for number in range(20):
        raw = gpu_pod("made-up", 1)
        raw["metadata"] |= {"uid": str(uuid4())}
        answer = replica.ask("/validate", review(raw, namespace=f"few-made-up-{number}"))
        assert answer["allowed"] is False
        assert "there is no namespace" in answer["status"]["message"]
    after = {one["metadata"]["name"] for one in quotas.plane.raw("GET", CONFIG_MAPS)[1]["items"]}
    assert not {name for name in after - before if "made-up" in name}

"""Classes, device classes and claims are followed in the version that the API server has; nothing waits in vain."""

import json
import time
from threading import Event
from typing import Any

import pytest

from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import (
    CLAIMS,
    DEVICE_CLASSES,
    NODES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    TEMPLATES,
    Request,
    always,
    first,
)
from tests.facts.following import EXPIRED_EVENT, OTHERS_FOLLOWED, STATUS, following, nodes, watched
from tests.facts.samples import claim, device_class, node, pod
from webhook.facts.live import LiveFacts
from webhook.model.claims import CLAIM, TEMPLATE, Devices, PodResourceClaim, Requests

CLASSES = pytest.mark.parametrize(
    ("path", "name", "known"),
    [
        pytest.param(
            RUNTIME_CLASSES, "runtimeclasses", lambda found: found.cluster.runtime_classes, id="runtime classes"
        ),
        pytest.param(
            PRIORITY_CLASSES, "priorityclasses", lambda found: found.priority_classes(), id="priority classes"
        ),
    ],
)


@CLASSES
def test_classes_that_must_not_be_listed_are_an_error(server, tmp_path, path, name, known):
    server.instead[path] = always(403, STATUS)
    with following(server, tmp_path) as facts:
        eventually(lambda: f"{name}: the API server answered 403: it is not to be" in facts.status(0).detail)
        assert facts.facts is None
        server.instead.clear()
        eventually(lambda: facts.facts is not None and len(known(facts.facts)) == 1)


@CLASSES
def test_a_cluster_without_the_api_of_a_class_has_none(server, tmp_path, path, name, known):
    server.instead[path] = always(404, b"404 page not found")
    with following(server, tmp_path) as facts:
        eventually(lambda: nodes(facts) == {"a", "b"})
        assert facts.facts is not None
        assert known(facts.facts) == {}
        status = eventually(lambda: (status := facts.status(time.monotonic())).ready and status)
        assert not status.stale
        assert f"{name}: unknown to the API server, so there are none" in status.detail
        server.instead.clear()
        eventually(lambda: facts.facts is not None and len(known(facts.facts)) == 1)


ASKING = pod(gpus={"nvidia.com/gpu": 1})


ABSENT = always(404, b"404 page not found")


def claimable(facts: LiveFacts) -> bool | None:
    """Whether a pod may get a GPU that no node lists, None where facts are not loaded."""
    return None if facts.facts is None else bool(facts.facts.feasible_nodes(ASKING))


def test_an_api_server_without_device_classes_has_none_and_is_asked_again(server, tmp_path):
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.objects[DEVICE_CLASSES] = [device_class("gpu.nvidia.com", "nvidia.com/gpu")]
    with following(server, tmp_path) as facts:
        eventually(lambda: claimable(facts) is False)
        status = eventually(lambda: (status := facts.status(time.monotonic())).ready and status)
        assert "deviceclasses: unknown to the API server, so there are none" in status.detail
        server.instead[DEVICE_CLASSES] = server.answer
        eventually(lambda: claimable(facts))


def test_a_version_that_an_upgrade_takes_away_is_followed_in_the_next(server, tmp_path):
    old = "/apis/resource.k8s.io/v1beta1/deviceclasses"
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.instead[old] = server.answer
    server.objects[old] = []
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        server.objects[DEVICE_CLASSES] = [device_class("gpu.nvidia.com", "nvidia.com/gpu")]
        server.instead[DEVICE_CLASSES] = server.answer
        server.instead[old] = ABSENT
        server.break_off()
        eventually(lambda: claimable(facts))


def test_device_classes_that_must_not_be_listed_are_not_known_and_nothing_waits_for_them(server, tmp_path):
    server.instead[DEVICE_CLASSES] = always(403, STATUS)
    with following(server, tmp_path) as facts:
        eventually(lambda: claimable(facts))
        status = eventually(lambda: (status := facts.status(time.monotonic())).ready and status)
        assert not status.stale
        wanted = "deviceclasses: nothing is known of them: the API server answered 403: it is not to be"
        assert wanted in status.detail
        server.instead.clear()
        eventually(lambda: claimable(facts) is False)
        server.instead[DEVICE_CLASSES] = always(403, STATUS)
        server.break_off()
        eventually(lambda: claimable(facts))


def claimed(facts: LiveFacts, kind: str = TEMPLATE, name: str = "t") -> Requests | None:
    """What a claim of the namespace `team` asks for, None where it is not known."""
    return None if facts.facts is None else facts.facts.claim(PodResourceClaim("c", kind, name), "team")


GPU, SLICE = (((Devices(name),),) for name in ("gpu.nvidia.com", "mig.nvidia.com"))


@pytest.mark.parametrize("kind", [CLAIM, TEMPLATE])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_claims_are_followed_in_whatever_version_the_api_server_has(server, tmp_path, version, kind):
    path = (CLAIMS if kind == CLAIM else TEMPLATES).replace("/v1/", f"/{version}/")
    server.under["/apis/resource.k8s.io/"] = ABSENT
    server.instead[path] = server.answer
    server.objects[path] = [claim("t", kind, "gpu.nvidia.com")]
    with following(server, tmp_path) as facts:
        eventually(lambda: claimed(facts, kind) == GPU)
        eventually(lambda: f"{path.rpartition('/')[2]}: followed" in facts.status(0).detail)
        server.tell_event(path, "ADDED", claim("u", kind, "mig.nvidia.com"), "105")
        eventually(lambda: claimed(facts, kind, "u") == SLICE)
        server.tell_event(path, "DELETED", claim("t", kind, "gpu.nvidia.com"), "106")
        eventually(lambda: claimed(facts, kind) is None)
        assert claimed(facts, kind, "u") == SLICE


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(always(403, STATUS), id="forbidden"),
        pytest.param(always(500, STATUS), id="an error"),
        pytest.param(always(200, b"no JSON"), id="garbage"),
    ],
)
def test_no_replica_waits_for_claims_that_cannot_be_listed_and_none_is_taken_out_for_them(server, tmp_path, answer):
    server.instead[TEMPLATES] = answer
    with following(server, tmp_path) as facts:
        eventually(lambda: nodes(facts) == {"a", "b"})
        assert eventually(lambda: (status := facts.status(time.monotonic() + 1000)).ready and status).server_reachable
        assert claimed(facts) is None
        server.objects[TEMPLATES] = [claim("t", TEMPLATE, "gpu.nvidia.com")]
        server.instead.clear()
        eventually(lambda: claimed(facts) == GPU)


DEEP = b'{"a":' * 1600 + b"1" + b"}" * 1600


def test_a_claim_nested_too_deep_keeps_no_other_from_being_known(server, tmp_path):
    """Its parameters may be nested thousands of levels deep."""

    def with_depths(raw: Any) -> bytes:
        return json.dumps(raw).encode().replace(b'"DEEP"', DEEP)

    def listed(request: Request, path: str, query: dict[str, str]) -> None:
        if "watch" in query:
            server.answer(request, path, query)
        else:
            items = [claim("deep", TEMPLATE, "gpu.nvidia.com", config="DEEP"), claim("t", TEMPLATE, "gpu.nvidia.com")]
            request.send(200, with_depths({"metadata": {"resourceVersion": "7"}, "items": items}))

    server.instead[TEMPLATES] = listed
    with following(server, tmp_path) as facts:
        eventually(lambda: claimed(facts) == GPU)
        assert claimed(facts, name="deep") == GPU
        assert facts.status(time.monotonic()).ready


@CLASSES
def test_classes_that_were_known_are_kept_when_the_server_forgets_the_api(server, tmp_path, path, name, known):
    with following(server, tmp_path) as facts:
        eventually(lambda: watched(facts))
        server.instead[path] = always(404, b"404 page not found")
        server.tell(path, EXPIRED_EVENT)
        eventually(lambda: f"{name}: the API server answered 404" in facts.status(0).detail)
        assert facts.facts is not None
        assert len(known(facts.facts)) == 1


def test_classes_that_arrive_during_a_long_list_of_nodes_are_kept(server, tmp_path):
    arrived = Event()

    def wait(request: Request, path: str, query: dict[str, str]) -> None:
        arrived.wait(10)
        server.answer(request, path, query)

    server.objects[NODES] = [node(f"n{number}") for number in range(150)]
    server.instead[NODES] = first(server.answer, then=wait)
    with following(server, tmp_path) as facts:
        eventually(lambda: len(server.lists(NODES)) == 2 and OTHERS_FOLLOWED in facts.status(0).detail)
        arrived.set()
        found = eventually(lambda: facts.facts)
        assert found.runtime_class("nvidia") is not None
        assert set(found.priority_classes()) == {"low"}
        assert len(found.cluster.nodes) == 150

"""A container asks for one unit of a shared GPU at most, whatever the device plugin calls it."""

import pytest
from hypothesis import strategies as st

from tests.fuzz.oracles import amounts
from tests.rules.rule_case import RuleCase, RulePods, requesting
from tests.rules.samples import container, messages, pod
from webhook.rules.shared_gpus import RULE

SHARED, SHARED_SLICE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.shared"


@pytest.mark.parametrize(
    ("resource", "larger"),
    [
        pytest.param(SHARED, "whole GPUs (nvidia.com/gpu)", id="GPUs"),
        pytest.param(SHARED_SLICE, "a larger slice", id="MIG slices"),
        pytest.param("nvidia.com/mig-1g.10gb.me.shared", "a larger slice", id="MIG slices with media engines"),
    ],
)
def test_several_units_in_one_container_are_refused(resource, larger):
    assert messages(RULE, pod(container(gpus=2, resource=resource))) == [
        f"spec.containers[trainer].resources: requests 2 {resource}; more than 1 does not give more compute, and a "
        f"device plugin set up as NVIDIA advises refuses it. Request 1, or {larger}."
    ]


@pytest.mark.parametrize("written", [2, "2", "2e0", "2000m", "0.002k"], ids=repr)
def test_the_amount_is_read_in_every_spelling(written):
    (message,) = messages(RULE, pod(container(gpus=written, resource=SHARED)))
    assert "requests 2 nvidia.com/gpu.shared" in message


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(container(gpus=1, resource=SHARED)), id="one"),
        pytest.param(pod(container(gpus="1", resource=SHARED_SLICE)), id="one, as text"),
        pytest.param(pod(container(gpus=0, resource=SHARED)), id="none"),
        pytest.param(pod(container(gpus="many", resource=SHARED)), id="no number"),
        pytest.param(pod(container(gpus=-2, resource=SHARED)), id="a negative number"),
        pytest.param(pod(container("a", 1, SHARED), container("b", 1, SHARED)), id="one in each of two containers"),
        pytest.param(
            pod(container(resources={"limits": {SHARED: 1, SHARED_SLICE: 1}})), id="one of each of two resources"
        ),
        pytest.param(pod(container(gpus=8)), id="whole GPUs"),
        pytest.param(pod(container(gpus=2, resource="nvidia.com/mig-1g.10gb")), id="slices of one's own"),
        pytest.param(pod(container(gpus=2, resource="nvidia.com/gpu-10gb.shared")), id="a name that is no GPU"),
        pytest.param(pod(container(gpus=2, resource="nvidia.com/NVIDIA_A10.shared")), id="a GPU passed through"),
        pytest.param(pod(container(), ephemeralContainers=[container("debug", 2, SHARED)]), id="ephemeral"),
    ],
)
def test_anything_else_is_allowed(raw):
    assert messages(RULE, raw) == []


def test_every_container_is_told():
    raw = pod(
        container("a", 2, SHARED), container("b", 3, SHARED_SLICE), initContainers=[container("check", 4, SHARED)]
    )
    assert [message.partition(";")[0] for message in messages(RULE, raw)] == [
        "spec.initContainers[check].resources: requests 4 nvidia.com/gpu.shared",
        "spec.containers[a].resources: requests 2 nvidia.com/gpu.shared",
        "spec.containers[b].resources: requests 3 nvidia.com/mig-1g.10gb.shared",
    ]


def test_what_stands_in_requests_only_is_counted_as_well():
    raw = pod(container(resources={"requests": {SHARED: 2}}))
    assert len(messages(RULE, raw)) == 1


CASE = RuleCase(
    pods=lambda raw: RulePods(breaks=requesting(raw, SHARED, "2"), keeps=requesting(raw, SHARED, "1")),
    values=st.just({}),
    enforced={},
    fuzzed={},
    oracle=amounts.shared_gpus,
)

"""Memory and CPU that an operator writes into its pods are not missing in the object that it makes them from."""

import pytest

from tests.golden import each
from tests.rules.samples import advice, messages
from webhook.model.shape import ShapeError
from webhook.model.workloads import templates_of
from webhook.rules import shared_memory
from webhook.rules.memory_and_cpu import RULE

ONE = {"nvidia.com/gpu": 1}


def spark(**executor):
    """An application whose executors ask for a GPU. Spark gives each container memory and cores, written or not."""
    executor = {"instances": 2, "gpu": {"name": "nvidia.com/gpu", "quantity": 1}, **executor}
    spec = {"image": "registry.example.com/spark:1", "executor": executor}
    return {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "spec": spec}


def kserve(**resources):
    """A service whose container is completed by a runtime, which has amounts of its own."""
    model = {"modelFormat": {"name": "onnx"}, "resources": resources}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "spec": {"predictor": {"model": model}},
    }


def custom(component="predictor", beside=(), **resources):
    """A service with a container of its own, which KServe's webhook completes, and others beside it."""
    containers = [{"image": "registry.example.com/serve:1", "resources": resources}, *beside]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "spec": {component: {"containers": containers}},
    }


def told(raw, values=None):
    return [message for template in templates_of(raw) for message in messages(RULE, template.made, values)]


@each(
    "raw",
    {
        "Spark, by default": spark(),
        "Spark, as it writes them": spark(memory="8g", cores=4),
        "KServe, GPUs alone": kserve(limits=ONE),
        "KServe, null": kserve(limits=ONE, requests=None),
        "KServe, all": kserve(limits={**ONE, "memory": "8Gi", "cpu": 4}),
        "KServe, a container of its own": custom(limits=ONE),
        "KServe, a transformer": custom("transformer", limits=ONE),
    },
)
def test_what_an_operator_fills_in_is_not_missing(raw):
    assert told(raw, {"memoryRequestEqualsLimit": True}) == []


@pytest.mark.parametrize("raw", [kserve(limits=ONE), custom(limits=ONE)], ids=["a model", "a container of its own"])
def test_no_finding_is_about_a_missing_limit_that_is_filled_in(raw):
    assert [one for template in templates_of(raw) for one in advice(shared_memory.RULE, template.made)] == []


def test_only_the_first_container_is_completed_and_none_beside_a_model():
    sidecar = {"name": "sidecar", "image": "registry.example.com/side:1", "resources": {"limits": ONE}}
    (said,) = told(custom(beside=[sidecar], limits=ONE))
    assert "sidecar" in said
    beside_a_model = kserve(limits=ONE)
    beside_a_model["spec"]["predictor"]["containers"] = [sidecar]
    (said,) = told(beside_a_model)
    assert "sidecar" in said


def test_what_no_api_server_would_take_is_still_an_error():
    with pytest.raises(ShapeError, match=r"limits: found a list, expected a map"):
        told(kserve(limits=["nvidia.com/gpu"]))

"""What is filled in later is neither judged nor counted, and what stands there already is."""

from typing import Any

import pytest

from tests.golden import golden
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import Template, templates_of
from webhook.model.workloads.template import is_placeholder


def of_workflow(**template: Any) -> tuple[Template, ...]:
    return templates_of(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "spec": {"templates": [{"name": "train", **template}]},
        }
    )


def container(**parts: Any) -> dict[str, Any]:
    return {"image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}, **parts}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{workflow.parameters.n}}", True),
        ("{{=asInt(inputs.parameters.n)}}", True),
        ("a-{{n}}", True),
        ("$GPU_PER_NODE", True),
        ("${GPUS}", True),
        ("$(params.gpus)", True),
        ("<gpu-product>", True),
        ("your-node-name", True),
        ("YOUR_NODE", True),
        ("REPLACE_ME", True),
        ("replace-with-your-pool", True),
        ("changeme", True),
        ("node-name-here", True),
        ("%NODE%", True),
        ("yours", False),
        ("replacements", False),
        ("exchange-meters", False),
        ("1 < 2", False),
        ("1", False),
        ("US$5", False),
        ("{a}", False),
        ("", False),
        (1, False),
        (None, False),
    ],
    ids=str,
)
def test_a_placeholder_is_told_from_what_only_looks_odd(value: object, expected: bool) -> None:
    assert is_placeholder(value) is expected


@golden
def test_nothing_is_said_of_pods_that_may_ask_for_any_number_of_gpus(resources: object) -> None:
    assert of_workflow(container=container(resources=resources)) == ()
    assert of_workflow(container=container(), sidecars=[{"name": "a", "resources": resources}]) == ()


def test_another_amount_that_is_filled_in_later_hides_no_gpus() -> None:
    (template,) = of_workflow(container=container(resources={"limits": {"nvidia.com/gpu": 2, "memory": "{{m}}"}}))
    assert pod_from_raw(template.pod).gpu_count == 2


def test_of_an_image_and_a_variable_that_are_filled_in_later_nothing_can_be_said() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "{{devices}}"}, {"name": "A", "value": "b"}]
    (template,) = of_workflow(container=container(image="{{image}}", env=env))
    inside = "spec.containers[main]"
    assert template.is_unknown(f"{inside}.image")
    assert template.is_unknown(f"{inside}.env[NVIDIA_VISIBLE_DEVICES]")
    assert not template.is_unknown(f"{inside}.env[A]")
    assert not template.is_unknown(f"{inside}.resources")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nodeSelector", {"{{key}}": "a"}),
        ("nodeSelector", {"gpu": "{{gpu}}"}),
        ("affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "{{terms}}"}}),
        ("tolerations", [{"key": "{{key}}", "tolerationSeconds": "{{n}}"}]),
    ],
    ids=str,
)
def test_a_pod_that_is_placed_later_may_land_anywhere(key: str, value: Any) -> None:
    (template,) = of_workflow(container=container(), **{key: value})
    pod = pod_from_raw(template.pod)
    assert (pod.node_selector, pod.required) == ({}, None)
    assert [toleration.key for toleration in pod.tolerations] == ([""] if key == "tolerations" else [])


@pytest.mark.parametrize("amount", ["$GPU_PER_NODE", "{{ .Values.gpus }}", "$(params.gpus)"])
def test_placeholders_are_recognised_in_unknown_kinds(amount: str) -> None:
    spec = {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": amount}}}]}
    assert templates_of({"apiVersion": "tekton.dev/v1", "kind": "Task", "spec": {"podTemplate": spec}}) == ()


@pytest.mark.parametrize("of", ["workflow", "template", "defaults"])
def test_nothing_is_said_of_pods_that_are_patched(of: str) -> None:
    template: dict[str, Any] = {"name": "train", "container": container()}
    spec: dict[str, Any] = {"templates": [template]}
    {"workflow": spec, "template": template, "defaults": spec.setdefault("templateDefaults", {})}[of][
        "podSpecPatch"
    ] = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]"
    assert templates_of({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": spec}) == ()

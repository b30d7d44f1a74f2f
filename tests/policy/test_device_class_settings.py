"""What policies say of DeviceClasses: for all namespaces in the default, for some in their own files."""

from fractions import Fraction

import pytest

from tests.policy.conftest import PolicyDirectory
from webhook.model.accelerators import DEVICE_CLASSES
from webhook.policy.schema import policy_schema
from webhook.policy.show import explain
from webhook.quota.quotas import Counting

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"
QUOTA = "{gpuQuota: {mode: enforce, gpus: 4}}"
SMALL = DEVICE_CLASSES + "mig-small"


def write(policies: PolicyDirectory, *classes: str, name: str = "_default", rules: str = QUOTA) -> None:
    """Write a file in which the classes stand on line 6 and below."""
    entries = "".join(f"    {entry}\n" for entry in classes)
    declared = f"  deviceClasses:\n{entries}" if classes else ""
    policies.write(f"{name}.yaml", f"{HEAD.format(name=name)}{declared}  rules: {rules}\n")


def counting(policies: PolicyDirectory, namespace: str) -> Counting:
    (bound,) = policies.load().quotas_for(namespace)
    return bound.quota.counting


def test_a_class_has_a_model_and_a_weight(policies: PolicyDirectory) -> None:
    write(policies, "gpu.nvidia.com: {model: A100}", 'mig-small: {model: H100, weight: "1/7"}', "whole: {weight: 2}")
    found = counting(policies, "team")
    assert found.class_models == {
        "gpu.nvidia.com": ("A100-40GB", "A100-80GB"),
        "mig-small": ("H100-80GB", "H100-96GB", "H100-NVL"),
        "whole": None,
    }
    assert found.weights == {SMALL: Fraction(1, 7), DEVICE_CLASSES + "whole": Fraction(2)}
    assert {SMALL, DEVICE_CLASSES + "gpu.nvidia.com"} <= set(found.named)


def test_the_entries_of_a_namespace_replace_those_of_the_default_by_name(policies: PolicyDirectory) -> None:
    write(policies, "gpu.nvidia.com: {model: T4}", "other: {model: L4}")
    write(policies, "gpu.nvidia.com: {weight: 3}", name="team", rules="{}")
    assert counting(policies, "team").class_models == {"gpu.nvidia.com": None, "other": ("L4",)}
    assert counting(policies, "else").class_models == {"gpu.nvidia.com": ("T4",), "other": ("L4",)}


def test_shared_quotas_go_by_the_default(policies: PolicyDirectory) -> None:
    write(policies, "gpu.nvidia.com: {model: T4}", rules="{}")
    policies.shared_quotas("- {name: shared, namespaces: [team], gpus: 4}")
    assert counting(policies, "team").class_models == {"gpu.nvidia.com": ("T4",)}


def test_other_classes_make_another_policy(policies: PolicyDirectory) -> None:
    hashes = set()
    for model in ("T4", "L4"):
        write(policies, f"gpu.nvidia.com: {{model: {model}}}")
        hashes.add(policies.load().hash)
    write(policies)
    assert len({*hashes, policies.load().hash}) == 3


def test_a_model_of_ones_own_may_be_meant(policies: PolicyDirectory) -> None:
    models = "{gpuQuota: {mode: enforce, gpus: 4, models: {X9: {example.com/gpu: [x9]}}}}"
    write(policies, "gpu.nvidia.com: {model: X9}", rules=models)
    assert counting(policies, "team").class_models == {"gpu.nvidia.com": ("X9",)}


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("gpu.nvidia.com: {}", "gpu.nvidia.com: says nothing; write model, weight, or both"),
        ("gpu.nvidia.com:", "gpu.nvidia.com: is empty; write a value, or remove the line"),
        ("gpu.nvidia.com: {model: H101}", 'gpu.nvidia.com.model: "H101" is no known model; did you mean H100?'),
        ("gpu.nvidia.com: {weight: 0}", "gpu.nvidia.com.weight: 0 is no weight"),
        ("gpu.nvidia.com: {modell: H100}", "gpu.nvidia.com.modell: unknown key"),
        ("Gpu_X: {model: H100}", "is not the name of an object"),
    ],
)
def test_mistakes_are_told_with_their_place(policies: PolicyDirectory, entry: str, fault: str) -> None:
    write(policies, entry)
    (error,) = policies.errors()
    assert error.startswith("_default.yaml:6: spec.deviceClasses")
    assert fault in error


def test_editors_know_the_key_and_it_is_shown(policies: PolicyDirectory) -> None:
    schema = policy_schema()["properties"]["spec"]["properties"]["deviceClasses"]
    assert {"model", "weight"} == set(schema["additionalProperties"]["properties"])
    write(policies, 'mig-small: {model: H100, weight: "1/7"}')
    shown = explain(policies.load(), "team")
    assert "  deviceClasses:\n    mig-small:\n      model: H100\n      weight: 1/7\n" in shown

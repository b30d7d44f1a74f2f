"""What policies say of DeviceClasses: for all namespaces in the default, for some in their own files."""

from fractions import Fraction

from tests.policy.conftest import PolicyDirectory
from webhook.model.accelerators import DEVICE_CLASSES
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


def test_a_model_of_ones_own_may_be_meant(policies: PolicyDirectory) -> None:
    models = "{gpuQuota: {mode: enforce, gpus: 4, models: {X9: {example.com/gpu: [x9]}}}}"
    write(policies, "gpu.nvidia.com: {model: X9}", rules=models)
    assert counting(policies, "team").class_models == {"gpu.nvidia.com": ("X9",)}

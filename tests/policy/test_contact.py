"""Whom messages send people to: the contact of a policy, in place of the platform team."""

from tests.build import FACTS, pod
from webhook import engine

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"
NONE = "{gpuQuota: {mode: enforce, gpus: 0}}"


def write(policies, name: str, contact: str = "", rules: str = "{}") -> None:
    """Write NAME.yaml, in which the contact stands on line 5."""
    said = f"  contact: {contact}\n" if contact else ""
    policies.write(f"{name}.yaml", HEAD.format(name=name) + said + f"  rules: {rules}\n")


def refusal(policies, namespace: str, **spec) -> str:
    raw = pod(2, **spec)
    raw["metadata"]["namespace"] = namespace
    return engine.validate(raw, policies.load().for_namespace(namespace), FACTS).refusal


def test_a_namespace_without_gpus_is_told_whom_to_ask(policies) -> None:
    write(policies, "_default", '"#gpu-help"', NONE)
    assert refusal(policies, "web") == (
        "gpuQuota: spec: requests 2 GPUs; GPUs are not enabled in namespace web. Ask #gpu-help to enable them."
    )


def test_the_contact_of_a_namespace_replaces_that_of_the_default(policies) -> None:
    write(policies, "_default", '"#gpu-help"', NONE)
    write(policies, "own", "ada@example.com.")
    write(policies, "silent")
    asked = {name: refusal(policies, name).partition(". Ask ")[2] for name in ("own", "silent", "other")}
    assert asked == {
        "own": "ada@example.com to enable them.",
        "silent": "#gpu-help to enable them.",
        "other": "#gpu-help to enable them.",
    }


def test_every_rule_sends_people_to_the_contact(policies) -> None:
    write(policies, "_default", '"#gpu-help"', '{imagePinning: {mode: enforce, registries: ["nvcr.io"]}}')
    assert refusal(policies, "web").endswith("Use a copy there, or ask #gpu-help to allow it.")


def test_a_quota_of_none_is_one_finding_whatever_models_it_names(policies) -> None:
    write(policies, "_default", rules="{gpuQuota: {mode: enforce, gpus: 0, byModel: {H100: 0}}}")
    assert refusal(policies, "web").startswith(
        "gpuQuota: spec: requests 2 GPUs; GPUs are not enabled in namespace web."
    )

"""What a policy says about workloads: strict like the rest, inherited as a whole, warn where no file says anything."""

from webhook.policy.schema import WorkloadsMode

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"


def write(policies, name: str, workloads: str = "", rules: str = "{}") -> None:
    """Write NAME.yaml, in which `workloads` stand on line 5."""
    said = f"  workloads: {workloads}\n" if workloads else ""
    policies.write(f"{name}.yaml", HEAD.format(name=name) + said + f"  rules: {rules}\n")


def modes(policies) -> dict[str, WorkloadsMode]:
    loaded = policies.load()
    return {name: loaded.for_namespace(name).workloads for name in ("own", "silent", "other")}


def test_a_mode_that_is_set_nowhere_is_warn(policies) -> None:
    write(policies, "silent")
    assert set(modes(policies).values()) == {WorkloadsMode.WARN}


def test_the_value_of_a_namespace_replaces_that_of_the_default(policies) -> None:
    write(policies, "_default", "{mode: enforce}")
    write(policies, "own", "{mode: disabled}")
    write(policies, "silent")
    assert modes(policies) == {
        "own": WorkloadsMode.DISABLED,
        "silent": WorkloadsMode.ENFORCE,
        "other": WorkloadsMode.ENFORCE,
    }

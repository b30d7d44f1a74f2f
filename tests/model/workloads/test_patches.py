"""A role of a RoleBasedGroup has a template of its own, or one of the group as strategic merge patches make it."""

from typing import Any

import pytest
import yaml

from webhook.model.workloads import Template, templates_of
from webhook.model.workloads.merging import patched

BASE = """
containers:
- {name: a, image: a, args: [x], env: [{name: A, value: "1"}], resources: {limits: {nvidia.com/gpu: 1, memory: 1Gi}}}
- {name: b, image: b}
tolerations: [{key: a}]
"""


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("containers: [{name: b, image: c}]", {"b": {"name": "b", "image": "c"}}, id="a field"),
        pytest.param(
            "containers: [{name: a, resources: {limits: {nvidia.com/gpu: 4}}}]",
            {"resources": {"limits": {"nvidia.com/gpu": 4, "memory": "1Gi"}}},
            id="a map is merged",
        ),
        pytest.param(
            "containers: [{name: a, env: [{name: B, value: '2'}, {name: A, value: '3'}]}]",
            {"env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]},
            id="a list of names is merged",
        ),
        pytest.param("containers: [{name: a, args: [y]}]", {"args": ["y"]}, id="any other list is replaced"),
        pytest.param("containers: [{name: c, image: c}]", {"c": {"name": "c", "image": "c"}}, id="a new item is added"),
        pytest.param("tolerations: [{key: b}]", {"tolerations": [{"key": "b"}]}, id="tolerations are replaced"),
        pytest.param("tolerations: null", {"tolerations": None}, id="null takes away"),
    ],
)
def test_a_patch_is_merged_as_kubernetes_merges_it(patch: str, expected: dict[str, Any]) -> None:
    made = patched(yaml.safe_load(BASE), yaml.safe_load(patch))
    by_name = {one["name"]: one for one in made["containers"]}
    found = {**made, **by_name["a"], **{name: by_name[name] for name in by_name if name != "a"}}
    assert {key: found.get(key) for key in expected} == expected


def group(patch: Any, **role: Any) -> dict[str, Any]:
    spec = yaml.safe_load(BASE)
    reference = {"templateRef": {"name": "base", "patch": patch}}
    return {
        "apiVersion": "workloads.x-k8s.io/v1alpha2",
        "kind": "RoleBasedGroup",
        "metadata": {"name": "a"},
        "spec": {
            "roleTemplates": [{"name": "base", "template": {"spec": spec}}],
            "roles": [{"name": "r", "standalonePattern": reference, **role}],
        },
    }


def only(raw: dict[str, Any]) -> Template:
    (template,) = templates_of(raw)
    return template


def test_a_message_names_the_patch_or_the_template_whichever_says_it() -> None:
    template = only(group({"spec": {"containers": [{"name": "a", "image": "c"}], "nodeSelector": {"b": "c"}}}))
    patch = "spec.roles[r].standalonePattern.templateRef.patch.spec"
    base = "spec.roleTemplates[base].template.spec"
    assert template.place("spec.containers[a].image") == f"{patch}.containers[a].image"
    assert template.place("spec.containers[a].resources") == f"{base}.containers[a].resources"
    assert template.place("spec.nodeSelector[b]") == f"{patch}.nodeSelector[b]"
    assert template.place("spec.tolerations") == f"{base}.tolerations"


@pytest.mark.parametrize("patch", [None, {}, "text", 7, []], ids=str)
def test_no_patch_leaves_the_template(patch: object) -> None:
    assert only(group(patch)).pod["spec"] == yaml.safe_load(BASE)


@pytest.mark.parametrize(
    "patch",
    [{"$patch": "replace"}, {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}}],
    ids=["above", "inside"],
)
def test_of_a_patch_with_directives_nothing_is_known(patch: dict[str, Any]) -> None:
    assert templates_of(group(patch)) == ()


def test_the_template_of_a_group_is_never_changed() -> None:
    raw = group({"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": "9"}]}]}})
    assert only(raw).pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "9"}]
    assert raw["spec"]["roleTemplates"][0]["template"]["spec"] == yaml.safe_load(BASE)

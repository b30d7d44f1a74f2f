"""Pod templates in objects of unknown kinds: found where they surely are some, and nowhere else."""

from typing import Any

import pytest

from tests.golden import each, golden
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import templates_of

GPU = {"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}
PATCH = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": 1}}}
"""What an operator merges into a container of its own."""
SPEC = {"containers": [GPU]}
TEMPLATE = {"metadata": {"annotations": {"a": "b"}}, "spec": SPEC}


def thing(spec: Any, **head: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec, **head}


def found(raw: dict[str, Any]) -> list[tuple[str, str]]:
    return [(template.path, template.group) for template in templates_of(raw)]


@each(
    "spec, expected",
    {
        "a template": ({"template": TEMPLATE}, [("spec.template.spec", "")]),
        "a bare spec": ({"podSpec": SPEC}, [("spec.podSpec", "")]),
        "the spec itself": (SPEC, [("spec", "")]),
        "deep": ({"runner": {"pod": {"template": TEMPLATE}}}, [("spec.runner.pod.template.spec", "")]),
        "several, named as people know them": (
            {"head": {"template": TEMPLATE}, "groups": [{"name": "gpu", "template": TEMPLATE}, {"template": TEMPLATE}]},
            [
                ("spec.head.template.spec", "head"),
                ("spec.groups[gpu].template.spec", "gpu"),
                ("spec.groups[1].template.spec", "1"),
            ],
        ),
        "several with one name": (
            {"a": {"worker": {"template": TEMPLATE}}, "b": {"worker": {"template": TEMPLATE}}},
            [("spec.a.worker.template.spec", ""), ("spec.b.worker.template.spec", "")],
        ),
        "a whole object inside of another": (
            {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": TEMPLATE}}]},
            [("spec.manifests[0].spec.template.spec", "")],
        ),
        "not once more inside of itself": (
            {"template": {"spec": {**SPEC, "other": {"containers": [GPU]}}}},
            [("spec.template.spec", "")],
        ),
        "no image": (
            {"template": {"spec": {"containers": [{"name": "a", "command": ["x"]}, {"name": "b", "args": []}]}}},
            [("spec.template.spec", "")],
        ),
        "among other settings": ({"replicas": 2, **SPEC}, [("spec", "")]),
        "dispatcher": ({"dispatcher": {"template": TEMPLATE}}, [("spec.dispatcher.template.spec", "")]),
    },
)
def test_a_template_is_found_wherever_it_stands(spec: Any, expected: list[tuple[str, str]]) -> None:
    assert found(thing(spec)) == expected


def test_a_found_template_is_a_pod_with_its_annotations_in_an_unknown_number() -> None:
    (template,) = templates_of(thing({"replicas": 4, "template": TEMPLATE}))
    pod = pod_from_raw(template.pod)
    assert (pod.gpu_count, dict(pod.annotations), template.pods) == (1, {"a": "b"}, None)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": []}, id="no container"),
        pytest.param({"containers": {"main": GPU}}, id="no list"),
        pytest.param({"containers": ["main"]}, id="names of containers"),
        pytest.param({"containers": [{"name": "main"}]}, id="a name alone"),
        pytest.param({"containers": [GPU, {"name": "*", "image": "*"}]}, id="a pattern"),
        pytest.param({"containers": [{"(name)": "main", "image": "a"}]}, id="an anchor"),
        pytest.param({"containers": [{"name": "{{name}}", "image": "a"}]}, id="a name that is filled in later"),
        pytest.param({"containers": [{"name": "Main", "image": "a"}]}, id="a name that no container has"),
        pytest.param({"containers": [{"name": "main", "image": {"repository": "a"}}]}, id="an image in parts"),
        pytest.param({"containers": [{"image": "a"}]}, id="no name"),
        pytest.param({**SPEC, "volumes": "none"}, id="not readable as a pod"),
        pytest.param({"containers": {"type": "array", "items": {"properties": {"name": {}}}}}, id="a schema"),
        pytest.param({"status": TEMPLATE, "metadata": TEMPLATE}, id="a status and metadata"),
        pytest.param({"containers": [GPU, PATCH]}, id="containers that are merged into other containers"),
        pytest.param({"kind": "Prometheus", "spec": {"containers": [PATCH]}}, id="such containers of an object inside"),
        *(
            pytest.param({key: {"template": TEMPLATE}}, id=key)
            for key in (
                "patch",
                "templatePatch",
                "patches",
                "podTemplateOverrides",
                "overlays",
                "values",
                "valuesObject",
            )
        ),
        pytest.param("spec:\n  containers:\n  - name: a\n    image: a\n", id="YAML in a text"),
    ],
)
def test_what_only_speaks_of_containers_is_no_template(spec: Any) -> None:
    assert found(thing({"inside": spec})) == []


@golden
def test_kinds_that_only_speak_of_the_pods_of_others_have_no_templates(api_version: str, kind: str) -> None:
    assert found(thing({"template": TEMPLATE}, apiVersion=api_version, kind=kind)) == []


def test_the_schema_of_a_kind_inside_of_another_object_has_no_templates() -> None:
    crd = {"kind": "CustomResourceDefinition", "spec": {"default": SPEC}}
    assert found(thing({"manifests": [crd, {"template": TEMPLATE}]})) == [("spec.manifests[1].template.spec", "")]

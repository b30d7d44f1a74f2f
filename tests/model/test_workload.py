"""Where the pod templates of workloads stand, and how many pods there are of them at a time."""

from typing import Any

import pytest

from webhook.model.workload import TEMPLATES, pods_at_once, template_of, template_path


@pytest.mark.parametrize(("group", "kind"), TEMPLATES, ids=lambda part: str(part) or "core")
def test_every_kind_has_its_template_in_every_version(group: str, kind: str) -> None:
    for version in ("v1", "v1beta1"):
        assert template_path(f"{group}/{version}" if group else version, kind) == TEMPLATES[group, kind]


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        pytest.param("v1", "Pod", (), id="a pod itself"),
        pytest.param("apps/v1", "Pod", None, id="a pod of another group"),
        pytest.param("extensions/v1", "Deployment", None, id="another group"),
        pytest.param("v1", "Service", None, id="another kind"),
        pytest.param(None, "Pod", None, id="no version"),
        pytest.param("v1", 7, None, id="no text"),
    ],
)
def test_what_holds_no_template_has_no_path(api_version: object, kind: object, path: tuple[str, ...] | None) -> None:
    assert template_path(api_version, kind) == path


@pytest.mark.parametrize("raw", [{}, {"spec": None}, {"spec": []}, {"spec": {"template": None}}], ids=str)
def test_a_template_that_is_not_there_is_none(raw: dict[str, Any]) -> None:
    assert template_of(raw, ("spec", "template")) is None


def of(kind: str, spec: object) -> int | None:
    """How many pods a workload with this spec runs at a time."""
    path = next(path for (_, name), path in TEMPLATES.items() if name == kind)
    raw: Any = spec
    for key in reversed(path[:-1]):
        raw = {key: raw}
    return pods_at_once({"kind": kind, **raw} if isinstance(raw, dict) else {"kind": kind}, path)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"])
@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"replicas": 5}, 5),
        ({"replicas": 0}, 0),
        ({}, 1),
        ({"replicas": None}, 1),
        ({"replicas": "5"}, 1),
        ({"replicas": 5.5}, 1),
        ({"replicas": True}, 1),
        ({"replicas": -1}, 1),
        (None, None),
        ([], None),
    ],
    ids=str,
)
def test_replicas_run_at_once_and_one_where_nothing_is_said(kind: str, spec: object, pods: int | None) -> None:
    assert of(kind, spec) == pods


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 9}, 4),
        ({"parallelism": 4, "completions": 2}, 2),
        ({"completions": 9}, 1),
        ({"parallelism": 0}, 0),
        ({"parallelism": 4, "completions": None}, 4),
        ({"parallelism": "4"}, 1),
        ({"parallelism": 3, "suspend": True}, 3),
        (None, None),
    ],
    ids=str,
)
def test_a_job_runs_as_many_as_it_may_at_a_time_and_no_more_than_it_needs(
    kind: str, spec: object, pods: int | None
) -> None:
    assert of(kind, spec) == pods


@pytest.mark.parametrize("kind", ["DaemonSet", "PodTemplate"])
def test_a_kind_that_does_not_say_how_many_has_no_number(kind: str) -> None:
    assert pods_at_once({"kind": kind, "spec": {"replicas": 5}}, ("spec", "template")) is None

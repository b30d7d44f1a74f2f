"""The phase of policies: which ConfigMaps it looks at, what it answers, and what it may cost."""

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.build import pod, review
from tests.golden import each, golden
from tests.policy.conftest import policy_text
from tests.replicas import POLICY, Replica
from webhook.admission import logs
from webhook.outcome import MOST_WARNED
from webhook.policy.config_maps import MOST_VALUES
from webhook.policy.directory import Contents
from webhook.release import version

SOUND = {"_default.yaml": POLICY}
MISTAKEN = SOUND | {"team.yaml": policy_text("team", "sharedMemory:\n  sise: 16Gi\n  mode: warn")}
REFUSAL = (
    "team.yaml:7: spec.rules.sharedMemory.sise: unknown key; known keys are ifMissing, memoryFraction, minGpus, mode, "
    "size; did you mean size?"
)


def config_map(files: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "teams", "namespace": "gpu-policy"} | metadata}
    return raw if files is None else raw | {"data": dict(files)}


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    made = Replica(tmp_path / "policies")
    yield made
    made.store.close()


def changed(replica: Replica, files: Mapping[str, str], **metadata: Any) -> dict[str, Any]:
    """The answer to an update from what is mounted to these files."""
    return replica.ask("/policies", config_map(files, **metadata), "UPDATE", old=config_map(SOUND))


# Which requests it looks at


@each("operation, old", {"created": ("CREATE", None), "updated": ("UPDATE", config_map(SOUND))})
def test_a_mistake_is_refused_with_file_line_and_key(replica: Replica, operation: str, old: Any) -> None:
    answer = replica.ask("/policies", config_map(MISTAKEN), operation, old=old)
    assert (answer["allowed"], answer["status"]) == (False, {"code": 403, "reason": "Forbidden", "message": REFUSAL})


@each(
    "args, kwargs",
    {
        "deleted": ((None, "DELETE"), {"old": config_map(MISTAKEN)}),
        "deleted, with an object": ((config_map(MISTAKEN), "DELETE"), {"old": config_map(MISTAKEN)}),
        "labels": ((config_map(MISTAKEN, labels={"a": "b"}), "UPDATE"), {"old": config_map(MISTAKEN)}),
        "a finalizer goes": (
            (config_map(MISTAKEN, deletionTimestamp="2026-01-01T00:00:00Z"), "UPDATE"),
            {"old": config_map(MISTAKEN, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])},
        ),
        "frozen": ((config_map(MISTAKEN) | {"immutable": True}, "UPDATE"), {"old": config_map(MISTAKEN)}),
        "nothing before and after": ((config_map({}), "UPDATE"), {"old": config_map()}),
        "a Secret": ((config_map(MISTAKEN) | {"kind": "Secret"},), {}),
        "another group": ((config_map(MISTAKEN) | {"apiVersion": "example.com/v1"},), {}),
        "a subresource": ((config_map(MISTAKEN),), {"subResource": "status"}),
        "a pod": ((pod(9),), {}),
    },
)
def test_what_changes_no_policy_is_allowed_without_a_look(replica: Replica, args: Any, kwargs: Any) -> None:
    answer = replica.ask("/policies", *args, **kwargs)
    assert (answer["allowed"], answer.get("warnings")) == (True, None)


# What it answers


def test_all_mistakes_are_told_at_once_each_on_a_line_of_its_own(replica: Replica) -> None:
    message = changed(replica, MISTAKEN | {"b.yaml": "[]"})["status"]["message"]
    first, *others = message.splitlines()
    assert first == "2 mistakes in the policies:"
    assert [line.partition(": ")[0] for line in others] == ["b.yaml:1", "team.yaml:7"]


def test_a_refusal_names_no_path_of_this_machine(replica: Replica) -> None:
    message = changed(replica, {"team.yaml": "[", "a.yml": "", "b.yaml": policy_text("a")})["status"]["message"]
    assert str(replica.directory) not in message
    assert "/" not in message.replace("gpupolicy.dev/v1alpha1", "")


def test_an_emptied_config_map_is_a_mistake_where_nothing_else_is_mounted(replica: Replica) -> None:
    answer = changed(replica, {})
    assert answer["status"]["message"] == "holds no policy file; write _default.yaml or <namespace>.yaml"
    (replica.directory / "other.yaml").write_text(policy_text("other"))
    assert replica.ask("/policies", config_map({}), "UPDATE", old=config_map({"team.yaml": ""}))["allowed"]


def test_what_policy_check_notes_is_a_warning(replica: Replica) -> None:
    answer = changed(replica, SOUND | {"team.yaml": policy_text("team", "priorityClass: {mode: warn}")})
    assert (answer["allowed"], answer["warnings"]) == (
        True,
        [
            "team.yaml:6: spec.rules.priorityClass: does nothing in mode warn; write name, allowed or both, or disable "
            "the rule"
        ],
    )


def test_what_another_config_map_may_be_about_to_mend_is_a_warning(replica: Replica) -> None:
    team = {"team.yaml": policy_text("team", "sharedMemory: {size: 1Gi}")}
    answer = replica.ask("/policies", config_map(team), "CREATE")
    assert (answer["allowed"], answer["warnings"]) == (
        True,
        [
            "as things are, the replicas will not use these policies: team.yaml:6: spec.rules.sharedMemory.mode: "
            "missing, here and in _default.yaml; write one of enforce, warn, audit, disabled"
        ],
    )


OTHER_RELEASE = {"app.kubernetes.io/name": "gpu-policy", "app.kubernetes.io/version": "99.0.0"}


def test_the_policies_of_another_release_are_not_refused_by_what_this_one_knows(replica: Replica) -> None:
    """An upgrade applies them before it replaces the replicas, and a new rule is an unknown key to the old ones."""
    answer = changed(replica, MISTAKEN, labels=OTHER_RELEASE)
    assert answer["allowed"]
    (warning,) = answer["warnings"]
    start = f"the label says gpu-policy 99.0.0; {version()}, which runs here, finds a mistake: team.yaml:7: spec.rules."
    assert warning.startswith(start)


@each(
    "labels",
    {
        "this release": {"app.kubernetes.io/name": "gpu-policy", "app.kubernetes.io/version": version()},
        "a version of something else": {"app.kubernetes.io/version": "99.0.0"},
        "another chart": {"app.kubernetes.io/name": "teams", "app.kubernetes.io/version": "99.0.0"},
        "no version": {"app.kubernetes.io/name": "gpu-policy"},
        "no labels": None,
    },
)
def test_everything_else_is_held_to_this_release(replica: Replica, labels: Any) -> None:
    assert not changed(replica, MISTAKEN, labels=labels)["allowed"]


def test_a_change_that_only_a_restart_takes_up_is_a_warning(replica: Replica) -> None:
    extra = POLICY + "  accelerators: {extra: [{name: example.com/vgpu, vendor: nvidia}]}\n"
    answer = changed(replica, {"_default.yaml": extra})
    assert answer["allowed"]
    assert "restart the replicas (kubectl rollout restart)" in answer["warnings"][0]


# What strangers may send, and what it may cost


@golden
def test_what_no_api_server_would_send_is_refused_and_no_bug(replica: Replica, parts: dict[str, Any]) -> None:
    answer = replica.ask("/policies", config_map(MISTAKEN) | parts)
    assert (answer["allowed"], answer["status"]["code"]) == (False, 422)


@pytest.mark.parametrize("lists", ["[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000], ids=["lists", "maps"])
def test_what_is_too_deep_to_be_compared_is_refused_and_no_bug(replica: Replica, lists: str) -> None:
    body = json.dumps(review(config_map() | {"data": "DEEP"}, "UPDATE", old=config_map() | {"data": "DEEP"}))
    deep = body.replace('"DEEP"', f'{{"a.yaml": {lists}}}')
    answer = replica.client.post("/policies", data=deep, content_type="application/json")
    assert (answer.status_code, answer.json["response"]["status"]["code"]) == (200, 422)


def test_more_than_is_checked_is_allowed_and_said(replica: Replica) -> None:
    answer = changed(replica, SOUND | {"a.yaml": f"[{'1,' * MOST_VALUES}]"})
    assert (answer["allowed"], answer["warnings"]) == (
        True,
        [
            "not checked: together the policies have more than 50000 keys and values; gpu-policy policy check "
            "DIRECTORY has no such limit"
        ],
    )


@pytest.mark.parametrize("labels", [None, OTHER_RELEASE], ids=["refused", "warned"])
def test_a_thousand_mistakes_make_a_short_answer(replica: Replica, labels: Any) -> None:
    rules = "\n".join(f"rule{number}: {{}}" for number in range(1000))
    answer = changed(replica, SOUND | {"team.yaml": policy_text("team", rules)}, labels=labels)
    if labels is None:
        assert len(answer["status"]["message"]) < 21_000
        assert answer["status"]["message"].endswith("more; gpu-policy policy check DIRECTORY names all of them")
    else:
        assert sum(map(len, answer["warnings"])) <= MOST_WARNED
        assert answer["warnings"][-1].endswith("more; gpu-policy policy check DIRECTORY names all of them")


def test_control_characters_of_a_config_map_reach_no_terminal(replica: Replica) -> None:
    message = changed(replica, SOUND | {"team.yaml": policy_text("team", '"\\e[31m": {}')})["status"]["message"]
    assert message.isprintable()


@pytest.mark.untraced
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in Hypothesis's look at gc
def test_a_check_that_takes_too_long_is_ended_and_pods_are_answered(replica: Replica) -> None:
    """Every two of these globs can claim one namespace, which takes seconds to say."""
    replica.service.decision_seconds = 0.05
    files = {
        f"{name}.yaml": policy_text(name, namespaces=str([f"*{name}{number:05}*" for number in range(9999)]))
        for name in "abcd"
    }
    body = review(config_map(SOUND | files), "UPDATE", old=config_map(SOUND))
    answer = replica.client.post("/policies", json=body)
    assert (answer.status_code, replica.count("gpu_policy_errors_total", reason="took_too_long")) == (500, 1)
    replica.service.decision_seconds = 60
    assert not changed(replica, MISTAKEN)["allowed"]
    assert replica.ask("/validate", pod(1))["allowed"]


def test_policies_are_checked_one_at_a_time_and_no_pod_waits_for_them(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk, answers = replica.store.on_disk, []

    def meanwhile() -> Contents:
        answers.append(replica.client.post("/policies?timeout=1s", json=review(config_map(SOUND))))
        answers.append(replica.client.post("/validate?timeout=1s", json=review(pod(1))))
        return on_disk()

    monkeypatch.setattr(replica.store, "on_disk", meanwhile)
    assert replica.ask("/policies", config_map(SOUND))["allowed"]
    another, of_a_pod = answers
    assert (another.status_code, another.headers["Retry-After"]) == (503, "1")
    assert of_a_pod.json["response"]["allowed"]


def test_a_directory_that_cannot_be_read_refuses_nobody(replica: Replica) -> None:
    (replica.directory / "_default.yaml").unlink()
    replica.directory.rmdir()
    assert changed(replica, MISTAKEN)["warnings"] == [
        "not checked: this replica cannot read the policies that it has mounted"
    ]


# How it is counted and logged


def test_answers_are_counted_and_logged_without_what_the_config_map_says(
    replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        changed(replica, MISTAKEN | {"secret.yaml": policy_text("secret", "sekret: {}")})
    assert replica.count("gpu_policy_requests_total", phase="policies", operation="UPDATE", result="refused") == 1
    (record,) = [record for record in caplog.records if record.name == logs.DECISIONS.name]
    assert (record.fields["phase"], record.fields["kind"], record.fields["allowed"]) == ("policies", "ConfigMap", False)
    text = logs.JsonFormatter().format(record)
    assert not [word for word in ("sise", "sekret", "team.yaml", "16Gi") if word in text]

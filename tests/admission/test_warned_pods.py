"""Who is told of warnings: controllers whose pods were admitted, and not in a dry run."""

from pathlib import Path
from typing import Any

import pytest

from tests.replicas import Replica
from tests.reviews import review
from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.phases import Decision
from webhook.admission.warned_pods import LONGEST_MESSAGE, HeardWarnings, RuleWarning, heard_warnings, warnings_of
from webhook.outcome import Finding, FindingKind
from webhook.rules.rule_settings import Mode

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "b1", "controller": True}
POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec:
  rules:
    gpuLimits: {mode: warn, maxPerPod: 1}
    cudaDriver: {mode: disabled}
"""


class Listener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[HeardWarnings | None] = []

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        self.heard.append(heard_warnings(request, decision))


def pod(*, gpus: int = 2, owners: Any = (OWNER,), containers: int = 1) -> dict[str, Any]:
    """A pod as the validating phase has it."""
    metadata = {"name": "train-x", "uid": "p1", "ownerReferences": list(owners)}
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    made = [{"name": f"c{number}", "image": "a:1", "resources": resources} for number in range(containers)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": made}}


class Telling:
    """A replica with a listener."""

    def __init__(self, directory: Path, policy: str = POLICY) -> None:
        directory.mkdir(exist_ok=True)
        (directory / "_default.yaml").write_text(policy)
        self.replica, self.listener = Replica(directory), Listener()
        self.replica.service._listeners = [self.listener]

    def about(self, raw: dict[str, Any] | None, path: str = "/validate", **request: Any) -> HeardWarnings | None:
        """What is told after a review."""
        self.replica.client.post(path, json=review(raw, **request))
        return self.listener.heard.pop() if self.listener.heard else None


def test_a_controller_is_told_what_a_rule_in_mode_warn_says(tmp_path: Path) -> None:
    heard = Telling(tmp_path).about(pod(containers=2))
    assert heard is not None
    told = heard.pod()
    assert (told.name, told.uid, told.controller, told.policy) == ("train-x", "p1", "b1", "_default")
    text = told.warnings["gpuLimits"].about(told.name, told.policy)
    assert text.startswith("gpuLimits: ")
    assert text.endswith("(Pod train-x, mode warn of policy _default)")


@pytest.mark.parametrize(
    ("raw", "request_"),
    [
        pytest.param(pod(gpus=1), {}, id="nothing to say"),
        pytest.param(pod(), {"dryRun": True}, id="a dry run"),
        pytest.param(pod(owners=()), {}, id="a pod that nobody controls"),
        pytest.param(pod(owners=[{**OWNER, "controller": False}]), {}, id="an owner that is no controller"),
        pytest.param(pod(owners=[{**OWNER, "uid": "u" * 65}]), {}, id="a uid that is too long"),
        pytest.param(pod(owners=[{**OWNER, "uid": 7}]), {}, id="a uid that is no text"),
        pytest.param(pod(), {"name": "a/b"}, id="a name that no pod has"),
        pytest.param(pod(), {"operation": "UPDATE", "old": pod(gpus=1)}, id="an update"),
        pytest.param(pod(), {"subResource": "binding"}, id="a subresource"),
        pytest.param(pod(), {"path": "/mutate"}, id="the mutating phase, before the pod has a uid"),
    ],
)
def test_nobody_is_told_about(tmp_path: Path, raw: dict[str, Any], request_: dict[str, Any]) -> None:
    assert Telling(tmp_path).about(raw, **request_) is None


@pytest.mark.parametrize("mode", ["enforce", "audit", "disabled"])
def test_rules_in_other_modes_tell_controllers_nothing(tmp_path: Path, mode: str) -> None:
    assert Telling(tmp_path, POLICY.replace("mode: warn", f"mode: {mode}")).about(pod()) is None


def test_a_pod_is_asked_about_later_if_rules_would_inject_something(tmp_path: Path) -> None:
    policy = POLICY.replace("maxPerPod: 1}", "maxPerPod: 8}\n    sharedMemory: {mode: warn}")
    heard = Telling(tmp_path, policy).about(pod())
    assert heard is not None
    assert (heard.rules, heard.may_lack) == ((), True)


def test_what_rules_would_inject_into_a_stored_pod_is_known_by_the_same_engine(tmp_path: Path) -> None:
    policy = POLICY.replace("maxPerPod: 1}", "maxPerPod: 8}\n    sharedMemory: {mode: warn}")
    service = Telling(tmp_path, policy).replica.service
    warnings = warnings_of(service.not_injected("team-vision", pod()))
    assert warnings["sharedMemory"].text.startswith("sharedMemory: spec: would add ")


def test_a_stored_pod_that_cannot_be_read_is_silent(tmp_path: Path) -> None:
    assert list(Telling(tmp_path).replica.service.not_injected("team-vision", {"spec": {"containers": 7}})) == []


def test_a_message_is_bounded_and_has_no_control_characters() -> None:
    text = RuleWarning("x" * 5000 + "\x1b[31m", 3).about("pod", "team")
    assert len(text.encode()) <= LONGEST_MESSAGE
    assert RuleWarning("a\x1b\n", 1).about("p", "t") == "a?? (Pod p, mode warn of policy t, and 1 more warning)"


def test_a_message_keeps_letters_of_every_script() -> None:
    """An answer has question marks in their place, because headers of HTTP are ASCII; Events are not."""
    found = Finding("gpuLimits", Mode.WARN, FindingKind.VIOLATION, "spec", "Frag das Team für Größen 한국", "Weniger")
    assert "?" in found.warning
    text = warnings_of([found])["gpuLimits"].about("p", "größe")
    assert text == "gpuLimits: spec: Frag das Team für Größen 한국. Weniger. (Pod p, mode warn of policy größe)"


@pytest.mark.parametrize("letter", ["a", "ß", "한", "😀"])
@pytest.mark.parametrize("name", ["p", "p" * 253], ids=["short", "long"])
def test_a_message_is_cut_at_a_character_to_what_the_api_server_counts_in_bytes(letter: str, name: str) -> None:
    """Go counts bytes. The pod and the policy are named whatever the warning is."""
    text = RuleWarning(letter * 5000).about(name, "t" * 253)
    assert LONGEST_MESSAGE - 4 < len(text.encode()) <= LONGEST_MESSAGE
    assert text.startswith(letter * 50)
    assert text.endswith(f"... (Pod {name}, mode warn of policy {'t' * 253})")


@pytest.mark.parametrize("text", ["\ud800", "\u202e", "\u2028", "\x9b"], ids=ascii)
def test_a_message_has_no_character_that_turns_lines_around_or_is_none(text: str) -> None:
    assert RuleWarning(f"a{text}b").about("p", "t").startswith("a?b (")


def test_the_answer_is_the_same_whether_or_not_somebody_listens(tmp_path: Path) -> None:
    listened, alone = Telling(tmp_path / "a").replica, Telling(tmp_path / "b").replica
    alone.service._listeners = []
    assert listened.ask("/validate", pod()) == alone.ask("/validate", pod())

"""Events with warnings on a real API server: on the controller that people look at, once an hour, about stored pods.

The first tests are about what is told at all, and need no API server.
"""

import itertools
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.build import review
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.golden import each
from tests.replica.quota_cluster import Clock
from webhook.admission.admission_review import AdmissionRequest, parse
from webhook.admission.metrics import Metrics
from webhook.admission.phases import decide
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_set import NO_POLICY
from webhook.replica.warning_events import (
    LONGEST_MESSAGE,
    MOST_OF_A_NAMESPACE,
    REASON,
    RESULTS,
    PodWarning,
    WarningEvents,
    warnings_in,
)
from webhook.rules.rule_settings import Mode

UNUSED = itertools.count()


def finding(rule: str = "gpuLimits", message: str = "too many GPUs") -> Finding:
    """A violation of a rule in mode `warn`."""
    return Finding(rule, Mode.WARN, FindingKind.VIOLATION, "spec.containers[main]", message, "Request fewer")


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "b1", "controller": True}


def told(  # a review
    *findings: Finding,
    namespace: str = "team",
    name: str = "train-x",
    policy: str = "_default",
    raw: dict[str, Any] | None = None,
    **request: Any,
) -> list[PodWarning]:
    """What is told of a review in the validating phase that admits a pod with these findings."""
    raw = raw or {"metadata": {"name": name, "uid": "p1", "ownerReferences": [OWNER]}}
    asked = parse(json.dumps(review(raw, namespace=namespace, name=name, **request)).encode())
    under = replace(NO_POLICY, name=policy)
    return warnings_in(asked, decide(Outcome(under, raw, findings or (finding(),))))


def owned_by(*owners: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train-x", "uid": "p1", "ownerReferences": list(owners), **metadata}}


@each(
    "request_",
    {
        "a dry run": {"dryRun": True},
        "a pod that nobody controls": {"raw": owned_by()},
        "an owner that is no controller": {"raw": owned_by({**OWNER, "controller": False})},
        "a uid that is too long": {"raw": owned_by({**OWNER, "uid": "u" * 254})},
        "a uid that is no text": {"raw": owned_by({**OWNER, "uid": 7})},
        "an update": {"operation": "UPDATE"},
        "a subresource": {"subResource": "binding"},
        "no pod": {"kind": ("batch", "v1", "Job")},
        "a rule that refuses": {"mode": Mode.ENFORCE},
        "a rule that records": {"mode": Mode.AUDIT},
    },
)
def test_nobody_is_told_about(request_: dict[str, Any]) -> None:
    assert told()
    mode = request_.pop("mode", Mode.WARN)
    of = finding() if mode is Mode.WARN else replace(finding(), mode=mode, kind=FindingKind.ADVICE)
    assert told(of, **request_) == []


@pytest.mark.parametrize("letter", ["a", "ß", "한", "😀"])
@pytest.mark.parametrize("name", ["p", "p" * 253], ids=["short", "long"])
def test_a_message_is_cut_at_a_character_to_what_the_api_server_counts_in_bytes(letter: str, name: str) -> None:
    """Go counts bytes. The pod and the policy are named whatever the warning is."""
    (warning,) = told(finding(message=letter * 5000), name=name, policy="t" * 253)
    assert LONGEST_MESSAGE - 4 < len(warning.message.encode()) <= LONGEST_MESSAGE
    assert letter * 40 in warning.message
    assert warning.message.endswith(f"... (Pod {name}, mode warn of policy {'t' * 253})")


class Team:
    """A namespace with pods and what controls them, all of them stored."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.name = plane.namespace(f"warned-{next(UNUSED)}-{id(self) % 10**6}")

    def stored(self, api: str, plural: str, raw: dict[str, Any]) -> dict[str, Any]:
        """Create an object; returns what was stored."""
        status, answer = self.plane.raw("POST", f"{api}/namespaces/{self.name}/{plural}", raw)
        assert status == 201, answer
        return dict(answer)

    def controller(self, name: str = "web", kind: str = "ReplicaSet", owners: Any = ()) -> dict[str, Any]:
        """A Deployment or ReplicaSet; returns the reference to it as a controller."""
        spec: dict[str, Any] = {"selector": {"matchLabels": {"a": name}}, "replicas": 0}
        containers = [{"name": "main", "image": "a:1"}]
        spec["template"] = {"metadata": {"labels": {"a": name}}, "spec": {"containers": containers}}
        wanted = {"a": owners[0]["name"] if owners else name}
        metadata = {"name": name, "labels": wanted, "ownerReferences": list(owners)}
        made = self.stored("/apis/apps/v1", f"{kind.lower()}s", {"metadata": metadata, "spec": spec})
        return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": made["metadata"]["uid"], "controller": True}

    def pod(self, owner: dict[str, Any], name: str = "web-1") -> dict[str, Any]:
        """A stored pod of a controller, which stays although real controllers do not want it."""
        spec = {"containers": [{"name": "main", "image": "a:1"}]}
        kept = {"labels": {"a": owner["name"]}, "finalizers": ["example.com/kept"]}
        metadata = {"name": name, "ownerReferences": [owner], **kept}
        return self.stored("/api/v1", "pods", {"metadata": metadata, "spec": spec})

    def events(self) -> list[dict[str, Any]]:
        """The Events with warnings."""
        _, answer = self.plane.raw("GET", f"/api/v1/namespaces/{self.name}/events")
        return [one for one in answer["items"] if one["reason"] == REASON]


class Replica:
    """The Events of one replica whose rounds are made by the test."""

    def __init__(self, plane: ControlPlane, token: str = "") -> None:
        self.clock = Clock()
        kubeconfig = plane.kubeconfig_for(token) if token else plane.kubeconfig
        self.events = WarningEvents(kubeconfig, clock=self.clock)
        self.metrics = Metrics()
        self.events.count_in(self.metrics)

    def hear(self, team: str, raw: dict[str, Any], *findings: Finding) -> None:
        """A decision that admits this pod with these findings."""
        request = AdmissionRequest(
            "u", "CREATE", team, raw["metadata"]["name"], "v1", "Pod", "", "user", (), False, raw, None
        )
        self.events.hear(request, decide(Outcome(NO_POLICY, raw, findings or (finding(),))))

    def write(self, rounds: int = 1) -> None:
        """Some rounds, three seconds apart, the first when pods have settled."""
        self.clock.now += 3.0
        for _ in range(rounds):
            self.events.write_one()
            self.clock.now += 3.0

    def counted(self) -> dict[str, int]:
        """What became of warnings, without zeros."""
        name = "gpu_policy_warning_events_total"
        counts = {one: self.metrics.registry.get_sample_value(name, {"result": one}) or 0 for one in RESULTS}
        return {result: int(count) for result, count in counts.items() if count}


@pytest.fixture
def team(control_plane: ControlPlane) -> Team:
    """A new namespace."""
    return Team(control_plane)


def test_the_deployment_gets_the_event_of_a_pod_of_its_replica_set(control_plane: ControlPlane, team: Team) -> None:
    deployment = team.controller(kind="Deployment")
    replica_set = team.controller("web-5d", owners=[deployment])
    one = Replica(control_plane)
    one.hear(team.name, team.pod(replica_set))
    one.write()
    (event,) = team.events()
    regarding = event["involvedObject"]
    assert {key: regarding[key] for key in ("kind", "name", "uid")} == {
        key: deployment[key] for key in ("kind", "name", "uid")
    }
    assert (event["type"], event["count"], event["related"]["name"]) == ("Warning", 1, "web-1")
    assert event["message"] == (
        "gpuLimits: spec.containers[main]: too many GPUs. Request fewer. (Pod web-1, mode warn of policy _default)"
    )
    described = control_plane.kubectl("describe", "deployment", "web", namespace=team.name).stdout
    assert "GpuPolicyWarning" in described
    assert one.counted() == {"written": 1}


def test_replicas_write_one_event_together_for_all_pods_of_an_hour(control_plane: ControlPlane, team: Team) -> None:
    owner = team.controller()
    pods = [team.pod(owner, f"web-{number}") for number in range(3)]
    replicas = [Replica(control_plane) for _ in pods]
    for one in replicas:
        for raw in pods:
            one.hear(team.name, raw)
        one.write()
    assert len(team.events()) == 1
    assert [one.counted() for one in replicas] == [{"written": 1}, {"known": 1}, {"known": 1}]


def test_each_rule_has_an_event_which_says_how_much_more_it_has(control_plane: ControlPlane, team: Team) -> None:
    one = Replica(control_plane)
    one.hear(team.name, team.pod(team.controller()), finding(), finding(message="b"), finding("sharedMemory"))
    one.write(rounds=2)
    messages = sorted(event["message"] for event in team.events())
    assert [message.partition(":")[0] for message in messages] == ["gpuLimits", "sharedMemory"]
    assert messages[0].endswith("(Pod web-1, mode warn of policy _default, and 1 more warning)")


def test_a_gated_pod_that_may_not_start_gets_the_refusal(control_plane: ControlPlane, team: Team) -> None:
    raw = team.pod(team.controller())
    one = Replica(control_plane)
    for uid in (raw["metadata"]["uid"], "made-up"):
        new = {**raw, "metadata": {**raw["metadata"], "uid": uid}}
        old = {**new, "spec": {**raw["spec"], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
        asked = review(new, "UPDATE", old=old, namespace=team.name, name=raw["metadata"]["name"])
        refused = replace(finding(message="exceeded"), mode=Mode.ENFORCE, refuses=True)
        one.events.hear(parse(json.dumps(asked).encode()), decide(Outcome(NO_POLICY, new, (refused,))))
    one.write(rounds=2)
    (event,) = team.events()
    assert (event["involvedObject"]["kind"], event["involvedObject"]["uid"]) == ("Pod", raw["metadata"]["uid"])
    assert event["message"].startswith("may not start: gpuLimits: spec.containers[main]: exceeded")
    assert one.counted() == {"written": 1, "unconfirmed": 1}


@each(
    "forged",
    {
        "a pod of this name with another uid": {"uid": "made-up"},
        "a pod that is not stored": {"name": "gone"},
        "a pod that another controller made": {"owner": "made-up"},
    },
)
def test_made_up_reviews_write_nothing(control_plane: ControlPlane, team: Team, forged: dict[str, str]) -> None:
    owner = team.controller()
    raw = team.pod(owner)
    metadata = {**raw["metadata"], **{key: value for key, value in forged.items() if key != "owner"}}
    metadata["ownerReferences"] = [{**owner, "uid": forged.get("owner", owner["uid"])}]
    one = Replica(control_plane)
    one.hear(team.name, {**raw, "metadata": metadata})
    one.write()
    assert (team.events(), one.counted()) == ([], {"unconfirmed": 1})


def test_a_storm_writes_one_event_in_each_round_and_leaves_room_for_other_namespaces(
    control_plane: ControlPlane, team: Team
) -> None:
    one, other = Replica(control_plane), Team(control_plane)
    owner = team.controller()
    for number in range(250):
        forged = {**owner, "uid": f"{owner['uid'][:-4]}{number:04}", "name": f"job-{number}"}
        raw = {"metadata": {"name": f"p-{number}", "uid": str(number), "ownerReferences": [forged]}}
        if 5 <= number < 10:  # the others are made up
            raw = team.pod(forged, f"p-{number}")
        one.hear(team.name, raw)
    one.hear(other.name, other.pod(other.controller()))
    one.write(rounds=2)
    assert len(team.events()) == 1
    one.write(rounds=9)
    assert (len(team.events()), len(other.events())) == (5, 1)
    assert one.counted() == {"written": 6, "unconfirmed": MOST_OF_A_NAMESPACE - 5, "dropped": 250 - MOST_OF_A_NAMESPACE}


def test_without_the_rights_nothing_is_written_and_the_log_says_so_once(
    control_plane: ControlPlane, team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    one = Replica(control_plane, TENANT_TOKEN)
    raw = team.pod(team.controller())
    with caplog.at_level(logging.WARNING, "gpu_policy.warnings"):
        for _ in range(2):
            one.hear(team.name, raw)
            one.clock.now += 3.0
            one.events.round()
    assert one.counted() == {"failed": 2}
    assert [("403" in record.message, record.levelname) for record in caplog.records] == [(True, "WARNING")]


def test_a_bug_in_hearing_costs_no_answer_and_is_logged_once(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    one = Replica(control_plane)
    for _ in range(2):
        one.events.hear(None, None)  # type: ignore[arg-type]  # the bug
    assert [record.levelname for record in caplog.records] == ["ERROR"]

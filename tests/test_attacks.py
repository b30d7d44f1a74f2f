"""Attacks and faults that happened to other admission webhooks, each tried here. Those that need a real API server are
tried in tests/e2e too.
"""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.build import FACTS, WORKLOADS, against, env, patched, pod, policies, policy, request, requests_only, workload
from tests.build import review as admission_review
from tests.deploy.manifests import shipped
from tests.replicas import POLICY, Replica
from tests.rules.every_rule import INJECTING
from webhook.admission import phases
from webhook.audit.documents import Document
from webhook.audit.review_objects import review
from webhook.facts.facts import ClusterFacts
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet
from webhook.yaml_files.file_errors import FileErrors

ROOT = Path(__file__).parent.parent
ENFORCED = policies(INJECTING | {"gpuLimits": {"maxPerPod": 4}})
EXPOSED = env("NVIDIA_VISIBLE_DEVICES", "all")


def mutate(*args: Any, using: PolicySet = ENFORCED, **kwargs: Any) -> phases.Decision:
    return phases.mutate(request(*args, **kwargs), using, FACTS)


def validate(*args: Any, using: PolicySet = ENFORCED, **kwargs: Any) -> phases.Decision:
    return phases.validate(request(*args, **kwargs), using, FACTS)


def is_refused(raw: dict[str, Any], using: PolicySet = ENFORCED) -> bool:
    """Whether either phase refuses the pod, as the API server would ask them."""
    mutated = mutate(raw, using=using)
    return not mutated.answer.is_allowed or not validate(patched(raw, mutated), using=using).answer.is_allowed


# A1: an object in some namespace disables a rule of the cluster.


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"gpupolicy.dev/injected": "gpuLimits"}},
        {"annotations": {"gpupolicy.dev/exempt": "true", "gpupolicy.dev/mode": "disabled"}},
        {"labels": {"gpupolicy.dev/ignore": "true", "control-plane": "controller-manager"}},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]},
        {"namespace": "kube-system"},
        {"name": "gpu-operator", "generateName": "gpu-operator-"},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
def test_nothing_that_a_tenant_writes_into_a_pod_changes_the_verdict(metadata: dict[str, Any]) -> None:
    plain, dressed = validate(pod(9)), validate(pod(9, **metadata))
    assert not plain.answer.is_allowed
    assert dressed.answer == plain.answer


# A2: the same object through another served version misses the rule.


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2", "v2alpha1"])
@pytest.mark.parametrize("kind", WORKLOADS)
def test_every_version_of_a_workload_is_checked(kind: str, version: str) -> None:
    group = WORKLOADS[kind][0].rpartition("/")[0]
    raw = workload(kind, pod(9)) | {"apiVersion": f"{group}/{version}" if group else version}
    assert phases.workloads(request(raw), ENFORCED, FACTS).answer.warnings


# A3: of two exceptions the wider wins. Every order of every pair is tried in tests/policy/test_precedence.py.


@pytest.mark.parametrize("other", ["team-a", "*eam-a"], ids=["the same name", "a glob as long"])
def test_two_files_that_can_claim_one_namespace_are_an_error_at_load(tmp_path: Path, other: str) -> None:
    first = "team-a" if other == "team-a" else "team-*"
    for name, pattern in (("one", first), ("two", other)):
        text = POLICY.replace("_default", name).replace("spec:\n", f'spec:\n  namespaces: ["{pattern}"]\n')
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(FileErrors, match=r"two\.yaml.*one\.yaml|one\.yaml.*two\.yaml"):
        load(tmp_path)


# A4: scan and command line honour an exception that the webhook does not.


@pytest.mark.parametrize(("namespace", "is_allowed"), [("team", False), ("exempt", True), ("exempt-2", True)])
def test_webhook_and_review_know_the_same_exceptions(namespace: str, is_allowed: bool) -> None:
    lax = policy({"gpuLimits": {"mode": "warn"}}, name="exempt")
    using = PolicySet.of(ENFORCED.default, {"exempt": lax, "exempt-*": lax})
    raw = pod(9, namespace=namespace, spec={**pod(9)["spec"], "nodeSelector": {"pool": "gpu"}})
    (item,) = review([Document("f", 1, 1, raw)], "default", against(using)).items
    completed = patched(raw, mutate(raw, using=using, namespace=namespace))
    judged = validate(completed, using=using, namespace=namespace)
    assert (is_allowed, is_allowed) == (item.is_allowed, judged.answer.is_allowed)


# A5: an error in a look-up is swallowed and the rule silently not applied.


class FailingFacts:
    """Facts of which one look-up fails, as those of a broken index would."""

    def __init__(self, failing: str) -> None:
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        if name == self._failing:
            raise KeyError(name)
        return getattr(FACTS, name)


@pytest.mark.parametrize("look_up", ["runtime_class", "matching_nodes"])
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_failing_look_up_is_no_verdict_and_is_counted(tmp_path: Path, look_up: str, path: str) -> None:
    replica = Replica(tmp_path / "policies")
    replica.write(POLICY + "    runtimeClass: {mode: enforce}\n")
    replica.store.check()
    replica.facts.facts = FailingFacts(look_up)  # type: ignore[assignment]  # on purpose
    answer = replica.client.post(path, json=admission_review(pod(1)))
    assert (answer.status_code, "allowed" in answer.text) == (500, False)
    assert replica.count("gpu_policy_errors_total", reason="bug") == 1


# A6: objects with a deletionTimestamp are skipped.


# A7: a setting of the pod hides one of a container. No rule reads seccomp; memory limits exist in both places.


# A8: policies that make the engine talk to the network.


def test_no_answer_needs_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a connection on the way to an answer")

    replica = Replica(tmp_path / "policies")
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for raw in (pod(2), pod(9), requests_only(), workload("Job", pod(9))):
        for path in ("/mutate", "/validate", "/workloads"):
            replica.ask(path, raw)


# A9: messages show what belongs to other tenants.


def test_messages_show_nothing_of_other_namespaces_or_of_nodes() -> None:
    node = {
        "metadata": {"name": "secret-node", "uid": "1", "labels": {"secret-label": "secret-value"}},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "runtimeHandlers": [{"name": "secret-handler"}]},
    }
    facts = ClusterFacts.of([node], [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}])
    secret = policy({"nodeAffinity": {"required": [{"key": "secret-pool", "operator": "Exists"}]}}, name="secret-team")
    ours = policy({"runtimeClass": {"whenMissing": "warn"}, "gpuLimits": {"maxPerPod": 1}, "visibleDevices": {}})
    using = PolicySet.of(ours, {"secret-team": secret})
    raw = pod(9)
    raw["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {"name": "secret-ref", "key": "secret-key"}}}
    ]
    said = []
    for phase in (phases.mutate, phases.validate):
        answer = phase(request(raw), using, facts, *([[using]] if phase is phases.validate else []))
        said.append(repr(answer.answer))
    assert "requests 9 GPUs" in said[1]
    assert "1 of 1 node that it could use lacks the runtime handler nvidia" in said[0]
    assert "secret-" not in "".join(said).replace("set by valueFrom", "")


# A31: GPUs without asking for one.


# A32: spellings and places that hide GPUs from a count.


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeName": "gpu-0"},
        {"nodeSelector": {"kubernetes.io/hostname": "gpu-0"}},
        {"schedulerName": "mine"},
        {"priorityClassName": "system-node-critical"},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_no_way_of_placing_a_pod_gets_it_past_the_maximum(spec: dict[str, Any]) -> None:
    raw = pod(5)
    raw["spec"] |= spec
    assert is_refused(raw)


def test_strangers_who_ask_change_nothing(tmp_path: Path) -> None:
    """A review leaves no trace but a log line and counts, so a forged one gains nothing."""
    replica = Replica(tmp_path / "policies")
    before = (replica.store.current, replica.facts.facts)
    for path in ("/mutate", "/validate"):
        replica.ask(path, pod(9), "CREATE", groups=["system:masters"])
    assert (replica.store.current, replica.facts.facts) == before


# What a replica may read and write, and what its configurations do not ask for.


def test_policies_are_files_and_no_objects_of_the_cluster(tmp_path: Path) -> None:
    replica = Replica(tmp_path / "policies")
    before = replica.store.current
    for kind in (("gpupolicy.dev", "v1alpha1", "GPUPolicy"), ("", "v1", "ConfigMap"), ("", "v1", "Namespace")):
        replica.ask("/mutate", {"metadata": {"name": "team"}, "spec": {"rules": {}}}, kind=kind)
    assert replica.store.check() is False
    assert replica.store.current is before


def test_a_request_without_an_answer_stops_the_pod() -> None:
    """Which only GPU pods notice, and pods that are after GPU nodes; what the chart makes for older clusters is tried
    in tests/deploy.
    """
    asked = [entry for entry in shipped().entries if any("pods" in rule["resources"] for rule in entry["rules"])]
    assert [entry["name"].partition(".")[0] for entry in asked] == ["mutate", "validate"]
    assert [entry["failurePolicy"] for entry in asked] == ["Fail", "Fail"]
    last = [entry["matchConditions"][-1]["name"] for entry in asked]
    assert last == ["only-gpu-pods", "only-gpu-pods-and-nodes"]


def test_policies_are_data_without_addresses_or_expressions() -> None:
    schemas = [json.loads((ROOT / "docs" / f"{name}-schema.json").read_text()) for name in ("policy", "quotas")]
    keys: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            keys.update(value.get("properties", {}))
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(schemas)
    assert {"tolerations", "maxPerPod", "quotas"} <= keys
    words = ("url", "uri", "host", "service", "token", "secret", "cel", "jmespath", "script", "call", "context")
    assert not [key for key in keys - {"accelerators", "hostNetworkEnv"} if any(word in key.lower() for word in words)]


def test_the_webhook_may_read_of_tenants_only_what_counts_and_write_only_what_is_its_own() -> None:
    """No replica could take a configuration away. For a request it writes ledgers, and Events about stored pods.

    Creating cannot be limited to a name; in its own namespace it creates the Secret that somebody deleted, and the
    ConfigMaps in which quotas are kept.
    """
    objects = shipped()
    rules = objects.one("ClusterRole", "gpu-policy")["rules"]
    rights = {name: (set(rule["verbs"]), rule.get("resourceNames")) for rule in rules for name in rule["resources"]}
    assert rights == {
        "nodes": ({"list", "watch"}, None),
        "runtimeclasses": ({"list", "watch"}, None),
        "priorityclasses": ({"list", "watch"}, None),
        "deviceclasses": ({"list", "watch"}, None),
        "resourceclaims": ({"list", "watch"}, None),  # which GPUs pods ask for by name
        "resourceclaimtemplates": ({"list", "watch"}, None),
        "resourceslices": ({"list", "watch"}, None),
        **dict.fromkeys(("nodepools", "ec2nodeclasses"), ({"list", "watch"}, None)),  # what may come
        "clusterpolicies": ({"list", "watch"}, None),  # which driver GPU Operator is to install
        "nvidiadrivers": ({"list", "watch"}, None),
        "mutatingwebhookconfigurations": ({"get", "update"}, ["gpu-policy"]),
        "validatingwebhookconfigurations": ({"get", "update"}, ["gpu-policy"]),
        "pods": ({"get", "list", "watch"}, None),  # which are counted, or have a claim made for them
        "events": ({"create"}, None),  # with warnings, about pods that are stored; none is changed or deleted
        "replicasets": ({"get"}, None),  # whose Deployment gets the Event
        # What says how many pods start together, when one of them starts.
        **dict.fromkeys(("jobsets", "leaderworkersets", "podgroups", "rayclusters", "workloads"), ({"get"}, None)),
        "namespaces": ({"get"}, None),  # one at a time, so that no ledger is begun for one that does not exist
        # What was counted is written there, one object for each quota; no answer depends on it.
        "gpupolicies": ({"get", "list", "watch", "create", "update", "delete"}, None),  # to be read by people alone
        "gpuquotas": ({"get", "list", "watch", "create", "update", "delete"}, None),
    }
    assert {name for rule in rules for name in rule["apiGroups"] if "gpuquotas" in rule["resources"]} == {
        "gpupolicy.dev"
    }
    own = objects.one("Role")
    assert own["metadata"]["namespace"] == "gpu-policy"
    assert [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in own["rules"]] == [
        (["secrets"], ["gpu-policy-tls"], ["get", "update"]),
        (["secrets"], None, ["create"]),
        (["configmaps"], None, ["get", "list", "create", "update", "delete"]),
    ]
    assert len(objects.of("RoleBinding") + objects.of("ClusterRoleBinding")) == 2
    assert {role["metadata"]["name"] for role in objects.of("ClusterRole")} == {"gpu-policy", "gpu-policy-view"}


def test_what_tenants_may_do_with_quotas_is_to_look_at_their_own() -> None:
    viewing = shipped().one("ClusterRole", "gpu-policy-view")
    assert {label for label in viewing["metadata"]["labels"] if "aggregate-to" in label} == {
        "rbac.authorization.k8s.io/aggregate-to-view"
    }
    shown = [["gpuquotas"], ["gpupolicies"]]
    assert [(rule["apiGroups"], rule["resources"]) for rule in viewing["rules"]] == [
        (["gpupolicy.dev"], one) for one in shown
    ]
    assert all(set(rule["verbs"]) == {"get", "list", "watch"} for rule in viewing["rules"])
    definitions = [definition["spec"] for definition in shipped().of("CustomResourceDefinition")]
    assert [[one["names"]["plural"]] for one in definitions] == shown
    assert {one["scope"] for one in definitions} == {"Namespaced"}


def test_the_configurations_ask_for_the_subresources_that_change_a_pod() -> None:
    for entry in shipped().entries:
        if entry["name"].startswith("validate"):
            updated = {r for rule in entry["rules"] if "UPDATE" in rule["operations"] for r in rule["resources"]}
            assert updated == {"pods", "pods/ephemeralcontainers", "pods/resize"}

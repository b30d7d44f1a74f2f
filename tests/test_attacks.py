"""Attacks and faults that happened to other admission webhooks, each tried here. Those that need a real API server are
tried in tests/e2e too; docs/decisions/0002 says which do not apply.
"""

import copy
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.replicas import POLICY, FactsInAnyState, Replica
from tests.reviews import (
    FACTS,
    WORKLOADS,
    against,
    container,
    env,
    patched,
    pod,
    policies,
    policy,
    request,
    requests_only,
    workload,
)
from tests.reviews import review as admission_review
from tests.rules.every_rule import INJECTING
from webhook import engine
from webhook.admission import phases
from webhook.admission.metrics import Metrics
from webhook.admission.quota_phase import TimeBudget
from webhook.admission.quota_service import QuotaParts, QuotaService
from webhook.admission.review import AdmissionResponse
from webhook.admission.service import Service
from webhook.audit.documents import Document
from webhook.audit.review_objects import review
from webhook.facts.snapshot import Snapshot
from webhook.facts.static_pods import StaticPods
from webhook.ledger.ledger_store import MemoryStore
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet
from webhook.policy.policy_store import PolicyStore
from webhook.yaml_files.file_errors import FileErrors

ROOT = Path(__file__).parent.parent
QUOTA = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: team}
spec:
  rules:
    gpuQuota: {mode: enforce, gpus: 4}
"""
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
def test_A1_nothing_that_a_tenant_writes_into_a_pod_changes_the_verdict(metadata: dict[str, Any]) -> None:
    plain, dressed = validate(pod(9)), validate(pod(9, **metadata))
    assert not plain.answer.is_allowed
    assert dressed.answer == plain.answer


def test_A1_policies_are_files_and_no_objects_of_the_cluster(tmp_path: Path) -> None:
    replica = Replica(tmp_path / "policies")
    before = replica.store.current
    for kind in (("gpupolicy.dev", "v1alpha1", "GPUPolicy"), ("", "v1", "ConfigMap"), ("", "v1", "Namespace")):
        replica.ask("/mutate", {"metadata": {"name": "team"}, "spec": {"rules": {}}}, kind=kind)
    assert replica.store.check() is False
    assert replica.store.current is before
    readable = {name for rule in shipped().one("ClusterRole", "gpu-policy")["rules"] for name in rule["resources"]}
    assert readable == {
        "nodes",
        "runtimeclasses",
        "priorityclasses",
        "deviceclasses",
        "resourceclaims",  # which GPUs pods ask for by name
        "resourceclaimtemplates",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "pods",  # which are counted
        "namespaces",  # one at a time, so that no ledger is begun for one that does not exist
        "resourcequotas",  # which refuse pods of their own namespace after us; they bound what such pods hold
        "gpuquotas",  # in which is written what was counted; no answer depends on it
    }


def test_A1_no_label_that_a_tenant_can_set_keeps_a_namespace_away() -> None:
    for entry in shipped().entries:
        assert "objectSelector" not in entry
        selectors = entry["namespaceSelector"]["matchExpressions"]
        assert {selector["key"] for selector in selectors} == {"kubernetes.io/metadata.name"}


# A2: the same object through another served version misses the rule.


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2", "v2alpha1"])
@pytest.mark.parametrize("kind", WORKLOADS)
def test_A2_every_version_of_a_workload_is_checked(kind: str, version: str) -> None:
    group = WORKLOADS[kind][0].rpartition("/")[0]
    raw = workload(kind, pod(9)) | {"apiVersion": f"{group}/{version}" if group else version}
    assert phases.workloads(request(raw), ENFORCED, FACTS).answer.warnings


def test_A2_the_configurations_ask_for_every_version() -> None:
    for entry in shipped().entries:
        assert entry["matchPolicy"] == "Equivalent"
        assert {version for rule in entry["rules"] for version in rule["apiVersions"]} == {"*"}


# A3: of two exceptions the wider wins. Every order of every pair is tried in tests/policy/test_precedence.py.


@pytest.mark.parametrize("other", ["team-a", "*eam-a"], ids=["the same name", "a glob as long"])
def test_A3_two_files_that_can_claim_one_namespace_are_an_error_at_load(tmp_path: Path, other: str) -> None:
    first = "team-a" if other == "team-a" else "team-*"
    for name, pattern in (("one", first), ("two", other)):
        text = POLICY.replace("_default", name).replace("spec:\n", f'spec:\n  namespaces: ["{pattern}"]\n')
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(FileErrors, match=r"two\.yaml.*one\.yaml|one\.yaml.*two\.yaml"):
        load(tmp_path)


# A4: scan and command line honour an exception that the webhook does not.


@pytest.mark.parametrize("namespace", ["team", "exempt", "exempt-2"])
@pytest.mark.parametrize("raw", [pod(9), pod(2), requests_only(), pod(0)], ids=["nine", "two", "requests", "none"])
def test_A4_webhook_and_review_give_one_answer(namespace: str, raw: dict[str, Any]) -> None:
    lax = policy({"gpuLimits": {"mode": "warn"}}, name="exempt")
    using = PolicySet.of(ENFORCED.default, {"exempt": lax, "exempt-*": lax})
    raw = copy.deepcopy(raw)
    raw["metadata"]["namespace"] = namespace
    (item,) = review([Document("f", 1, 1, raw)], "default", against(using)).items
    mutated = mutate(raw, using=using, namespace=namespace)
    refused = not mutated.answer.is_allowed
    if not refused:
        refused = not validate(patched(raw, mutated), using=using, namespace=namespace).answer.is_allowed
    assert (item.is_allowed, list(item.patch)) == (not refused, list(mutated.answer.patch))


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
def test_A5_a_failing_look_up_is_no_verdict_and_is_counted(tmp_path: Path, look_up: str, path: str) -> None:
    replica = Replica(tmp_path / "policies")
    replica.write(POLICY + "    runtimeClass: {mode: enforce}\n")
    replica.store.check()
    replica.facts.facts = FailingFacts(look_up)  # type: ignore[assignment]  # on purpose
    answer = replica.client.post(path, json=admission_review(pod(1)))
    assert (answer.status_code, "allowed" in answer.text) == (500, False)
    assert replica.count("gpu_policy_errors_total", reason="bug") == 1


def test_A5_a_request_without_an_answer_stops_the_pod() -> None:
    """Which only GPU pods notice, and pods that are after GPU nodes; what the chart makes for older clusters is tried
    in tests/deploy.
    """
    asked = [entry for entry in shipped().entries if any("pods" in rule["resources"] for rule in entry["rules"])]
    assert [entry["name"].partition(".")[0] for entry in asked] == ["mutate", "validate"]
    assert [entry["failurePolicy"] for entry in asked] == ["Fail", "Fail"]
    last = [entry["matchConditions"][-1]["name"] for entry in asked]
    assert last == ["only-gpu-pods", "only-gpu-pods-and-nodes"]


# A6: objects with a deletionTimestamp are skipped.


@pytest.mark.parametrize("phase", [mutate, validate])
def test_A6_a_deletion_timestamp_changes_nothing_on_create(phase: Any) -> None:
    deleting = pod(9, deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=0)
    assert phase(deleting).answer.is_allowed == phase(pod(9)).answer.is_allowed
    assert list(phase(deleting).answer.patch) == list(phase(pod(9)).answer.patch)


def test_A6_a_pod_being_deleted_may_change_anything_but_for_the_worse() -> None:
    old = pod(9, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    freed = pod(9, deletionTimestamp="2026-01-01T00:00:00Z")
    assert validate(freed, "UPDATE", old=old).answer.is_allowed
    worse = copy.deepcopy(freed)
    worse["spec"]["containers"][0]["env"] = EXPOSED
    assert not validate(worse, "UPDATE", old=old).answer.is_allowed


# A7: a setting of the pod hides one of a container. No rule reads seccomp; memory limits exist in both places.


@pytest.mark.parametrize(
    ("of_pod", "of_container", "expected"),
    [("2Gi", "8Gi", "2Gi"), ("8Gi", "2Gi", "2Gi"), (None, "2Gi", "2Gi"), ("2Gi", None, "2Gi"), ("16Gi", "16Gi", "4Gi")],
)
def test_A7_the_smaller_of_two_limits_holds_wherever_it_stands(
    of_pod: str | None, of_container: str | None, expected: str
) -> None:
    limits = {"nvidia.com/gpu": 2} | ({"memory": of_container} if of_container else {})
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    if of_pod:
        spec["resources"] = {"limits": {"memory": of_pod}}
    completed = engine.complete(pod(spec=spec), policy({"sharedMemory": {"size": "4Gi"}}), FACTS)
    assert completed.object["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == expected


# A8: policies that make the engine talk to the network.


def test_A8_no_answer_needs_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a connection on the way to an answer")

    replica = Replica(tmp_path / "policies")
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for raw in (pod(2), pod(9), requests_only(), workload("Job", pod(9))):
        for path in ("/mutate", "/validate", "/workloads"):
            replica.ask(path, raw)


def test_A8_policies_are_data_without_addresses_or_expressions() -> None:
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
    assert {"tolerations", "maxPerPod", "pots"} <= keys
    words = ("url", "uri", "host", "service", "token", "secret", "cel", "jmespath", "script", "call", "context")
    assert not [key for key in keys - {"accelerators"} if any(word in key.lower() for word in words)]


def test_A8_the_webhook_may_read_of_tenants_only_what_counts_and_write_only_what_is_its_own() -> None:
    """Creating cannot be limited to a name; in its own namespace it creates the Secret that somebody deleted, and the
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
        "resourceclaims": ({"list", "watch"}, None),
        "resourceclaimtemplates": ({"list", "watch"}, None),
        "mutatingwebhookconfigurations": ({"get", "update"}, ["gpu-policy"]),
        "validatingwebhookconfigurations": ({"get", "update"}, ["gpu-policy"]),
        "pods": ({"get", "list", "watch"}, None),
        "namespaces": ({"get"}, None),
        "resourcequotas": ({"list"}, None),
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


def test_A8_what_tenants_may_do_with_quotas_is_to_look_at_their_own() -> None:
    viewing = shipped().one("ClusterRole", "gpu-policy-view")
    assert {label for label in viewing["metadata"]["labels"] if "aggregate-to" in label} == {
        "rbac.authorization.k8s.io/aggregate-to-view"
    }
    (rule,) = viewing["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["gpupolicy.dev"], ["gpuquotas"])
    assert set(rule["verbs"]) == {"get", "list", "watch"}
    (definition,) = shipped().of("CustomResourceDefinition")
    assert (definition["spec"]["names"]["plural"], definition["spec"]["scope"]) == ("gpuquotas", "Namespaced")


# A9: messages show what belongs to other tenants.


def test_A9_messages_show_nothing_of_other_namespaces_or_of_nodes() -> None:
    node = {
        "metadata": {"name": "secret-node", "uid": "1", "labels": {"secret-label": "secret-value"}},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "runtimeHandlers": [{"name": "secret-handler"}]},
    }
    facts = Snapshot.of([node], [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}])
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
    assert "1 of the nodes the pod could land on lacks the runtime handler nvidia" in said[0]
    assert "secret-" not in "".join(said).replace("set by valueFrom", "")


# A12: kubectl debug is not matched.


def test_A12_the_configurations_ask_for_the_subresources_that_change_a_pod() -> None:
    for entry in shipped().entries:
        if entry["name"].startswith("validate"):
            updated = {r for rule in entry["rules"] if "UPDATE" in rule["operations"] for r in rule["resources"]}
            assert updated == {"pods", "pods/ephemeralcontainers", "pods/resize"}


@pytest.mark.parametrize("list_name", ["containers", "initContainers", "ephemeralContainers"])
def test_A12_all_three_lists_of_containers_are_read(list_name: str) -> None:
    raw = pod(0)
    raw["spec"][list_name] = [*raw["spec"].get(list_name, []), {"name": "debug", "env": EXPOSED}]
    expected = f"visibleDevices: spec.{list_name}[debug].env[NVIDIA_VISIBLE_DEVICES]: "
    assert validate(raw).answer.message.startswith(expected)
    answer = validate(raw, "UPDATE", old=pod(0), subResource="ephemeralcontainers").answer
    assert answer.message.startswith(expected)


# A31: GPUs without asking for one.


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [container("c", env=EXPOSED)]}, id="all"),
        pytest.param({"containers": [container("c", env=env("NVIDIA_VISIBLE_DEVICES", "0,1"))]}, id="by index"),
        pytest.param({"containers": [container("c", env=env("NVIDIA_VISIBLE_DEVICES", "GPU-8d1f"))]}, id="by uuid"),
        pytest.param({"containers": [container("c", env=env("NVIDIA_VISIBLE_DEVICES", " void"))]}, id="almost void"),
        pytest.param(
            {"containers": [container("c", env=EXPOSED + env("NVIDIA_VISIBLE_DEVICES", "void"))]}, id="set twice"
        ),
        pytest.param(
            {
                "containers": [
                    container("c", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {}}}])
                ]
            },
            id="from elsewhere",
        ),
        pytest.param({"initContainers": [container("c", env=EXPOSED)]}, id="init container"),
        pytest.param({"containers": [container("c", limits={"nvidia.com/gpu": 0}, env=EXPOSED)]}, id="zero GPUs"),
        pytest.param(
            {
                "containers": [container("a", limits={"nvidia.com/gpu": 1}), container("b", env=EXPOSED)],
                "tolerations": [{"operator": "Exists"}],
            },
            id="beside one that asks, where nodes have more",
        ),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "/dev/nvidia0"}}]}, id="device file"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "//dev/../dev//nvidiactl"}}]}, id="disguised"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "/dev/dri"}}]}, id="render nodes"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {"path": "/dev/dri/renderD128/"}}]}, id="one of them"),
        pytest.param(
            {
                "runtimeClassName": "nvidia",
                "containers": [container("c", securityContext={"privileged": True})],
            },
            id="privileged under the runtime class",
        ),
    ],
)
def test_A31_a_pod_that_asks_for_no_gpu_gets_none(spec: dict[str, Any]) -> None:
    raw = pod(0, spec=spec if "containers" in spec else {"containers": [container("c")], **spec})
    assert is_refused(raw, policies({"visibleDevices": {}}))


@pytest.mark.parametrize("value", ["void", "none", ""])
def test_A31_switching_gpus_off_is_allowed(value: str) -> None:
    raw = pod(0, spec={"containers": [container("c", env=env("NVIDIA_VISIBLE_DEVICES", value))]})
    assert not is_refused(raw, policies({"visibleDevices": {}}))


def test_A31_an_image_that_sets_the_variable_gets_nothing_beside_a_container_that_asks() -> None:
    raw = pod(1, 0)
    decision = mutate(raw, using=policies({"visibleDevices": {}}))
    assert patched(raw, decision)["spec"]["containers"][1]["env"] == env("NVIDIA_VISIBLE_DEVICES", "void")


# A32: spellings and places that hide GPUs from a count.


@pytest.mark.parametrize(
    "five",
    [5, "5", "5000m", "5e0", "0.5e1", "50e-1", "5.0", "5000000u", "0.005k", "+5", "4001m"],
    ids=str,
)
def test_A32_a_quantity_counts_however_it_is_spelled(five: Any) -> None:
    assert is_refused(pod(five))


@pytest.mark.parametrize("four", [4, "4", "4000m", "4e0", "0.004k"], ids=str)
def test_A32_what_is_allowed_is_allowed_however_it_is_spelled(four: Any) -> None:
    assert not is_refused(pod(four))


@pytest.mark.parametrize("nonsense", ["five", "5 GPUs", "-1", "0x5", "5Qi", "", True, [5], {"n": 5}, "1e400000", 0.5])
def test_A32_nonsense_is_refused_and_breaks_nothing(nonsense: Any) -> None:
    assert is_refused(pod(nonsense))


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/pgpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        {"containers": [5]},
        {"containers": [3, 2]},
        {"containers": [0], "initContainers": [5]},
        {"containers": [3], "initContainers": ["sidecar 2"]},
        {"containers": [1], "initContainers": ["sidecar 2", 3]},
    ],
    ids=["one container", "two containers", "init container", "sidecar", "sidecar before init"],
)
def test_A32_a_gpu_counts_wherever_it_is_asked_for(resource: str, place: dict[str, list[Any]]) -> None:
    spec: dict[str, Any] = {}
    for list_name, counts in place.items():
        spec[list_name] = [
            container(f"{list_name[0]}{index}", limits={resource: int(str(count).rpartition(" ")[2])})
            | ({"restartPolicy": "Always"} if "sidecar" in str(count) else {})
            for index, count in enumerate(counts)
        ]
    assert is_refused(pod(spec=spec))


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
def test_A32_no_way_of_placing_a_pod_gets_it_past_the_maximum(spec: dict[str, Any]) -> None:
    raw = pod(5)
    raw["spec"] |= spec
    assert is_refused(raw)


def test_A32_requests_are_no_way_around_limits() -> None:
    for requests, limits in (({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 1}), ({"nvidia.com/gpu": 8}, {})):
        assert is_refused(pod(spec={"containers": [container("c", requests=requests, limits=limits)]}))


# A33: somebody other than the API server talks to the port. The caps on connections are tried in tests/server.


def test_A33_the_network_policy_leaves_only_the_port_of_the_webhook_open() -> None:
    objects = shipped()
    network_policy = objects.one("NetworkPolicy", "gpu-policy")["spec"]
    labels = objects.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert network_policy["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = network_policy["ingress"]
    ports = {port["name"]: port["containerPort"] for port in objects.container["ports"]}
    assert [port["port"] for port in rule["ports"]] == [ports["https"]]
    about_metrics = objects.one("NetworkPolicy", "gpu-policy-metrics")["spec"]
    assert about_metrics["podSelector"] == network_policy["podSelector"]
    (rule,) = about_metrics["ingress"]
    assert [port["port"] for port in rule["ports"]] == [ports["metrics"]]


def test_A33_strangers_who_ask_change_nothing(tmp_path: Path) -> None:
    """A review leaves no trace but a log line and counts, so a forged one gains nothing."""
    replica = Replica(tmp_path / "policies")
    before = (replica.store.current, replica.facts.facts)
    for path in ("/mutate", "/validate"):
        replica.ask(path, pod(9), "CREATE", groups=["system:masters"])
    assert (replica.store.current, replica.facts.facts) == before


# A34: static pods, generated names, dry runs.


@pytest.mark.parametrize(
    ("groups", "annotations", "skipped"),
    [
        (["system:nodes"], {"kubernetes.io/config.mirror": "x"}, True),
        (["system:authenticated"], {"kubernetes.io/config.mirror": "x"}, False),
        (["system:masters"], {"kubernetes.io/config.mirror": "x"}, False),
        (["system:nodes"], {}, False),
    ],
    ids=["a node shows a static pod", "a user pretends", "an administrator pretends", "a node makes a pod"],
)
def test_A34_a_mirror_pod_is_skipped_only_with_the_identity_of_a_node(
    groups: list[str], annotations: dict[str, str], skipped: bool
) -> None:
    assert validate(pod(9, annotations=annotations), groups=groups).answer.is_allowed is skipped


def test_A34_a_generated_name_is_no_obstacle() -> None:
    raw = pod(2, generateName="trainer-")
    del raw["metadata"]["name"]
    assert mutate(raw).answer.patch == mutate(pod(2)).answer.patch
    assert validate(raw).answer == validate(pod(2)).answer


def test_A34_a_dry_run_gets_the_answer_that_the_real_run_would_get() -> None:
    assert mutate(pod(2), dryRun=True).answer == mutate(pod(2)).answer
    assert validate(pod(9), dryRun=True).answer == validate(pod(9)).answer


@pytest.mark.parametrize("gpus", [2, 3], ids=["fits into the quota", "does not"])
def test_A34_a_dry_run_is_judged_by_quotas_and_enters_nothing(gpus: int, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(QUOTA)
    policies, metrics, store = PolicyStore(tmp_path), Metrics(), MemoryStore()
    running = StaticPods([pod(2, name="running")])
    desk = QuotaService(QuotaParts(store, running), policies, metrics)
    service = Service(policies, FactsInAnyState(), metrics, ledgers=desk)

    def answer(*, is_dry_run: bool) -> AdmissionResponse:
        raw = pod(gpus, uid="705ab4f5-6393-11e8-b7cc-42010a800001")
        return service.validate(request(raw, dryRun=is_dry_run), FACTS, TimeBudget()).answer

    tried = answer(is_dry_run=True)
    assert store.read_all(1) == {}
    assert answer(is_dry_run=False) == tried
    assert tried.is_allowed == (gpus == 2)
    (held,) = store.read_all(1).values()
    assert len(held.book.entries) == 1 + tried.is_allowed


def test_A34_the_configurations_say_that_dry_runs_leave_nothing_and_other_requests_only_of_one_phase() -> None:
    """The validating phase enters pods in ledgers; the other one, and what pods are made of, change nothing."""
    effects = {entry["name"]: entry["sideEffects"] for entry in shipped().entries}
    assert {name for name, effect in effects.items() if effect == "NoneOnDryRun"} == {
        name for name in effects if name.startswith("validate.")
    }
    assert set(effects.values()) == {"None", "NoneOnDryRun"}

"""Attacks through what a replica may read and write, and through what its configurations do not ask for."""

import json
from pathlib import Path
from typing import Any

from tests.deploy.manifests import shipped
from tests.replicas import Replica

ROOT = Path(__file__).parent.parent


def test_policies_are_files_and_no_objects_of_the_cluster(tmp_path: Path) -> None:
    replica = Replica(tmp_path / "policies")
    before = replica.store.current
    for kind in (("gpupolicy.dev", "v1alpha1", "GPUPolicy"), ("", "v1", "ConfigMap"), ("", "v1", "Namespace")):
        replica.ask("/mutate", {"metadata": {"name": "team"}, "spec": {"rules": {}}}, kind=kind)
    assert replica.store.check() is False
    assert replica.store.current is before


def test_no_label_that_a_tenant_can_set_keeps_a_namespace_away() -> None:
    for entry in shipped().entries:
        assert "objectSelector" not in entry
        selectors = entry["namespaceSelector"]["matchExpressions"]
        assert {selector["key"] for selector in selectors} == {"kubernetes.io/metadata.name"}


def test_the_configurations_ask_for_every_version() -> None:
    for entry in shipped().entries:
        assert entry["matchPolicy"] == "Equivalent"
        assert {version for rule in entry["rules"] for version in rule["apiVersions"]} == {"*"}


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
        "mutatingwebhookconfigurations": ({"get", "update"}, ["gpu-policy"]),
        "validatingwebhookconfigurations": ({"get", "update"}, ["gpu-policy"]),
        "pods": ({"get", "list", "watch"}, None),  # which are counted, or have a claim made for them
        "events": ({"create"}, None),  # with warnings, about pods that are stored; none is changed or deleted
        "replicasets": ({"get"}, None),  # whose Deployment gets the Event
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


def test_a_policy_file_is_no_object_of_any_kind_of_the_cluster() -> None:
    """Whoever applies one to the cluster by mistake is told so, and whoever puts such an object into a file is, too."""
    kinds = {definition["spec"]["names"]["kind"] for definition in shipped().of("CustomResourceDefinition")}
    assert kinds == {"GPUQuota", "EffectiveGPUPolicy"}


# A12: kubectl debug is not matched.


def test_the_configurations_ask_for_the_subresources_that_change_a_pod() -> None:
    for entry in shipped().entries:
        if entry["name"].startswith("validate"):
            updated = {r for rule in entry["rules"] if "UPDATE" in rule["operations"] for r in rule["resources"]}
            assert updated == {"pods", "pods/ephemeralcontainers", "pods/resize"}


# A33: somebody other than the API server talks to the port. The caps on connections are tried in tests/server.


def test_the_network_policy_leaves_only_the_port_of_the_webhook_open() -> None:
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


# A34: static pods, generated names, dry runs.


def test_the_configurations_say_that_dry_runs_leave_nothing_and_other_requests_only_where_quotas_are_asked() -> None:
    """The validating phase and that of claims write ledgers; the others change nothing."""
    effects = {entry["name"]: entry["sideEffects"] for entry in shipped().entries}
    assert {name for name, effect in effects.items() if effect == "NoneOnDryRun"} == {
        name for name in effects if name.startswith(("validate.", "claims."))
    }
    assert set(effects.values()) == {"None", "NoneOnDryRun"}


def test_scaling_brings_nothing_in_that_was_not_checked() -> None:
    """A Scale holds a number and no template; the pods that it leads to are created, and checked, as any others."""
    asked_for = {resource for entry in shipped().entries for rule in entry["rules"] for resource in rule["resources"]}
    assert "pods" in asked_for
    assert not [resource for resource in asked_for if resource.endswith("/scale")]

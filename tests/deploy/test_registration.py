"""The webhook configurations that the chart makes: whom they ask about, when, and where."""

import re
from typing import Any

import pytest

from deploy.generate import CHART, HelmError
from tests import quick_yaml
from tests.deploy.manifests import Objects, needs_helm, rendered, shipped
from tests.deploy.value_sets import value_sets
from tests.golden import golden
from webhook.audit.review_objects import NEVER_SENT
from webhook.model.accelerators import Declared
from webhook.model.workloads import WORKLOADS

ROOT = CHART.parents[1]
OF_PODS = ("mutate", "validate")
CLAIM_TEMPLATES = ("resource.k8s.io", "resourceclaimtemplates")
ABOUT_PODS = ("mutate", "validate", "workloads")
"""Everything but what is about policies."""


def registered(entry: dict[str, Any]) -> set[tuple[str, str]]:
    return {(group, name) for rule in entry["rules"] for group in rule["apiGroups"] for name in rule["resources"]}


# Which requests are asked about


def test_pods_are_changed_and_judged_and_every_kind_that_is_known_to_make_them_is_judged() -> None:
    mutate, validate, workloads, _, claims, drivers = shipped().entries
    assert registered(mutate) == {("", "pods")}
    assert registered(validate) == {("", name) for name in ("pods", "pods/ephemeralcontainers", "pods/resize")}
    assert registered(workloads) == {*((kind.group, kind.resource) for kind in WORKLOADS.values()), CLAIM_TEMPLATES}
    assert registered(claims) == {("resource.k8s.io", "resourceclaims")}
    assert registered(drivers) == {("nvidia.com", "clusterpolicies"), ("nvidia.com", "nvidiadrivers")}
    assert [rule["operations"] for rule in claims["rules"]] == [["CREATE"]]


def test_templates_of_claims_are_judged_once_because_what_they_request_never_changes() -> None:
    *_, workloads = shipped().about_pods
    (operations,) = [rule["operations"] for rule in workloads["rules"] if CLAIM_TEMPLATES[1] in rule["resources"]]
    assert operations == ["CREATE"]


@needs_helm
@golden
def test_claims_are_asked_about_where_the_values_or_the_cluster_say_so(
    values: dict[str, object], versions: tuple[str, ...], is_asked: bool
) -> None:
    entries = rendered(values, *versions).entries
    assert ("claims.gpupolicy.dev" in [entry["name"] for entry in entries]) is is_asked


@needs_helm
def test_kinds_of_ones_own_are_asked_about_too() -> None:
    extra = [{"group": "ml.example.com", "resources": ["trainings", "sweeps"]}, {"group": "", "resources": ["things"]}]
    *_, ours, theirs = rendered({"workloads": {"extraRules": extra}}).about_pods[-1]["rules"]
    for rule, group, resources in ((ours, "ml.example.com", ["trainings", "sweeps"]), (theirs, "", ["things"])):
        assert rule == {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": resources,
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        }


def test_neither_scale_nor_status_of_a_workload_is_ever_asked_about() -> None:
    *_, workloads = shipped().about_pods
    assert not [name for _, name in registered(workloads) if "/" in name or "*" in name]


@needs_helm
@value_sets
def test_no_object_ever_depends_on_what_is_said_of_workloads(values: dict[str, Any]) -> None:
    of_workloads = [
        entry for entry in rendered(values, namespace="platform").entries if entry["name"] == "workloads.gpupolicy.dev"
    ]
    assert {(entry["failurePolicy"], entry["sideEffects"]) for entry in of_workloads} <= {("Ignore", "None")}
    assert len(of_workloads) == values.get("workloads", {}).get("enabled", True)


@needs_helm
@value_sets
def test_of_policies_nothing_is_sent_but_config_maps_of_the_releases_own_namespace(values: dict[str, Any]) -> None:
    for entry in rendered(values, namespace="platform").entries:
        if entry["name"] == "policies.gpupolicy.dev":
            (selected,) = entry["namespaceSelector"]["matchExpressions"]
            assert selected == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["platform"]}
            assert registered(entry) == {("", "configmaps")}
        else:
            assert ("", "configmaps") not in registered(entry)


def mounted(objects: Objects) -> list[str]:
    """The ConfigMaps that the replicas have as their directory of policies."""
    (volume,) = [volume for volume in objects.pod["volumes"] if volume["name"] == "policies"]
    return [source["configMap"]["name"] for source in volume["projected"]["sources"]]


@needs_helm
@value_sets
def test_the_config_maps_that_are_mounted_as_policies_are_sent_whoever_made_them(values: dict[str, Any]) -> None:
    objects = rendered(values, namespace="platform")
    if not values.get("policies", {}).get("checkAtApply", True):
        return
    entry = objects.about_policies
    names = ", ".join(f"'{name}'" for name in mounted(objects))
    assert entry["matchConditions"] == [{"name": "only-policies", "expression": f"object.metadata.name in [{names}]"}]


def test_deleting_is_never_asked_about() -> None:
    for entry in shipped().entries:
        assert {operation for rule in entry["rules"] for operation in rule["operations"]} <= {"CREATE", "UPDATE"}


@needs_helm
@value_sets
def test_the_webhooks_own_namespace_and_kube_system_are_always_excluded(values: dict[str, Any]) -> None:
    for entry in rendered(values, namespace="platform").about_pods:
        excluded = entry["namespaceSelector"]["matchExpressions"][0]
        assert (excluded["key"], excluded["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert {"platform", "kube-system"} <= set(excluded["values"])


AGENTS = NEVER_SENT[2:]
"""Where agents of GPU nodes are; before them stand kube-system and the webhook's own namespace."""


@needs_helm
def test_where_agents_of_gpu_nodes_usually_are_is_excluded_until_other_namespaces_are_named() -> None:
    """So that a new node gets its device plugin while nobody answers."""
    named = {"webhook": {"namespaceSelector": {"exclude": ["team-infra", "gpu-policy"]}}}
    for values, expected in (({}, AGENTS), (named, ["team-infra"])):
        for entry in rendered(values).about_pods:
            excluded = entry["namespaceSelector"]["matchExpressions"][0]["values"]
            assert excluded == ["kube-system", "gpu-policy", *expected]


def test_agents_that_are_not_excluded_after_all_are_not_refused_by_the_policies_that_come_along() -> None:
    policy = quick_yaml.load((ROOT / "policies" / "gpu-operator.yaml").read_text())
    assert set(AGENTS) <= set(policy["spec"]["namespaces"])
    assert policy["spec"]["rules"]["visibleDevices"] == {"mode": "disabled"}


@needs_helm
@value_sets
def test_namespaces_and_objects_are_selected_by_nothing_that_a_tenant_can_change(values: dict[str, Any]) -> None:
    for entry in rendered(values, namespace="platform").entries:
        assert "objectSelector" not in entry
        if entry["name"] == "drivers.gpupolicy.dev":
            assert "namespaceSelector" not in entry  # about objects without a namespace
            continue
        assert set(entry["namespaceSelector"]) == {"matchExpressions"}
        keys = {expression["key"] for expression in entry["namespaceSelector"]["matchExpressions"]}
        assert keys == {"kubernetes.io/metadata.name"}


@needs_helm
@pytest.mark.parametrize("version", ["1.28.0", "1.36.2-gke.100"])
@pytest.mark.parametrize(("explicit", "expected"), [("", "Fail"), ("Ignore", "Ignore")])
def test_an_answer_about_the_pods_that_are_sent_is_required_unless_the_values_say_otherwise(
    version: str, explicit: str, expected: str
) -> None:
    phases = {phase: {"failurePolicy": explicit} for phase in OF_PODS}
    *of_pods, of_workloads = rendered({"webhook": phases}, version=version).about_pods
    assert all("matchConditions" in entry for entry in (*of_pods, of_workloads))
    assert [entry["failurePolicy"] for entry in (*of_pods, of_workloads)] == [expected, expected, "Ignore"]


@needs_helm
def test_clusters_before_1_28_are_refused() -> None:
    with pytest.raises(HelmError, match=r"chart requires kubeVersion: >=1\.28\.0-0"):
        rendered(version="1.27.16")


@needs_helm
def test_each_phase_has_a_failure_policy_and_a_patience_of_its_own() -> None:
    values = {
        "webhook": {
            "mutate": {"failurePolicy": "Ignore", "timeoutSeconds": 2},
            "validate": {"failurePolicy": "Fail", "timeoutSeconds": 7},
        },
        "workloads": {"timeoutSeconds": 3},
    }
    found = [(entry["name"], entry["failurePolicy"], entry["timeoutSeconds"]) for entry in rendered(values).entries]
    assert found == [
        ("mutate.gpupolicy.dev", "Ignore", 2),
        ("validate.gpupolicy.dev", "Fail", 7),
        ("workloads.gpupolicy.dev", "Ignore", 3),
        ("policies.gpupolicy.dev", "Ignore", 5),
        ("claims.gpupolicy.dev", "Fail", 7),
        ("drivers.gpupolicy.dev", "Ignore", 10),
    ]


@needs_helm
def test_a_value_says_that_pods_get_the_nvidia_runtime_without_naming_it() -> None:
    generated = quick_yaml.load((CHART / "files" / "match-conditions.yaml").read_text())["nvidiaIsDefaultRuntime"]
    objects = rendered({"webhook": {"nvidiaIsDefaultRuntime": True}})
    found = [entry["matchConditions"] for entry in objects.about_pods]
    assert found == [generated[phase] for phase in ABOUT_PODS]
    assert found != [entry["matchConditions"] for entry in rendered().about_pods]


@needs_helm
@golden
def test_names_that_only_the_platform_knows_are_sent(
    name: object, sent: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    """In every list of names, as the policy would have them, and beside the names that everybody knows."""
    listed = re.compile(r"\.matches\(r'(.*?)'\)")
    plain, objects = rendered(), rendered({"accelerators": {"extra": [name]}})
    for before, entry in zip(plain.about_pods, objects.about_pods, strict=True):
        expressions = [one["expression"] for one in entry["matchConditions"]]
        patterns = [pattern for expression in expressions for pattern in listed.findall(expression)]
        known = [p for one in before["matchConditions"] for p in listed.findall(one["expression"])]
        own = Declared(name["name"] if isinstance(name, dict) else str(name)).pattern
        assert patterns == [pattern.replace("^(", f"^({own}|", 1) for pattern in known]
        assert all(re.search(pattern, one) for pattern in patterns for one in (*sent, "nvidia.com/gpu"))
        assert not any(re.search(pattern, one) for pattern in patterns for one in kept)

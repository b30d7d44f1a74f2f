"""The CronJob that audits the cluster: what it runs, with which rights, and that there is none unless asked for."""

from typing import Any

import pytest

from deploy.generate import CHART, HelmError, render
from tests import quick_yaml
from tests.deploy.manifests import Objects, Raw, needs_helm, rendered, shipped
from tests.golden import each, golden
from webhook.audit.review_objects import NEVER_SENT
from webhook.commands.main import main
from webhook.model.workloads import WORKLOADS
from webhook.replica.audit_status import STALE_KEY

AUDITED: dict[str, Any] = {"audit": {"enabled": True}}
NAME = "gpu-policy-audit"


def audited(values: dict[str, Any] | None = None, **settings: Any) -> Objects:
    """An installation with audits of these settings."""
    return rendered({**(values or {}), "audit": {"enabled": True, **settings}})


def job(objects: Objects) -> Raw:
    found: Raw = objects.one("CronJob")["spec"]["jobTemplate"]["spec"]
    return found


def pod(objects: Objects) -> Raw:
    found: Raw = job(objects)["template"]["spec"]
    return found


def arguments(objects: Objects) -> list[str]:
    (container,) = pod(objects)["containers"]
    return list(container["args"])


def named(objects: Objects, option: str) -> list[str]:
    """The values of an option."""
    return [value for name, _, value in (text.partition("=") for text in arguments(objects)) if name == option]


@pytest.mark.parametrize(
    "objects", [pytest.param(shipped(), id="install.yaml"), pytest.param(None, id="the chart", marks=needs_helm)]
)
def test_nobody_is_audited_who_has_not_asked_for_it(objects: Objects | None) -> None:
    objects = rendered() if objects is None else objects
    assert objects.of("CronJob") == []
    assert not [one for one in objects if one["metadata"]["name"].startswith(NAME)]
    assert "--audit-status" not in dict(objects.options)


# What it runs


@needs_helm
@pytest.mark.parametrize("kind", ["auto", "policyreports", "openreports", "never"])
def test_the_command_takes_every_argument_that_it_is_given(kind: str) -> None:
    objects = audited(policyReports=kind)
    name, *rest = arguments(objects)
    main.commands[name].make_context(name, list(rest))
    assert named(objects, "--publish") == ([] if kind == "never" else [kind])
    assert named(objects, "--fail-on") == ["never"]


@needs_helm
def test_the_audit_writes_its_status_where_the_replicas_read_it() -> None:
    objects = audited(staleAfterHours=36)
    config_map = objects.one("ConfigMap", NAME)
    assert config_map["data"] == {STALE_KEY: "129600"}
    assert named(objects, "--publish-status") == [f"gpu-policy/{NAME}"]
    assert dict(objects.options)["--audit-status"] == f"gpu-policy/{NAME}"


@needs_helm
def test_it_reads_the_policies_of_the_replicas() -> None:
    values = {"policies": {"configMaps": ["teams"]}}
    objects = audited(values)
    of_replicas, of_audits = ({one["name"]: one for one in where["volumes"]} for where in (objects.pod, pod(objects)))
    assert of_audits["policies"] == of_replicas["policies"]
    assert named(objects, "--policies") == [dict(objects.options)["--policies"]]
    (container,) = pod(objects)["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == set(of_audits)


VALUES = quick_yaml.load((CHART / "values.yaml").read_text())
EXCLUDED = ["kube-system", "gpu-policy", *VALUES["webhook"]["namespaceSelector"]["exclude"]]


@needs_helm
@each(
    "expressions, only, without",
    {
        "all": ([], [], EXCLUDED),
        "all but some": ([("NotIn", ["a", "b"])], [], [*EXCLUDED, "a", "b"]),
        "some": ([("In", ["a", "b"])], ["a", "b"], []),
        "what is left": ([("In", ["a", "b", "c"]), ("In", ["b", "c"]), ("NotIn", ["c"])], ["b"], []),
        "never those that are always excluded": ([("In", ["a", "kube-system"])], ["a"], []),
    },
)
def test_the_namespaces_are_those_that_the_webhook_looks_at(
    expressions: list[tuple[str, list[str]]], only: list[str], without: list[str]
) -> None:
    raw = [{"operator": operator, "values": values} for operator, values in expressions]
    objects = audited({"webhook": {"namespaceSelector": {"matchExpressions": raw}}})
    assert (named(objects, "--namespace"), named(objects, "--exclude-namespace")) == (only, without)


# When


@needs_helm
def test_no_two_audits_overlap_and_none_runs_for_ever() -> None:
    objects = audited(schedule="@hourly", activeDeadlineSeconds=600)
    spec = objects.one("CronJob")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("@hourly", "Forbid")
    assert job(objects)["activeDeadlineSeconds"] == 600
    assert (job(objects)["backoffLimit"], pod(objects)["restartPolicy"]) == (0, "Never")


@needs_helm
@golden
def test_a_schedule_is_one_of_a_cron_job(schedule: str, is_one: bool) -> None:
    if is_one:
        assert audited(schedule=schedule).one("CronJob")["spec"]["schedule"] == schedule
    else:
        with pytest.raises(HelmError, match="schedule"):
            render({"audit": {"enabled": True, "schedule": schedule}})


# With which rights


def rules(objects: Objects, kind: str, name: str = NAME) -> set[tuple[str, str, str, str]]:
    """(API group, resource, its name or *, verb) of a role."""
    return {
        (group, resource, named, verb)
        for rule in objects.one(kind, name)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for named in rule.get("resourceNames", ["*"])
        for verb in rule["verbs"]
    }


CLASSES = {
    ("node.k8s.io", "runtimeclasses"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("karpenter.sh", "nodepools"),
    ("karpenter.k8s.aws", "ec2nodeclasses"),
}
SCALERS = {("autoscaling", "horizontalpodautoscalers"), ("keda.sh", "scaledobjects")}
READ = {("", "nodes"), ("", "pods"), *CLASSES, *SCALERS, *((kind.group, kind.resource) for kind in WORKLOADS.values())}
WRITTEN = {
    ("wgpolicyk8s.io", "policyreports"),
    ("wgpolicyk8s.io", "clusterpolicyreports"),
    ("openreports.io", "reports"),
    ("openreports.io", "clusterreports"),
}


@needs_helm
@each("kind, written", {"reports": ("auto", WRITTEN), "no reports": ("never", set())})
def test_an_audit_may_list_what_it_looks_at_and_write_reports_and_nothing_else(
    kind: str, written: set[tuple[str, str]]
) -> None:
    expected = {(*one, "*", "list") for one in READ}
    expected |= {(*one, "*", verb) for one in written for verb in ("list", "create", "update", "delete")}
    assert rules(audited(policyReports=kind), "ClusterRole") == expected


@needs_helm
def test_of_all_config_maps_an_audit_may_write_its_status_and_a_replica_may_read_it() -> None:
    objects = audited()
    assert rules(objects, "Role") == {("", "configmaps", NAME, verb) for verb in ("get", "update")}
    assert rules(objects, "Role", f"{NAME}-reader") == {("", "configmaps", NAME, "get")}
    bound = {one["roleRef"]["name"]: one["subjects"] for one in objects.of("RoleBinding")}
    (auditor,), (replica,) = bound[NAME], bound[f"{NAME}-reader"]
    account = objects.one("ServiceAccount", NAME)["metadata"]["name"]
    assert auditor["name"] == pod(objects)["serviceAccountName"] == account
    assert replica["name"] == objects.pod["serviceAccountName"]


# How its pods are run


@needs_helm
def test_pods_of_audits_reach_the_api_server_and_dns_and_are_reached_by_nobody() -> None:
    objects = audited({"networkPolicy": {"egress": {"apiServerPorts": [6443], "apiServerCidrs": ["192.0.2.10/32"]}}})
    own, of_replicas = (objects.one("NetworkPolicy", name)["spec"] for name in (NAME, "gpu-policy"))
    assert own["podSelector"]["matchLabels"].items() <= job(objects)["template"]["metadata"]["labels"].items()
    assert (own["policyTypes"], own["ingress"]) == (["Ingress", "Egress"], [])
    assert own["egress"] == of_replicas["egress"]
    assert audited({"networkPolicy": {"enabled": False}}).of("NetworkPolicy") == []


def test_a_review_passes_over_what_the_shipped_registration_excludes() -> None:
    chart = quick_yaml.load((CHART / "values.yaml").read_text())["webhook"]["namespaceSelector"]
    assert list(NEVER_SENT) == ["kube-system", "gpu-policy", *chart["exclude"]]

"""The doctor names whatever is broken in an installation, one thing at a time, with its remedy."""

import shlex
from datetime import timedelta
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.doctor.breaks import (
    APPLY,
    LOG,
    MUTATING,
    NOW,
    OTHER,
    REPLACE,
    RESTORE,
    TEAM_A,
    VALIDATING,
    Break,
    assert_says,
    delete,
    entry,
    every_node,
    merge,
    on_one_node,
    policies,
    reachable,
    secret,
    serving,
)
from tests.doctor.site import TAINTS, Site, said
from tests.e2e.custom_kinds import CustomKind
from tests.e2e.installation import HOST
from webhook.doctor.doctor_report import Status

pytestmark = pytest.mark.e2e


DAYS_20 = timedelta(days=20, hours=1)

PROBLEMS = [
    pytest.param(
        delete(MUTATING),
        "configurations",
        "there is no mutating webhook configuration gpu-policy: GPU pods are not mutated",
        APPLY,
        id="mutating configuration missing",
    ),
    pytest.param(
        delete(VALIDATING),
        "configurations",
        "there is no validating webhook configuration gpu-policy: GPU pods are not validated",
        APPLY,
        id="validating configuration missing",
    ),
    pytest.param(
        entry(VALIDATING, "failurePolicy", "Ignore"),
        "configurations",
        "validating: webhooks[validate.gpupolicy.dev].failurePolicy is Ignore; Fail is expected",
        REPLACE,
        id="failurePolicy changed",
    ),
    pytest.param(
        merge("ConfigMap", "gpu-policy-registration", {"data": {"webhooks.yaml": "{}"}}),
        "configurations",
        "ConfigMap gpu-policy/gpu-policy-registration, webhooks.yaml: found apiVersion not set and kind not set; "
        "expected one Mutating",
        RESTORE,
        id="registration is something else",
    ),
    pytest.param(
        entry(MUTATING, "clientConfig/caBundle", ""),
        "certificates",
        "the caBundle of mutate.gpupolicy.dev is empty",
        LOG,
        id="caBundle blanked",
    ),
    pytest.param(
        entry(VALIDATING, "clientConfig/caBundle", OTHER),
        "certificates",
        "the caBundle of validate.gpupolicy.dev does not trust the serving certificate",
        LOG,
        id="caBundle of another authority",
    ),
    pytest.param(
        delete("Secret", "gpu-policy-tls"),
        "certificates",
        "there is no Secret with the serving certificate",
        LOG,
        id="Secret missing",
    ),
    pytest.param(
        secret(tls_crt=b""),
        "certificates",
        "tls.crt in Secret gpu-policy/gpu-policy-tls is not a PEM certificate",
        LOG,
        id="Secret without a certificate",
    ),
    pytest.param(
        secret(ca_crt=b"garbage"),
        "certificates",
        "ca.crt in Secret gpu-policy/gpu-policy-tls is not a PEM certificate",
        LOG,
        id="authority is garbage",
    ),
    pytest.param(
        serving(NOW - timedelta(days=9), timedelta(days=8)),
        "certificates",
        "the serving certificate in Secret gpu-policy/gpu-policy-tls ended ",
        LOG,
        id="certificate expired",
    ),
    pytest.param(
        serving(NOW + timedelta(days=1), timedelta(days=8)),
        "certificates",
        "the serving certificate in Secret gpu-policy/gpu-policy-tls begins ",
        LOG,
        id="certificate of tomorrow",
    ),
    pytest.param(
        serving(NOW, timedelta(days=90), "other.example.com"),
        "certificates",
        f"mutate.gpupolicy.dev is called at {HOST}, which the serving certificate does not cover",
        LOG,
        id="certificate for another name",
    ),
    pytest.param(
        delete("Deployment"),
        "deployment",
        "there is no Deployment gpu-policy/gpu-policy",
        "kubectl get deployments -A -l app.kubernetes.io/name=gpu-policy",
        id="Deployment missing",
    ),
    pytest.param(
        lambda site: site.status("Deployment", "gpu-policy", {"readyReplicas": 0}),
        "deployment",
        "0 of 3 replicas are ready",
        "kubectl -n gpu-policy describe deployment/gpu-policy",
        id="no replica ready",
    ),
    pytest.param(
        reachable(0),
        "endpoints",
        "Service gpu-policy/gpu-policy leads to no ready replica",
        "kubectl -n gpu-policy get service gpu-policy -o jsonpath='{.spec.selector}'",
        id="no endpoint ready",
    ),
    pytest.param(
        delete("Service"),
        "endpoints",
        "there is no Service gpu-policy/gpu-policy, which the configurations name",
        RESTORE,
        id="Service missing",
    ),
    pytest.param(
        merge("Service", "gpu-policy", {"spec": {"ports": [{"port": 1}]}}),
        "endpoints",
        "which the configurations name, only [1]",
        RESTORE,
        id="Service with another port",
    ),
    pytest.param(
        delete("RoleBinding"),
        "rights",
        "gpu-policy:gpu-policy may not update secrets gpu-policy-tls: certificates are kept there",
        "kubectl auth can-i -n gpu-policy update secrets/gpu-policy-tls "
        "--as=system:serviceaccount:gpu-policy:gpu-policy",
        id="rights on the Secret missing",
    ),
    pytest.param(
        delete("ClusterRoleBinding"),
        "rights",
        "may not update mutatingwebhookconfigurations gpu-policy: the caBundle is kept up to date",
        "kubectl auth can-i update mutatingwebhookconfigurations.admissionregistration.k8s.io/gpu-policy "
        "--as=system:serviceaccount:gpu-policy:gpu-policy",
        id="rights in the cluster missing",
    ),
    pytest.param(
        policies({"team.yaml": "spec: {rules: {gpuLimit: {}}}"}),
        "policies",
        "ConfigMap gpu-policy-policies/team.yaml:1: spec.rules.gpuLimit: unknown rule",
        "correct it; running replicas keep the last good set",
        id="policy with a mistake",
    ),
    pytest.param(
        policies(None),
        "policies",
        "ConfigMap gpu-policy-policies: holds no policy file",
        "correct it",
        id="no policies",
    ),
]


@pytest.mark.parametrize(("broken", "check", "found", "remedy"), PROBLEMS)
def test_a_problem_is_named_with_its_remedy(site: Site, broken: Break, check: str, found: str, remedy: str) -> None:
    broken(site)
    report = site.examined()
    assert report.exit_status == 1
    assert_says(said(report, check, Status.PROBLEM), found, remedy)


WARNINGS = [
    pytest.param(
        lambda site: site.status("Deployment", "gpu-policy", {"readyReplicas": 2}),
        "deployment",
        "2 of 3 replicas are ready",
        "kubectl -n gpu-policy describe deployment/gpu-policy",
        id="a replica not ready",
    ),
    pytest.param(
        merge("Deployment", "gpu-policy", {"spec": {"replicas": 1}}),
        "deployment",
        "the Deployment asks for 1 replica",
        "kubectl -n gpu-policy scale deployment/gpu-policy --replicas=3",
        id="only one replica wanted",
    ),
    pytest.param(
        reachable(1),
        "endpoints",
        "Service gpu-policy/gpu-policy leads to 1 ready replica",
        "kubectl -n gpu-policy get pods",
        id="one endpoint ready",
    ),
    pytest.param(
        on_one_node,
        "spread",
        "all 3 replicas run on node n2",
        "kubectl -n gpu-policy rollout restart deployment/gpu-policy",
        id="all on one node",
    ),
    pytest.param(
        serving(NOW, DAYS_20),
        "certificates",
        "in 20 days",
        LOG,
        id="certificate about to end",
    ),
    pytest.param(
        merge("ConfigMap", "gpu-policy-policies", [{"op": "add", "path": "/data", "value": {"team-a.yaml": TEAM_A}}]),
        "policies",
        "ConfigMap gpu-policy-policies/_default.yaml: no such file",
        "correct the policy or the nodes, unless this is intended",
        id="no default policy",
    ),
    pytest.param(
        delete("RuntimeClass", "nvidia"),
        "references",
        "the cluster has no RuntimeClass nvidia (_default.yaml: runtimeClass",
        "nothing to do where nvidia is the default runtime",
        id="RuntimeClass missing",
    ),
    pytest.param(
        delete("PriorityClass", "practice-training"),
        "references",
        "the cluster has no PriorityClass practice-training (practised.yaml: priorityClass)",
        "kubectl create priorityclass practice-training --value=VALUE",
        id="PriorityClass missing",
    ),
    pytest.param(
        every_node({"metadata": {"labels": {"gpupolicy.dev/pool": "inference"}}}),
        "references",
        "no node satisfies gpupolicy.dev/pool In [training] (team-vision.yaml: nodeAffinity)",
        "kubectl label node NODE gpupolicy.dev/pool=VALUE",
        id="label that no node has",
    ),
    pytest.param(
        every_node({"spec": {"taints": [*TAINTS]}}),
        "references",
        "no node has a taint kubernetes.azure.com/scalesetpriority=spot:NoSchedule (team-vision.yaml: tolerations)",
        "kubectl taint node NODE kubernetes.azure.com/scalesetpriority=spot:NoSchedule",
        id="taint that no node has",
    ),
]


@pytest.mark.parametrize(("broken", "check", "found", "remedy"), WARNINGS)
def test_what_will_break_is_a_warning(site: Site, broken: Break, check: str, found: str, remedy: str) -> None:
    broken(site)
    assert_says(said(site.examined(), check, Status.WARNING), found, remedy)


@pytest.mark.parametrize(
    ("annotations", "status"),
    [
        pytest.param({}, Status.SKIPPED, id="nobody fills it in"),
        pytest.param({"cert-manager.io/inject-ca-from": "gpu-policy/x"}, Status.PROBLEM, id="cert-manager should"),
    ],
)
def test_an_empty_bundle_is_a_problem_only_where_somebody_should_fill_it(
    site: Site, annotations: dict[str, str], status: Status
) -> None:
    """With a certificate of a public authority the API server's own roots will do."""
    deployment = shipped().one("Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["args"] = [word for word in container["args"] if not word.startswith("--certificate-")]
    site.put(deployment)
    entry(MUTATING, "clientConfig/caBundle", "")(site)
    site.patch(MUTATING, "gpu-policy", {"metadata": {"annotations": annotations}})
    (finding,) = said(site.examined(), "certificates", status)
    assert "the caBundle of mutate.gpupolicy.dev is empty" in finding.found


def test_a_missing_disruption_budget_is_a_warning(site: Site) -> None:
    site.delete("PodDisruptionBudget", "gpu-policy")
    found = said(site.examined(), "disruption-budget", Status.WARNING)
    assert_says(found, "no PodDisruptionBudget selects the replicas", RESTORE)


def test_custom_resources_that_hold_pod_templates_and_are_not_looked_at_are_named(site: Site) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    kinds = [
        CustomKind("ml.example.com", "v1", "Training", "trainings"),
        CustomKind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ]
    try:
        for kind in kinds:
            assert site.plane.raw("POST", path, holding_pods(kind))[0] == 201
        (finding,) = said(site.examined(), "workloads")
    finally:
        for kind in kinds:
            site.plane.raw("DELETE", f"{path}/{kind.resource}.{kind.group}")
    assert finding.status is Status.WARNING
    assert finding.found.startswith("the schemas of trainings in ml.example.com have pod templates")
    assert "add {group: ml.example.com, resources: [trainings]}" in finding.remedy


def holding_pods(kind: CustomKind) -> dict[str, Any]:
    """A definition whose objects hold a pod template, as its schema says."""
    texts = {name: {"type": "string"} for name in ("name", "image")}
    resources = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    container = {"type": "object", "properties": {**texts, "resources": resources}}
    schema: dict[str, Any] = {"type": "object", "properties": {"containers": {"type": "array", "items": container}}}
    for name in ("spec", "template", "spec"):
        schema = {"type": "object", "properties": {name: schema}}
    definition = kind.definition()
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return definition


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda site: site.delete(MUTATING, "gpu-policy"), id="one is missing"),
        pytest.param(entry(VALIDATING, "failurePolicy", "Ignore"), id="one was changed"),
        pytest.param(entry(VALIDATING, "objectSelector", {"matchLabels": {"a": "b"}}), id="one selects less"),
    ],
)
def test_the_remedy_for_configurations_mends_them(site: Site, broken: Break) -> None:
    """The command in the report is run as it stands there."""
    broken(site)
    (command,) = {finding.remedy for finding in said(site.examined(), "configurations", Status.PROBLEM)}
    first, second = map(shlex.split, command.split(" | "))
    printed = site.plane.kubectl(*first[1:])
    site.plane.kubectl(*second[1:], input=printed.stdout)
    assert said(site.examined(), "configurations", Status.PROBLEM) == []


def test_without_the_registration_nothing_is_compared(site: Site) -> None:
    site.delete("ConfigMap", "gpu-policy-registration")
    report = site.examined()
    assert report.exit_status == 0
    (finding,) = said(report, "configurations")
    assert finding.status is Status.WARNING
    assert finding.found.startswith("there is no ConfigMap gpu-policy/gpu-policy-registration, with which")

"""The doctor names whatever is broken in an installation, one thing at a time, with its remedy."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.breaks import APPLY, LOG, OTHER, REPLACE, RESTORE, TEAM_A
from tests.doctor.stored import (
    DEPLOYMENT,
    HOST,
    MUTATING,
    NOW,
    OURS,
    POLICIES,
    REGISTRATION,
    RUNTIME_CLASSES,
    SECRET,
    SERVICE,
    SLICE,
    VALIDATING,
    Stored,
    said,
    serving,
    whole,
    wrong,
)
from tests.golden import each
from webhook.doctor.checklist import CHECKS, examine
from webhook.doctor.doctor_report import Status
from webhook.doctor.installation import Installation, Place, UnavailableError

LOOKS = dict(CHECKS)
POLICIES_CHECK = {"policies": CHECKS["policies"]}
Change = Callable[[dict[str, Any]], object]

WELL = (
    "configurations",
    "certificates",
    "deployment",
    "endpoints",
    "spread",
    "disruption-budget",
    "rights",
    "policies",
)


@pytest.mark.parametrize("check", WELL)
def test_a_whole_installation_is_well(check: str) -> None:
    assert wrong(said(LOOKS[check], whole())) == []


def test_clocks_that_are_apart_are_a_warning() -> None:
    cluster = Stored({})
    cluster.clock_skew = 40.0
    (finding,) = LOOKS["clock"](Installation(cluster, Place()))
    assert (finding.status, finding.found) == (Status.WARNING, "this machine's clock is 40 s ahead of the API server's")


def test_an_installation_of_another_name_is_looked_for_there() -> None:
    (finding,) = LOOKS["deployment"](Installation(Stored(whole()), Place("elsewhere", "other")))
    assert finding.found == "there is no Deployment elsewhere/other"


def put(path: str, *keys: Any, value: Any) -> Change:
    def change(objects: dict[str, Any]) -> None:
        found = objects[path]
        for key in keys[:-1]:
            found = found[key]
        found[keys[-1]] = value

    return change


def drop(path: str) -> Change:
    return lambda objects: objects.pop(path)


def bundle(path: str, value: str) -> Change:
    return put(path, "webhooks", 0, "clientConfig", "caBundle", value=value)


def certificate(**data: str) -> Change:
    return lambda objects: objects[SECRET]["data"].update({key.replace("_", "."): one for key, one in data.items()})


def serves(*arguments: Any) -> Change:
    return lambda objects: objects[SECRET]["data"].update(serving(*arguments))


def ready(count: int) -> Change:
    return put(SLICE, "endpoints", value=[{"addresses": [f"10.1.0.{one}"]} for one in range(count)])


def named(rules: str) -> Change:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    return put(POLICIES, "data", value={"_default.yaml": f"{head}spec: {{rules: {{{rules}}}}}\n"})


def case(name: str, check: str, change: Change, found: str, remedy: str, status: Status = Status.PROBLEM) -> Any:
    """One thing that is broken, and what is said of it."""
    return pytest.param(check, change, status, found, remedy, id=name)


UP = "kubectl -n gpu-policy"
WARNS = Status.WARNING
NO_KIND = "webhooks.yaml: found apiVersion not set and kind not set; expected one Mutating"
TLS = "the serving certificate in Secret gpu-policy/gpu-policy-tls"


@pytest.mark.parametrize(
    ("check", "change", "status", "found", "remedy"),
    [
        case("no mutating", "configurations", drop(MUTATING), "GPU pods are not mutated", APPLY),
        case("no validating", "configurations", drop(VALIDATING), "GPU pods are not validated", APPLY),
        case(
            "failurePolicy changed",
            "configurations",
            put(VALIDATING, "webhooks", 0, "failurePolicy", value="Other"),
            "validating: webhooks[validate.gpupolicy.dev] differs in failurePolicy",
            REPLACE,
        ),
        case(
            "no registration",
            "configurations",
            put(REGISTRATION, "data", value={"webhooks.yaml": "{}"}),
            NO_KIND,
            RESTORE,
        ),
        case("lost registration", "configurations", drop(REGISTRATION), "there is no ConfigMap", RESTORE, WARNS),
        case("caBundle blanked", "certificates", bundle(MUTATING, ""), "mutate.gpupolicy.dev is empty", LOG),
        case(
            "another authority",
            "certificates",
            bundle(VALIDATING, OTHER),
            "the caBundle of validate.gpupolicy.dev does not trust the serving certificate",
            LOG,
        ),
        case("no Secret", "certificates", drop(SECRET), "there is no Secret with the serving certificate", LOG),
        case("no certificate", "certificates", certificate(tls_crt=""), "tls.crt in Secret gpu-policy/gpu", LOG),
        case("garbage", "certificates", certificate(ca_crt="eA=="), "gpu-policy-tls is not a PEM certificate", LOG),
        case("expired", "certificates", serves(NOW - timedelta(days=9), 8), f"{TLS} ended ", LOG),
        case("of tomorrow", "certificates", serves(NOW + timedelta(days=1), 8), f"{TLS} begins ", LOG),
        case("about to end", "certificates", serves(NOW, 20.1), "in 20 days", LOG, WARNS),
        case(
            "for another name",
            "certificates",
            serves(NOW, 90, "other.example.com"),
            f"mutate.gpupolicy.dev is called at {HOST}, which the serving certificate does not cover",
            LOG,
        ),
        case(
            "a host that no certificate can cover",
            "certificates",
            put(MUTATING, "webhooks", 0, "clientConfig", value={"url": "https://-gpu.example:8443/mutate"}),
            "mutate.gpupolicy.dev is called at https://-gpu.example:8443/mutate, whose host is neither a DNS name",
            "correct webhook.url of the chart",
        ),
        case(
            "no Deployment", "deployment", drop(DEPLOYMENT), "there is no Deployment gpu", "get deployments -A -l app"
        ),
        case(
            "none ready",
            "deployment",
            put(DEPLOYMENT, "status", value={}),
            "0 of 3 replicas are ready",
            f"{UP} describe",
        ),
        case(
            "one not ready",
            "deployment",
            put(DEPLOYMENT, "status", value={"readyReplicas": 2}),
            "2 of 3 replicas are ready",
            f"{UP} describe deployment/gpu-policy",
            WARNS,
        ),
        case(
            "one wanted",
            "deployment",
            put(DEPLOYMENT, "spec", "replicas", value=1),
            "the Deployment asks for 1 replica",
            f"{UP} scale deployment/gpu-policy --replicas=3",
            WARNS,
        ),
        case(
            "no endpoint", "endpoints", ready(0), "gpu-policy/gpu-policy leads to no ready replica", "get service gpu"
        ),
        case("one endpoint", "endpoints", ready(1), "leads to 1 ready replica", f"{UP} get pods", WARNS),
        case("no Service", "endpoints", drop(SERVICE), "there is no Service gpu-policy/gpu-policy", RESTORE),
        case(
            "another port", "endpoints", put(SERVICE, "spec", "ports", value=[{"port": 1}]), "name, only [1]", RESTORE
        ),
        case(
            "all on one node",
            "spread",
            lambda objects: [
                put(f"{OURS}/pods/{one}", "spec", "nodeName", value="n2")(objects) for one in ("n1", "n3")
            ],
            "all 3 replicas run on node n2",
            f"{UP} rollout restart deployment/gpu-policy",
            WARNS,
        ),
        case(
            "a mistake",
            "policies",
            put(POLICIES, "data", value={"team.yaml": "spec: {rules: {gpuLimit: {}}}"}),
            "ConfigMap gpu-policy-policies/team.yaml:1: spec.rules.gpuLimit: unknown rule",
            "correct it; running replicas keep the last good set",
        ),
        case(
            "no policies", "policies", put(POLICIES, "data", value={}), "policies: holds no policy file", "correct it"
        ),
        case(
            "no default policy",
            "policies",
            put(POLICIES, "data", value={"team-a.yaml": TEAM_A}),
            "ConfigMap gpu-policy-policies/_default.yaml: no such file",
            "correct the policy or the nodes, unless this is intended",
            WARNS,
        ),
        case(
            "no RuntimeClass",
            "references",
            drop(f"{RUNTIME_CLASSES}/nvidia"),
            "the cluster has no RuntimeClass nvidia (_default.yaml: runtimeClass",
            "nothing to do where nvidia is the default runtime",
            WARNS,
        ),
        case(
            "no such label",
            "references",
            named("nodeAffinity: {mode: enforce, required: [{key: pool, operator: In, values: [gpu]}]}"),
            "no node satisfies pool In [gpu] (_default.yaml: nodeAffinity)",
            "kubectl label node NODE pool=VALUE",
            WARNS,
        ),
        case(
            "no such taint",
            "references",
            named("tolerations: {mode: enforce, add: [{key: sku, operator: Equal, value: gpu}]}"),
            "no node has a taint sku=gpu:NoSchedule (_default.yaml: tolerations)",
            "kubectl taint node NODE sku=gpu:NoSchedule",
            WARNS,
        ),
        case(
            "no PriorityClass",
            "references",
            named("priorityClass: {mode: enforce, name: gpu-training}"),
            "the cluster has no PriorityClass gpu-training (_default.yaml: priorityClass)",
            "correct the policy, or kubectl create priorityclass gpu-training --value=VALUE",
            WARNS,
        ),
        case(
            "nothing is named",
            "references",
            named("sharedMemory: {mode: enforce}"),
            "the policies name no RuntimeClass, no PriorityClass, no node label and no taint",
            "",
            Status.SKIPPED,
        ),
        case(
            "what is named is there",
            "references",
            named("runtimeClass: {mode: enforce, name: nvidia}"),
            "the cluster has all that the policies name: 1 class, node label or taint",
            "",
            Status.OK,
        ),
    ],
)
def test_what_is_broken_is_named_with_its_remedy(
    check: str, change: Change, status: Status, found: str, remedy: str
) -> None:
    objects = whole()
    change(objects)
    findings = [one for one in said(LOOKS[check], objects) if one.status is status and found in one.found]
    assert findings, said(LOOKS[check], objects)
    assert all(remedy in one.remedy for one in findings)


@pytest.mark.parametrize(
    ("resource", "found", "remedy"),
    [
        (
            "secrets",
            "may not update secrets gpu-policy-tls: certificates are kept there",
            "kubectl auth can-i -n gpu-policy update secrets/gpu-policy-tls --as=system:serviceaccount:gpu-policy:",
        ),
        (
            "mutatingwebhookconfigurations",
            "may not update mutatingwebhookconfigurations gpu-policy: the caBundle is kept up to date",
            "kubectl auth can-i update mutatingwebhookconfigurations.admissionregistration.k8s.io/gpu-policy --as=",
        ),
    ],
)
def test_a_right_that_is_missing_is_named(resource: str, found: str, remedy: str) -> None:
    findings = wrong(said(LOOKS["rights"], whole(), denied=(resource,)))
    assert [remedy in one.remedy for one in findings if found in one.found] == [True]


@each(
    "annotations, status",
    {
        "nobody fills it in": ({}, Status.SKIPPED),
        "cert-manager should": ({"cert-manager.io/inject-ca-from": "gpu-policy/x"}, Status.PROBLEM),
    },
)
def test_an_empty_bundle_is_a_problem_only_where_somebody_should_fill_it(
    annotations: dict[str, str], status: Status
) -> None:
    """With a certificate of a public authority the API server's own roots will do."""
    objects = whole()
    container = objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"][0]
    container["args"] = [word for word in container["args"] if not word.startswith("--certificate-")]
    bundle(MUTATING, "")(objects)
    objects[MUTATING]["metadata"]["annotations"] = annotations
    (finding,) = wrong(said(LOOKS["certificates"], objects))
    assert finding.status is status
    assert finding.found.startswith("the caBundle of mutate.gpupolicy.dev is empty")


def test_namespaces_that_are_left_out_and_not_there_are_told() -> None:
    """Whoever creates one gets pods that nobody looks at."""
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "gpu-a", "amd"]}
    entry = {"namespaceSelector": {"matchExpressions": [expression]}}
    objects = {VALIDATING: {"webhooks": [entry, {}]}, "/api/v1/namespaces": [{"metadata": {"name": "kube-system"}}]}
    (finding,) = said(LOOKS["absent-namespaces"], objects)
    assert (finding.status, finding.found.partition(";")[0]) == (
        Status.WARNING,
        "the webhook configurations leave out namespaces that do not exist: amd, gpu-a",
    )
    assert "webhook.namespaceSelector.exclude" in finding.remedy
    objects["/api/v1/namespaces"] = [{"metadata": {"name": name}} for name in expression["values"]]
    assert wrong(said(LOOKS["absent-namespaces"], objects)) == []


def test_what_must_not_be_read_is_skipped_with_the_reason() -> None:
    """For an operator without the right the finding names the right; it does not say that the cluster has none."""
    installation = Installation(Stored(whole() | {RUNTIME_CLASSES: None}), Place())
    ((_, finding),) = examine(installation, {"references": CHECKS["references"]}).results
    assert finding.status is Status.SKIPPED
    assert finding.found == f"the API server answered 403: cannot list {RUNTIME_CLASSES}"


def test_policies_can_be_named_where_their_config_maps_must_not_be_read() -> None:
    objects = whole() | {POLICIES: None}
    ((_, finding),) = examine(Installation(Stored(objects), Place()), POLICIES_CHECK).results
    assert (finding.status, finding.remedy) == (Status.SKIPPED, "name them with --policies")
    named = Place(policies=Path(__file__).parents[2] / "policies")
    ((_, finding), *_) = examine(Installation(Stored(objects), named), POLICIES_CHECK).results
    assert " policies, hash " in finding.found


def test_without_the_right_to_read_the_registration_nothing_is_compared() -> None:
    (finding,) = said(LOOKS["configurations"], whole() | {REGISTRATION: None})
    assert finding.status is Status.SKIPPED
    assert finding.found.startswith("the installed configurations are not known: the API server answered 403")


def test_without_the_right_to_ask_pods_it_is_named() -> None:
    page = f"{OURS}/pods/https%3An1%3A8443/proxy/statusz"
    with pytest.raises(UnavailableError) as why:
        said(LOOKS["replicas"], whole() | {page: None})
    assert why.value.remedy == "look again with a kubeconfig that may get pods/proxy"


def test_without_the_configuration_what_is_sent_is_not_known() -> None:
    for check in ("workloads", "policies-at-apply"):
        with pytest.raises(UnavailableError, match="there is no validating webhook configuration gpu-policy"):
            said(LOOKS[check], {k: v for k, v in whole().items() if k != VALIDATING})

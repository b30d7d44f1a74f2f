"""What an audit publishes, on a real API server: accepted as it is, written when it changes, gone when it is empty."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.audit.sample_report import CREATED, empty, sample
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.report_cluster import ReportCluster
from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditFinding, AuditReport, Level, ObjectReference
from webhook.audit.reports.policy_results import objects
from webhook.kubernetes.api_server import ApiServer
from webhook.outcome import FindingKind
from webhook.replica.published_reports import FORMATS, LEVELS, PublishedReports, ReportKind, path, publish
from webhook.replica.settings import ConfigMapPlace
from webhook.replica.status_objects import INSTALLATION, MANAGED_BY
from webhook.rules.rule_settings import Mode

PLACE = ConfigMapPlace("gpu-policy", "gpu-policy-audit")
NAME = "gpu-policy-audit.1"
POLICY_REPORTS, OPEN_REPORTS = ReportKind.POLICY_REPORTS, ReportKind.OPEN_REPORTS
EACH = [pytest.param(kind, id=kind.value) for kind in (POLICY_REPORTS, OPEN_REPORTS)]

Namespaces = Callable[[int], list[str]]


@pytest.fixture
def site(control_plane: ControlPlane) -> ReportCluster:
    """The session's API server, which knows PolicyReports only, and has none."""
    found = ReportCluster(control_plane)
    found.install(POLICY_REPORTS)
    for raw in found.objects(POLICY_REPORTS):
        where = path(FORMATS[POLICY_REPORTS], raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
        control_plane.raw("DELETE", where)
    return found


@pytest.fixture
def namespaces(site: ReportCluster, request: pytest.FixtureRequest) -> Namespaces:
    """Makes namespaces that no other test uses."""
    prefix = f"audited-{abs(hash(request.node.nodeid)) % 10**8}"
    return lambda count: [site.plane.namespace(f"{prefix}-{number}") for number in range(count)]


def found_in(*namespaces: str, level: Level = Level.REFUSE, name: str = "trainer") -> AuditReport:
    """A report with one finding in each of these namespaces; an empty name stands for none."""
    return replace(empty(), is_of_cluster=True, findings=tuple(one_in(where, level, name) for where in namespaces))


def one_in(namespace: str, level: Level, name: str) -> AuditFinding:
    owner = ObjectReference(namespace, "Deployment", name, "apps/v1", "0b8ef7a2-9a35-4d3e-8d0d-5f6a3a2d9c01")
    return AuditFinding(
        level=level,
        rule="gpuLimits",
        mode=Mode.ENFORCE,
        kind=FindingKind.VIOLATION,
        object=owner,
        owner=owner,
        field="spec.template.spec.containers[main].resources",
        message="nvidia.com/gpu is 4 in requests but missing in limits",
        remedy="Move the 4 to resources.limits",
        policy="_default",
        file="_default.yaml",
        line=9,
    )


def published(
    site: ReportCluster, report: AuditReport, kinds: ReportKind = ReportKind.AUTO, **rest: Any
) -> PublishedReports:
    rest = {"place": PLACE, **rest}
    return publish(report, ApiServer(site.plane.kubeconfig), kinds, **rest)


# What is written


@pytest.mark.parametrize("kind", EACH)
def test_reports_are_taken_as_they_are_and_nothing_of_them_is_dropped(
    site: ReportCluster, namespaces: Namespaces, kind: ReportKind
) -> None:
    site.install(kind)
    first, second, third = namespaces(3)
    moved = {"team-nlp": first, "team-vision": second, "default": third}
    report = replace(sample(), findings=tuple(elsewhere(one, moved) for one in sample().findings))
    result = published(site, report)
    expected = list(objects(report, FORMATS[kind], LEVELS))
    assert (result.errors, result.kind) == ((), FORMATS[kind].kind)
    assert (result.objects, result.written, result.removed) == (len(expected), len(expected), 0)
    for wanted, live in zip(expected, site.objects(kind), strict=True):
        assert {**live, "metadata": None} == {**wanted, "metadata": None}
        assert live["metadata"]["name"] == NAME


def elsewhere(finding: AuditFinding, moved: dict[str, str]) -> AuditFinding:
    """The same finding in a namespace that there is, with a name that an API server would take."""

    def move(one: ObjectReference) -> ObjectReference:
        namespace = moved.get(one.namespace, moved["default"]) if one.namespace else ""
        return replace(one, namespace=namespace, name=moved.get(one.name, one.name))

    return replace(finding, object=move(finding.object), owner=move(finding.owner))


def test_an_audit_that_finds_the_same_again_writes_nothing(site: ReportCluster, namespaces: Namespaces) -> None:
    here, there = namespaces(2)
    report = found_in("", here, there)
    assert published(site, report).written == 3
    before = site.versions(POLICY_REPORTS)
    assert published(site, replace(report, created=CREATED.replace(hour=23))).written == 0
    assert site.versions(POLICY_REPORTS) == before


def test_only_what_has_changed_is_written_and_what_is_empty_goes(site: ReportCluster, namespaces: Namespaces) -> None:
    same, changed, empty_now, new = namespaces(4)
    published(site, found_in("", same, changed, empty_now))
    before = site.objects(POLICY_REPORTS)
    findings = (*found_in(same, new).findings, *found_in(changed, name="other").findings)
    result = published(site, replace(found_in(), findings=findings))
    assert (result.written, result.removed, result.errors) == (2, 2, ())
    after = site.objects(POLICY_REPORTS)
    assert [raw["metadata"]["namespace"] for raw in after] == [same, changed, new]
    assert after[0] == before[1]
    assert after[1]["metadata"]["uid"] == before[2]["metadata"]["uid"]
    assert after[1]["results"][0]["resources"][0]["name"] == "other"


# Which kinds there are


def test_a_kind_that_is_asked_for_and_not_known_is(site: ReportCluster) -> None:
    result = published(site, found_in("default"), OPEN_REPORTS)
    assert result.errors == (
        "the cluster does not know reports of openreports.io/v1alpha1; install their CRDs, or use --publish auto",
    )


# What is left alone


def test_reports_of_others_are_never_touched(site: ReportCluster, namespaces: Namespaces) -> None:
    here, there = namespaces(2)
    form = FORMATS[POLICY_REPORTS]
    theirs = {
        (here, "polr-kyverno"): {"app.kubernetes.io/managed-by": "kyverno"},
        (here, NAME): {},
        (there, "another-audit.1"): {MANAGED_BY: "gpu-policy-webhook", INSTALLATION: "gpu-policy"},
        (there, "gpu-policy-audit.mine"): {MANAGED_BY: "gpu-policy-webhook", INSTALLATION: "gpu-policy"},
        (there, "gpu-policy-audit.2"): {MANAGED_BY: "gpu-policy-webhook", INSTALLATION: "staging"},
        ("", "polr-kyverno"): {"app.kubernetes.io/managed-by": "kyverno"},
    }
    for (namespace, name), labels in theirs.items():
        kind = form.kind if namespace else f"Cluster{form.kind}"
        raw = {"apiVersion": form.api, "kind": kind, "metadata": {"name": name, "labels": labels}}
        assert site.plane.raw("POST", path(form, namespace), raw)[0] == 201
    before = site.versions(POLICY_REPORTS)
    result = published(site, found_in(here, there))
    assert len(result.errors) == 1
    assert (
        f"PolicyReport {here}/{NAME}: another audit writes it now, or another tool has created it" in result.errors[0]
    )
    assert site.versions(POLICY_REPORTS).items() >= before.items()
    published(site, found_in())
    assert site.versions(POLICY_REPORTS) == before


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param(lambda here, _: NamespaceScope(namespaces=(here,)), id="named"),
        pytest.param(lambda _, there: NamespaceScope(excluded=(there,)), id="all but one"),
    ],
)
def test_only_namespaces_that_were_audited_are_touched(
    site: ReportCluster, namespaces: Namespaces, scope: Callable[[str, str], NamespaceScope]
) -> None:
    here, there = namespaces(2)
    published(site, found_in(here, there))
    published(site, found_in(), scope=scope(here, there))
    assert site.places(POLICY_REPORTS) == [(there, NAME)]


def test_where_something_could_not_be_listed_nothing_is_removed(site: ReportCluster, namespaces: Namespaces) -> None:
    """What was not found may be there all the same."""
    here, there, new = namespaces(3)
    published(site, found_in(here, there))
    fault = DocumentError("", 0, None, "GET /apis/kubeflow.org/v1/pytorchjobs: no answer")
    result = published(site, replace(found_in(here, new), errors=(fault,)))
    assert (result.errors, result.removed) == ((), 0)
    assert site.places(POLICY_REPORTS) == [("", NAME), *((one, NAME) for one in sorted((here, there, new)))]


# What goes wrong


def test_a_namespace_that_is_going_or_gone_is_no_error(site: ReportCluster, namespaces: Namespaces) -> None:
    here, going = namespaces(2)
    site.plane.raw("POST", f"/api/v1/namespaces/{going}/configmaps", {"metadata": {"name": "a"}})
    site.plane.raw("DELETE", f"/api/v1/namespaces/{going}")
    result = published(site, found_in(here, going, "was-never-there"))
    assert result.errors == ()
    assert site.places(POLICY_REPORTS) == [(here, NAME)]


def test_what_may_not_be_written_in_one_namespace_is_said_and_the_others_are_written(
    site: ReportCluster, namespaces: Namespaces
) -> None:
    here, there = namespaces(2)
    rule = {"apiGroups": ["wgpolicyk8s.io"], "resources": ["policyreports", "clusterpolicyreports"]}
    reading = {"metadata": {"name": f"reading-{here}"}, "rules": [{**rule, "verbs": ["list"]}]}
    writing = {"metadata": {"name": "writing"}, "rules": [{**rule, "verbs": ["create"]}]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    site.plane.raw("POST", f"{rbac}/clusterroles", reading)
    site.plane.raw("POST", f"{rbac}/namespaces/{there}/roles", writing)
    site.plane.raw("POST", f"{rbac}/clusterrolebindings", binding("ClusterRole", f"reading-{here}"))
    site.plane.raw("POST", f"{rbac}/namespaces/{there}/rolebindings", binding("Role", "writing"))
    server = ApiServer(site.plane.kubeconfig_for(TENANT_TOKEN))
    (error,) = publish(found_in(here, there), server, ReportKind.AUTO, PLACE).errors
    assert error.startswith(f"PolicyReport {here}/{NAME}: the API server answered 403: ")
    assert error.endswith("install the RBAC objects of the chart again, with audit.enabled")
    assert site.places(POLICY_REPORTS) == [(there, NAME)]


def binding(kind: str, name: str) -> dict[str, Any]:
    """One that gives a role to the tenant."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}


def test_audits_that_overlap_harm_nothing_and_the_next_one_has_the_last_word(
    site: ReportCluster, namespaces: Namespaces
) -> None:
    places = namespaces(10)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: published(site, found_in(*places, name=f"audit-{n}")), range(4)))
    assert [error for result in results for error in result.errors if "another audit writes it now" not in error] == []
    assert site.places(POLICY_REPORTS) == [(place, NAME) for place in sorted(places)]
    assert published(site, found_in(*places, name="last")).errors == ()
    names = [raw["results"][0]["resources"][0]["name"] for raw in site.objects(POLICY_REPORTS)]
    assert names == ["last"] * len(places)

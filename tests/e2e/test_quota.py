"""Quotas on a real API server with three replicas: exact while creates race, and right about what becomes of pods."""

from collections.abc import Callable

import pytest
import yaml

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.neighbour import LABEL, registered
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_cases import CASES, H100, POLICIES, SEVENTH, Contest, Sort
from tests.e2e.quota_fixtures import PATIENCE, assert_full, create, fill, is_even, pods, uids
from tests.e2e.quota_race import Race
from tests.e2e.quota_site import QuotaSite, quota_policy, shared_quotas_text

Namespaces = Callable[[str], str]


def test_creates_that_race_over_several_replicas_never_pass_a_quota(
    quotas: QuotaSite, make_namespace: Namespaces
) -> None:
    """Of every kind of quota at once, from 64 threads, while a replica is killed and pods are deleted.

    tests/lab/soak has ten rounds of it with more pods.
    """
    quotas.proxies[0].watch_delay = 5
    with Race(quotas, [Contest(case, make_namespace) for case in CASES], patience=PATIENCE) as race:
        race.round(150, kills=1, deletions=20)
    quotas.proxies[0].watch_delay = 0


def test_dry_runs_are_judged_and_leave_no_trace(quotas: QuotaSite, make_namespace: Namespaces) -> None:
    namespace = make_namespace("few")
    kubectl = ["create", "--dry-run=server", "-f", "-"]
    quotas.plane.kubectl(*kubectl, input=yaml.safe_dump(gpu_pod("tried", 4)), namespace=namespace)
    assert quotas.entered(f"namespace.{namespace}") == set()
    fill(quotas, namespace)
    before = quotas.ledger(f"namespace.{namespace}")
    refused = quotas.plane.kubectl(
        *kubectl, input=yaml.safe_dump(gpu_pod("tried", 1)), namespace=namespace, check=False
    )
    assert f"exceeded GPU quota '{namespace}'" in refused.stderr
    assert quotas.ledger(f"namespace.{namespace}") == before


def test_a_replica_set_gets_as_many_pods_as_the_quota_has_room_for(
    quotas: QuotaSite, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """It says why there are no more, and replaces what is deleted."""
    namespace = make_namespace("few")
    labels = {"app": "workers"}
    template = {"metadata": {"labels": labels}, "spec": gpu_pod("", 1)["spec"]}
    spec = {"replicas": 6, "selector": {"matchLabels": labels}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "workers"}, "spec": spec}
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(manifest), namespace=namespace)

    def said() -> str:
        path = f"/apis/apps/v1/namespaces/{namespace}/replicasets/workers"
        return "".join(each["message"] for each in cluster.raw("GET", path)[1]["status"].get("conditions", ()))

    eventually(lambda: f"exceeded GPU quota '{namespace}': requested 1, used 4 of 4" in said())
    before = uids(quotas, namespace)
    assert len(before) == 4
    deleted = pods(cluster, namespace)[0]["metadata"]["name"]
    cluster.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/{deleted}?gracePeriodSeconds=0")
    after = eventually(lambda: found if len(found := uids(quotas, namespace) - before) == 1 else None)
    assert len(uids(quotas, namespace)) == 4
    assert after
    eventually(lambda: is_even(quotas, namespace))


def test_a_quota_that_comes_later_or_is_lowered_counts_what_is_there_and_evicts_nobody(
    quotas: QuotaSite, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("later")
    fill(quotas, namespace)
    before = uids(quotas, namespace)
    quotas.write_policies({"later.yaml": quota_policy("later", "{mode: enforce, gpus: 4}")})
    assert_full(quotas, namespace)
    assert quotas.entered(f"namespace.{namespace}") == before
    quotas.write_policies({"later.yaml": quota_policy("later", "{mode: enforce, gpus: 2}")})
    assert "requested 1, used 4 of 2 (0 free)" in create(quotas, namespace, gpu_pod("beyond", 1))[1]
    assert uids(quotas, namespace) == before
    quotas.write_policies({"later.yaml": quota_policy("later", "{mode: enforce, gpus: 5}")})
    assert create(quotas, namespace, gpu_pod("fifth", 1)) == (201, "")


def start(quotas: QuotaSite, namespace: str, name: str, query: str = "") -> tuple[int, str]:
    """Take the last gate of a pod away."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}?timeout={PATIENCE}s{query}"
    status, answer = quotas.plane.raw("PATCH", path, {"spec": {"schedulingGates": None}})
    return status, str(answer.get("message", ""))


def test_gated_pods_hold_nothing_and_start_while_there_is_room(quotas: QuotaSite, make_namespace: Namespaces) -> None:
    namespace, gates = make_namespace("few"), [{"name": "example.com/queue"}]
    for number in range(3):
        assert create(quotas, namespace, gpu_pod(f"gated-{number}", 3, schedulingGates=gates)) == (201, "")
    assert quotas.entered(f"namespace.{namespace}") == set()
    fill(quotas, namespace, 1)
    assert start(quotas, namespace, "gated-0")[0] == 200
    assert "requested 3, used 4 of 4 (0 free); largest: gated-0 3, one-0 1" in start(quotas, namespace, "gated-1")[1]
    path = f"/apis/gpupolicy.dev/v1alpha1/namespaces/{namespace}/gpuquotas/namespace.{namespace}"

    def shown() -> object:
        status, found = quotas.plane.raw("GET", path)
        return status == 200 and found["status"]["gpus"]

    eventually(lambda: shown() == {"hard": "4", "used": "4", "gated": "6"})
    quotas.plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/gated-0?gracePeriodSeconds=0")
    eventually(lambda: start(quotas, namespace, "gated-1")[0] == 200)


def test_an_update_that_another_webhook_refuses_holds_room_for_seconds_only(
    quotas: QuotaSite, make_namespace: Namespaces
) -> None:
    namespace, gates = make_namespace("few"), [{"name": "example.com/queue"}]
    raw = gpu_pod("gated", 4, schedulingGates=gates)
    raw["metadata"]["labels"] = {LABEL: "yes"}
    assert create(quotas, namespace, raw) == (201, "")
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}]
    refuse = {"allowed": False, "status": {"code": 403, "message": "not yet"}}
    with registered(quotas.installation, "validating", lambda _: refuse, "neighbour", rules=rules):
        eventually(lambda: "not yet" in start(quotas, namespace, "gated", "&dryRun=All")[1])
        assert "not yet" in start(quotas, namespace, "gated")[1]
        eventually(lambda: create(quotas, namespace, gpu_pod("other", 1))[0] == 201)
    eventually(lambda: "requested 4, used 1 of 4" in start(quotas, namespace, "gated")[1])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_make_room(quotas: QuotaSite, make_namespace: Namespaces, phase: str) -> None:
    namespace = make_namespace("few")
    fill(quotas, namespace)
    assert_full(quotas, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/one-0/status"
    assert quotas.plane.raw("PATCH", path, {"status": {"phase": phase}})[0] == 200
    eventually(lambda: create(quotas, namespace, gpu_pod("next", 1))[0] == 201)
    assert_full(quotas, namespace)


def test_whoever_may_view_a_namespace_sees_what_is_in_use_and_nothing_of_others(
    quotas: QuotaSite, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    mine, theirs = make_namespace("few"), make_namespace("few")
    role = shipped().one("ClusterRole", "gpu-policy-view")
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(role))
    cluster.kubectl("create", "rolebinding", "viewer", "--clusterrole=view", "--user=tenant", namespace=mine)
    tenant = cluster.kubeconfig_for(TENANT_TOKEN)

    def shown(*form: str) -> str:
        return cluster.kubectl("get", "gpuquotas", *form, namespace=mine, kubeconfig=tenant, check=False).stdout

    def lines() -> set[str]:
        return {" ".join(line.split()[:-1]) for line in shown("--no-headers").splitlines()}  # all but the age

    before = POLICIES["_quotas.yaml"]
    shared_quota = {"name": "shown", "namespaces": [mine, theirs], "gpus": "7/2", "byModel": {"H100": 3}}
    quotas.write_policies({"_quotas.yaml": shared_quotas_text(*yaml.safe_load(before)["spec"]["quotas"], shared_quota)})
    try:
        assert create(quotas, mine, gpu_pod("notebook", 2, nodeSelector=H100)) == (201, "")
        assert create(quotas, theirs, Sort(SEVENTH, selector=H100).pod("secret")) == (201, "")
        expected = {f"namespace.{mine} 2 4 enforce", "shared.shown 2 1/7 3 1/2 H100 2 1/7 of 3 enforce"}
        eventually(lambda: lines() == expected)
        assert not {theirs, "secret", "notebook"} & set(shown("-o", "yaml").replace('"', " ").split())
        elsewhere = cluster.kubectl("get", "gpuquotas", namespace=theirs, kubeconfig=tenant, check=False)
        assert "forbidden" in elsewhere.stderr
    finally:
        quotas.write_policies({"_quotas.yaml": before})

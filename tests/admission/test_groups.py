"""Pods that start together count together: the first is refused where its group does not fit, with its numbers."""

import logging

import pytest

from tests.admission.quota_desk import Site, shared_quotas_file
from tests.build import NAMESPACE, pod
from tests.golden import each
from webhook.kubernetes.api_errors import RefusedError, UnreachableError
from webhook.ledger.group_reader import GroupReader
from webhook.ledger.pod_cache import Member

PATH = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups/"
UID = "3f1c2a00-0000-4000-8000-000000000001"


class Cluster:
    """Answers GET with objects by path, and knows the stored pods of one group."""

    def __init__(self):
        self.objects, self.asked, self.members, self.fault = {}, [], {}, None

    def get(self, path, query, seconds, accept=""):  # noqa: ARG002  # the API server's
        self.asked.append(path)
        if self.fault is not None:
            raise self.fault
        if path not in self.objects:
            raise RefusedError(404, "not found", about=path.rpartition("/")[2])
        return self.objects[path]

    def podgroup(self, size, name="ga", uid=UID):
        spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
        self.objects[PATH + name] = {"kind": "PodGroup", "metadata": {"name": name, "uid": uid}, "spec": spec}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def reader(cluster):
    return GroupReader(cluster, lambda _namespace, _group: cluster.members)


@pytest.fixture
def site(tmp_path, reader):
    return Site(tmp_path, reader=reader)


def member(gpus, name="ga"):
    raw = pod(gpus)
    raw["spec"]["schedulingGroup"] = {"podGroupName": name}
    return raw


def validate(site, raw, number=1, **parts):
    response = site.ask("/validate", raw, number, **parts)
    return str(response.get("status", {}).get("message", ""))


def test_the_first_pod_is_refused_with_the_numbers_of_its_group(site, cluster):
    cluster.podgroup(3)
    assert validate(site, member(1)) == (
        f"gpuQuota: spec: exceeded GPU quota '{NAMESPACE}': PodGroup ga needs 3 GPUs for 3 pods together; "
        "used 2 of 4 (2 free); largest: running 2; free some, or let PodGroup ga start with fewer pods, or request "
        "less in each."
    )
    cluster.podgroup(10**6, "huge")
    assert validate(site, member(4, "huge")) == (
        "gpuQuota: spec: PodGroup huge needs 4000000 GPUs for 1000000 pods together; "
        f"GPU quota '{NAMESPACE}' allows 4 GPUs in all; let PodGroup huge start with fewer pods, or request less in "
        "each."
    )
    assert site.entered == set()


def test_a_group_that_fits_gets_in_whole_beside_others(site, cluster):
    cluster.podgroup(2)
    assert validate(site, member(1), 1) == ""
    assert "used 4 of 4 (0 free)" in validate(site, pod(1), 9)
    assert validate(site, member(1), 2) == ""
    assert site.entered == {1, 2}


def test_its_object_is_read_once_for_pods_that_come_together(site, cluster):
    cluster.podgroup(3)
    for number in range(20):
        validate(site, member(1), number)
    assert cluster.asked == [PATH + "ga"]


@pytest.mark.parametrize("dry", [True, False])
def test_nothing_is_read_for_pods_without_groups_or_gpus(site, cluster, dry):
    validate(site, pod(1), dryRun=dry)
    validate(site, member(0))
    assert cluster.asked == []


def test_groups_count_by_pods_where_the_policy_says_so(tmp_path, cluster, reader):
    cluster.podgroup(3)
    site = Site(tmp_path, reader=reader, groups="pods")
    assert validate(site, member(1)) == ""
    assert cluster.asked == []


def test_a_shared_quota_holds_room_for_groups_or_not_by_its_own_setting(tmp_path, cluster, reader):
    cluster.podgroup(3)
    quota = {"name": "all", "namespaces": ["*"], "gpus": 2}
    for more, refusal in (({}, "PodGroup ga needs 3 GPUs for 3 pods together"), ({"groups": "pods"}, "")):
        shared_quotas_file(tmp_path, quota | more)
        site = Site(tmp_path, reader=reader, mode="disabled")
        site.pods.__init__([])
        assert refusal in validate(site, member(1))


def test_pods_of_other_parts_count_what_their_template_requests(site, cluster):
    label, jobs = "jobset.sigs.k8s.io/", []
    for name, gpus in (("w", 1), ("x", 2), ("cpu", 0)):
        jobs.append({"name": name, "template": {"spec": {"template": pod(gpus)}}})
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets/js"
    head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js", "uid": UID}}
    cluster.objects[path] = {**head, "spec": {"replicatedJobs": jobs}}
    raw = pod(1)
    raw["metadata"]["labels"] = {
        label + "jobset-name": "js",
        label + "replicatedjob-name": "w",
        label + "jobset-uid": UID,
    }
    assert "JobSet js needs 3 GPUs for 2 pods together; used 2 of 4" in validate(site, raw)


@each(
    "size, members, refusal",
    {
        "one with GPUs is stored already": (3, {5: True}, ""),
        "one needs no GPUs": (3, {5: False}, ""),
        "none is there": (3, {}, "needs 3 GPUs"),
        "no gang": (0, {}, ""),
    },
)
def test_pods_that_are_stored_already_need_no_room(site, cluster, size, members, refusal):
    cluster.podgroup(size)
    cluster.members = {bytes([number] * 16): Member("", has_gpus) for number, has_gpus in members.items()}
    message = validate(site, member(1))
    assert refusal in message if refusal else not message


@each(
    "fault, refusal",
    {
        "no object yet": (RefusedError(404, "not found", about="ga"), ""),
        "no such kind": (RefusedError(404, "the server could not find the requested resource"), ""),
        "no right": (RefusedError(403, "forbidden"), ""),
        "silent": (UnreachableError("silence"), "PodGroup ga (the API server does not answer). Try again in a moment"),
    },
)
def test_a_pod_counts_alone_where_no_object_is_found_and_waits_where_that_is_not_known(site, cluster, fault, refusal):
    cluster.fault = fault
    message = validate(site, member(1))
    assert refusal in message if refusal else not message


def test_a_group_that_a_queue_lets_start_is_read_when_its_gates_go(site, cluster):
    """At the creation of a pod of a StatefulSet in Kueue, nothing says yet what its group is."""
    raw = pod(1)
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/pod-group-name": "w"}
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads/w"
    sets = [{"name": "main", "count": 3, "template": pod(1)}]
    workload = {"metadata": {"uid": UID}, "spec": {"podSets": sets}}
    cluster.objects[path] = workload
    old = {**raw, "spec": {**raw["spec"], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
    assert validate(site, old) == ""
    assert cluster.asked == []
    cluster.objects[path] = {**workload, "status": {"admission": {"podSetAssignments": [{"name": "main", "count": 3}]}}}
    assert "Workload w needs 3 GPUs for 3 pods together" in validate(site, raw, operation="UPDATE", old=old)
    assert site.entered == set()


def test_a_missing_right_is_said_once(site, cluster, caplog):
    cluster.fault = RefusedError(403, "forbidden")
    with caplog.at_level(logging.WARNING):
        for number in (1, 2):
            validate(site, member(1), number)
    assert sum("counted one by one" in one.getMessage() for one in caplog.records) == 1


def test_an_older_version_of_a_kind_is_read_where_there_is_no_newer_one(site, cluster):
    raw = pod(1)
    raw["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "w"}
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/podset": "main"}
    path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/workloads/w"
    sets, assigned = [{"name": "main", "count": 3, "template": pod(1)}], [{"name": "main", "count": 3}]
    admission = {"admission": {"podSetAssignments": assigned}}
    cluster.objects[path] = {"metadata": {"uid": UID}, "spec": {"podSets": sets}, "status": admission}
    cluster.get = lambda path, *_: cluster.objects[path] if path in cluster.objects else _missing()
    assert "Workload w needs 3 GPUs for 3 pods together" in validate(site, raw)


def _missing():
    raise RefusedError(404, "the server could not find the requested resource")

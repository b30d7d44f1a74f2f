"""What is kept of a pod for quotas: GPUs, placement, and when it stops counting."""

import math
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.pod_samples import deleted, stored, uid, uid_text
from webhook.ledger.gpu_pods import counting_uid, stored_from_raw, uid_of
from webhook.ledger.ledger_store import GpuPod
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw

AT = "2026-03-01T12:00:00Z"
AT_SECONDS = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def placed(**spec: Any) -> dict[str, Any]:
    return stored("p", **spec)


def requiring(*values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def seen(raw: object) -> GpuPod:
    found = stored_from_raw(raw).gpu_pod
    assert found is not None
    return found


def read(raw: object) -> Pod:
    return seen(raw).pod


def test_uid_namespace_and_name_are_kept():
    found = seen(stored("train-a", "team-vision"))
    assert (uid("train-a"), "team-vision", "train-a") == (found.uid, found.namespace, found.name)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(placed(), id="nothing said"),
        pytest.param(placed(nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"}), id="a node selector"),
        pytest.param(placed(affinity=requiring("Tesla-T4", "NVIDIA-L4")), id="required affinity"),
        pytest.param(placed(gpus=0), id="no GPUs"),
        pytest.param(
            placed(
                initContainers=[{"name": "i", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "3"}}}],
                tolerations=[{"operator": "Exists"}],
                volumes=[{"name": "v", "emptyDir": {}}],
            ),
            id="init containers, and parts that do not count",
        ),
    ],
)
def test_what_decides_on_the_demand_is_as_in_the_whole_pod(raw):
    whole, found = pod_from_raw(raw), stored_from_raw(raw).gpu_pod
    assert bool(whole.gpus) == (found is not None)
    if found is not None:
        assert (whole.gpus, whole.accelerators) == (found.pod.gpus, found.pod.accelerators)
        assert (whole.node_selector, whole.required) == (found.pod.node_selector, found.pod.required)
        assert not found.pod.containers


def test_equal_demands_and_placements_are_one_object():
    one, other = (stored(name, nodeSelector={"pool": "gpu"}, affinity=requiring("Tesla-T4")) for name in "ab")
    assert read(one) is read(other)
    assert read(one) is not read(stored("c", gpus=2, nodeSelector={"pool": "gpu"}, affinity=requiring("Tesla-T4")))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {f"key-{n}": "v" for n in range(100_000)}}, id="a huge node selector"),
        pytest.param({"nodeSelector": {"key": "v" * 1_000_000}}, id="a huge value"),
        pytest.param({"affinity": requiring(*(f"product-{n}" for n in range(100_000)))}, id="many values"),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}] * 100_000}}}}, id="many empty terms"
        ),
    ],
)
def test_a_pod_that_says_a_megabyte_about_its_nodes_is_kept_as_if_it_said_nothing(spec):
    found = read(placed(**spec))
    assert (found.gpus, found.node_selector, found.required) == ({"nvidia.com/gpu": 1}, {}, None)


def test_what_people_say_of_their_nodes_is_never_too_much():
    selector = {f"example.com/label-{n}": "x" * 60 for n in range(10)}
    affinity = requiring(*(f"NVIDIA-H100-80GB-HBM3-MIG-{n}g.10gb" for n in range(60)))
    found = read(placed(nodeSelector=selector, affinity=affinity))
    assert selector == found.node_selector
    assert found.required is not None
    assert len(found.required[0].expressions[0].values) == 60


@pytest.mark.parametrize(
    ("raw", "ends"),
    [
        pytest.param(stored("p"), math.inf, id="running"),
        pytest.param(stored("p", phase="Pending"), math.inf, id="pending"),
        pytest.param(stored("p", phase="Unknown"), math.inf, id="on a lost node"),
        pytest.param(stored("p", phase="Succeeded"), -math.inf, id="succeeded"),
        pytest.param(stored("p", phase="Failed"), -math.inf, id="failed"),
        pytest.param({**stored("p"), "status": None}, math.inf, id="no status"),
        pytest.param({**stored("p"), "status": "Failed"}, math.inf, id="a status that is none"),
        pytest.param(deleted(stored("p"), AT, 30), AT_SECONDS + 30, id="being deleted"),
        pytest.param(deleted(stored("p"), AT, 0), AT_SECONDS, id="being deleted at once"),
        pytest.param(deleted(stored("p"), "2026-03-01T13:00:00+01:00", 5), AT_SECONDS + 5, id="another time zone"),
        pytest.param(deleted(stored("p", phase="Failed"), AT, 30), -math.inf, id="failed and being deleted"),
        pytest.param(deleted(stored("p"), AT, 10**400), math.inf, id="a grace period beyond all numbers"),
        pytest.param(deleted(stored("p"), "292277026596-12-04T15:30:07Z", 1), math.inf, id="a year beyond 9999"),
        pytest.param(deleted(stored("p"), "tomorrow", 1), math.inf, id="no time"),
    ],
)
def test_a_pod_stops_counting_as_the_in_tree_quota_has_it(raw, ends):
    assert ends == stored_from_raw(raw).ends


@pytest.mark.parametrize(
    ("now", "counts"),
    [pytest.param(AT_SECONDS + 30, True, id="at its deadline"), pytest.param(AT_SECONDS + 30.5, False, id="past it")],
)
def test_metadata_alone_tells_whether_a_deletion_is_overdue(now, counts):
    raw = {"metadata": deleted(stored("p"), AT, 30)["metadata"]}
    assert (uid("p") if counts else None) == counting_uid(raw, now)


def test_a_uid_without_hyphens_is_one():
    raw = stored("p")
    raw["metadata"]["uid"] = uid_text("p").replace("-", "")
    assert uid("p") == stored_from_raw(raw).uid == uid_of(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(None, "found no pod with metadata", id="null"),
        pytest.param([], "found no pod with metadata", id="a list"),
        pytest.param({"spec": {}}, "found no pod with metadata", id="no metadata"),
        pytest.param({"metadata": {"name": "p"}}, "pod p: metadata.uid 'None' is no UUID", id="no uid"),
        pytest.param({"metadata": {"uid": "pod-7"}}, "pod : metadata.uid 'pod-7' is no UUID", id="another uid"),
        pytest.param({"metadata": {"uid": 7}}, "pod : metadata.uid '7' is no UUID", id="a number"),
        pytest.param(
            stored("p", nodeSelector=["a"]), "spec.nodeSelector: found a list, expected a map", id="an odd part"
        ),
    ],
)
def test_what_is_no_pod_is_told(raw, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        stored_from_raw(raw)
    assert counting_uid(raw, 0) == (uid("p") if message.startswith("spec") else None)


NAMES = st.sampled_from(
    "metadata spec status uid name namespace containers initContainers resources limits requests nvidia.com/gpu "
    "nodeSelector affinity nodeAffinity nodeSelectorTerms matchExpressions key operator values deletionTimestamp "
    f"deletionGracePeriodSeconds phase {REQUIRED}".split()
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([uid_text("p"), AT])
)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=15
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"uid": st.just(uid_text("p"))}, optional={"namespace": ANYTHING}),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(st.fixed_dictionaries({"resources": ANYTHING}) | ANYTHING, max_size=2)},
            optional={"nodeSelector": ANYTHING, "affinity": ANYTHING, "tolerations": ANYTHING},
        ),
    },
    optional={"status": ANYTHING},
)


@given(raw=ANYTHING | PODS)
def test_no_object_is_too_odd_to_be_read_or_refused(raw):
    for reader in (stored_from_raw, uid_of):
        try:
            reader(raw)
        except ValueError as error:
            assert str(error)  # noqa: PT017  # whether it is raised is left open
    assert counting_uid(raw, 0.0) in (None, uid("p"))

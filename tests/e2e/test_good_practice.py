"""Good practice, rule by rule, as people meet it at `kubectl apply`: told or refused, completed, or left in peace."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.good_practice_cases import CASES, CLASSES, NODES, Case, Raw, changed, notebook, replicas, trainer, web
from tests.e2e.gpu_nodes import add_node, remove_node
from tests.e2e.installation import ANNOTATION, Installation

Namespaces = Callable[[str], str]

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SILENT = (0, "")
"""Taken without a word."""
ENTRIES = {"Pod": "validate", "Deployment": "workloads"}
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
OWNER = {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "name": "chat", "apiVersion": "apps/v1", "controller": True}


@pytest.fixture(scope="module")
def nodes(installation: Installation) -> Iterator[set[str]]:
    """Two kinds of GPU nodes and one for the web, and priority classes; tests add what the webhook knows of already."""
    plane = installation.plane
    for name, value in CLASSES.items():
        assert plane.raw("POST", PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})[0] == 201
    for name, (found, resource, gpus) in NODES.items():
        add_node(plane, name, found, resource=resource, gpus=gpus)
    for prefix in ("advised", "practised"):
        plane.namespace(f"{prefix}-probe")
    yield set()
    for name in NODES:
        remove_node(plane, name)
    for name in CLASSES:
        plane.raw("DELETE", f"{PRIORITY_CLASSES}/{name}")


@pytest.fixture
def advising(nodes: set[str], webhook: Installation) -> Installation:
    """The webhook, which knows the nodes by now."""

    def said(manifest: Raw) -> str:
        return apply(webhook.plane, "advised-probe", manifest, dry_run=True)[1]

    if "nodes" not in nodes:
        eventually(lambda: "onto 2 GPU nodes" in said(web()) and said(trainer()) == "")
        nodes.add("nodes")
    return webhook


@pytest.fixture
def practising(advising: Installation, webhook: Installation) -> Installation:
    """The same on an API server that takes patches; the webhook knows the priority classes by now."""
    path = "/api/v1/namespaces/practised-probe/pods?dryRun=All"
    eventually(lambda: "priorityClassName" in advising.plane.raw("POST", path, trainer())[1]["spec"])
    return webhook


def stored(plane: ControlPlane, namespace: str, name: str = "trainer") -> Raw:
    """A pod as it is stored."""
    status, found = plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    assert status == 200, found
    return dict(found)


def with_owner(manifest: Raw, kind: str) -> Raw:
    """The pod as a controller of this kind makes it."""
    return manifest | {"metadata": {**manifest["metadata"], "ownerReferences": [{**OWNER, "kind": kind}]}}


@pytest.mark.parametrize("case", [one for one in CASES if one.values[0].warned])
def test_what_breaks_a_rule_is_taken_with_a_warning(
    advising: Installation, make_namespace: Namespaces, case: Case
) -> None:
    """And nothing else is said."""
    status, said = apply(advising.plane, make_namespace(case.warned), case.wrong)
    assert (status, said.count("\n")) == (0, 1), said
    assert said.startswith(f"Warning: {case.rule}: {case.said}")


@pytest.mark.parametrize("case", CASES)
def test_what_breaks_an_enforced_rule_is_refused(
    advising: Installation, make_namespace: Namespaces, case: Case
) -> None:
    status, said = apply(advising.plane, make_namespace(case.refused), case.wrong)
    entry = ENTRIES[case.wrong["kind"]]
    assert (status, said.count("\n")) == (1, 1)
    assert f'admission webhook "{entry}.gpupolicy.dev" denied the request: {case.rule}: {case.said}' in said


@pytest.mark.parametrize("case", CASES)
def test_what_keeps_a_rule_is_taken_without_a_word(
    advising: Installation, make_namespace: Namespaces, case: Case
) -> None:
    for prefix in {case.warned, case.refused} - {""}:
        assert apply(advising.plane, make_namespace(prefix), case.right) == SILENT


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(web(tolerations=[{"operator": "Exists"}]), id="tolerates everything"),
        pytest.param(with_owner(web(), "DaemonSet"), id="of a DaemonSet"),
        pytest.param(web(tolerations=[]), id="tolerates nothing"),
    ],
)
def test_pods_without_gpus_that_do_not_name_gpu_nodes_are_left_alone(
    advising: Installation, make_namespace: Namespaces, manifest: Raw
) -> None:
    """Tried only, since a pod that tolerates everything would be bound to whatever nodes other tests make."""
    assert apply(advising.plane, make_namespace("strict"), manifest, dry_run=True) == SILENT


def test_nothing_is_changed_in_a_pod_without_gpus_that_is_after_gpu_nodes(
    practising: Installation, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("practised")
    manifest = web() | {"metadata": notebook()["metadata"]}
    status, said = apply(practising.plane, namespace, manifest)
    assert (status, "Warning: gpuNodesForGpuPods: " in said) == (0, True), said
    pod = stored(practising.plane, namespace)
    assert ANNOTATION not in pod["metadata"]["annotations"]
    assert {"priorityClassName", "activeDeadlineSeconds"}.isdisjoint(pod["spec"])


def test_one_replica_is_not_spoken_of_and_neither_are_the_pods_of_several(
    advising: Installation, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("advised")
    assert apply(advising.plane, namespace, replicas(1)) == SILENT
    assert apply(advising.plane, namespace, with_owner(trainer(), "ReplicaSet")) == SILENT


# What is completed


def test_replicas_are_spread_when_their_controller_makes_them(
    practising: Installation, cluster: ControlPlane, make_namespace: Namespaces
) -> None:
    """The Deployment is taken without a word, and stays as it is."""
    namespace = make_namespace("practised")
    assert apply(cluster, namespace, replicas(2)) == SILENT
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = eventually(lambda: (found := cluster.raw("GET", path)[1]["items"])[1:] and found)
    for pod in made:
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        assert constraint["labelSelector"]["matchLabels"] == {"app": "chat"}
        assert (constraint["topologyKey"], constraint["whenUnsatisfiable"], constraint.get("matchLabelKeys")) == (
            "kubernetes.io/hostname",
            "ScheduleAnyway",
            ["pod-template-hash"],
        )
        assert "replicaSpread" in pod["metadata"]["annotations"][ANNOTATION]
    _, deployment = cluster.raw("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/chat")
    assert "topologySpreadConstraints" not in deployment["spec"]["template"]["spec"]


@pytest.fixture
def default_class(practising: Installation) -> Iterator[str]:
    """A class that Kubernetes gives to pods which name none, known to the webhook."""
    plane, name = practising.plane, "practice-default"
    body = {"metadata": {"name": name}, "value": 77, "globalDefault": True, "preemptionPolicy": "Never"}
    assert plane.raw("POST", PRIORITY_CLASSES, body)[0] == 201
    probe = "/api/v1/namespaces/practised-probe/pods?dryRun=All"
    plain = "/api/v1/namespaces/default/pods?dryRun=All"
    try:
        eventually(lambda: plane.raw("POST", plain, web())[1]["spec"].get("priorityClassName") == name)
        eventually(lambda: plane.raw("POST", probe, trainer())[1]["spec"]["priorityClassName"] != name)
        yield name
    finally:
        plane.raw("DELETE", f"{PRIORITY_CLASSES}/{name}")
        eventually(lambda: "priorityClassName" not in plane.raw("POST", plain, web())[1]["spec"])


def priority(pod: Raw) -> tuple[str, int, str]:
    """Class, priority and preemption of a pod."""
    spec = pod["spec"]
    return spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]


def test_a_pod_that_names_no_priority_class_gets_the_one_of_its_namespace(
    practising: Installation, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("practised")
    assert apply(practising.plane, namespace, trainer()) == SILENT
    assert priority(stored(practising.plane, namespace)) == ("practice-training", 1000, "PreemptLowerPriority")


def test_the_clusters_default_class_gives_way_with_all_that_follows_from_it(
    practising: Installation, make_namespace: Namespaces, default_class: str
) -> None:
    namespace = make_namespace("practised")
    assert apply(practising.plane, namespace, trainer()) == SILENT
    assert priority(stored(practising.plane, namespace)) == ("practice-training", 1000, "PreemptLowerPriority")
    plain = web() | {"metadata": {"name": "web"}}
    assert apply(practising.plane, namespace, plain)[0] == 0
    assert priority(stored(practising.plane, namespace, "web")) == (default_class, 77, "Never")


def test_a_class_that_somebody_chose_stays(practising: Installation, make_namespace: Namespaces) -> None:
    namespace = make_namespace("practised")
    chosen = trainer(priorityClassName="other-class")
    assert apply(practising.plane, namespace, chosen) == SILENT
    assert priority(stored(practising.plane, namespace))[:2] == ("other-class", 5)


CAPPED = "timeLimit: spec.activeDeadlineSeconds: 36000 (10h) is longer than the 28800 (8h)"


@pytest.mark.parametrize(
    ("manifest", "said", "expected"),
    [
        pytest.param(notebook(), "", 28_800, id="no limit"),
        pytest.param(notebook(activeDeadlineSeconds=36_000), CAPPED, 28_800, id="longer"),
        pytest.param(notebook(activeDeadlineSeconds=60), "", 60, id="shorter"),
        pytest.param(trainer(), "", None, id="not interactive"),
    ],
)
def test_interactive_pods_get_a_limit_of_time(
    practising: Installation, make_namespace: Namespaces, manifest: Raw, said: str, expected: int | None
) -> None:
    namespace = make_namespace("practised")
    status, told = apply(practising.plane, namespace, manifest)
    assert (status, said in told, told.count("\n")) == (0, True, bool(said))
    assert stored(practising.plane, namespace)["spec"].get("activeDeadlineSeconds") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param([], [{"name": CAPABILITIES, "value": "compute,utility"}], id="nothing"),
        pytest.param(
            [{"name": CAPABILITIES, "value": "all"}], [{"name": CAPABILITIES, "value": "all"}], id="something"
        ),
    ],
)
def test_driver_capabilities_are_set_where_the_container_sets_none(
    practising: Installation, make_namespace: Namespaces, written: list[Raw], expected: list[Raw]
) -> None:
    namespace = make_namespace("practised")
    assert apply(practising.plane, namespace, changed(trainer(), env=written)) == SILENT
    assert stored(practising.plane, namespace)["spec"]["containers"][0]["env"] == expected


def test_a_second_apply_of_what_was_completed_changes_nothing(
    practising: Installation, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("practised")
    assert apply(practising.plane, namespace, notebook())[0] == 0
    before = stored(practising.plane, namespace)["spec"]
    assert apply(practising.plane, namespace, notebook()) == SILENT
    assert stored(practising.plane, namespace)["spec"] == before

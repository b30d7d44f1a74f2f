"""What kubectl prints is read as a cluster; what is no inventory is refused with file, line, fault and expectation."""

import json

import pytest
import yaml

from tests.facts.pod_samples import cpu_pod, stored
from tests.facts.samples import device_class, names, node, pod, priority_class, runtime_class
from webhook.facts.facts import FactsSource, FactsStatus
from webhook.facts.live import StaticFacts
from webhook.ledger.inventory import load_inventory, read_inventory
from webhook.model.node import PriorityClass
from webhook.yaml_files.file_errors import FileErrors

OTHERS = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}, "spec": {"containers": []}},
    {"apiVersion": "example.com/v1", "kind": "Unheard", "metadata": {"name": "of"}},
]
ITEMS = [node("a"), *OTHERS, node("b"), runtime_class("nvidia"), priority_class("low", 10)]
LIST = {"apiVersion": "v1", "kind": "List", "items": ITEMS, "metadata": {"resourceVersion": ""}}
TYPED = [
    {"kind": "NodeList", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]},
    {"kind": "RuntimeClassList", "items": [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}]},
    {"kind": "PriorityClassList", "items": [{"metadata": {"name": "low"}, "value": 10}]},
    {"kind": "PodList", "items": [{"metadata": {"name": "p"}}]},
]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(yaml.safe_dump(LIST), id="a List in YAML"),
        pytest.param(json.dumps(LIST, indent=1), id="a List in JSON"),
        pytest.param("# by hand\n{kind: List, items: [" + ", ".join(map(json.dumps, ITEMS)) + ",]}", id="flow YAML"),
        pytest.param(yaml.safe_dump_all(ITEMS), id="one document for each object"),
        pytest.param("---\n---\n" + yaml.safe_dump_all([LIST, None]), id="empty documents in between"),
        pytest.param(yaml.safe_dump_all(TYPED), id="lists of one kind whose items do not name it"),
    ],
)
def test_every_form_that_kubectl_prints_is_read(tmp_path, text):
    file = tmp_path / "inventory.yaml"
    file.write_text(text)
    facts = load_inventory(file)
    assert {"a", "b"} == names(facts.cluster, pod())
    assert {"nvidia"} == set(facts.cluster.runtime_classes)
    assert {"low": PriorityClass("low", 10)} == facts.priority_classes()


def test_device_classes_of_an_inventory_give_what_no_node_lists(tmp_path):
    file = tmp_path / "inventory.yaml"
    asking = pod(gpus={"nvidia.com/gpu": 1})
    for kind, feasible in (("DeviceClass", 1), ("StorageClass", 0)):
        given = {**device_class("gpu.nvidia.com", "nvidia.com/gpu"), "kind": kind}
        file.write_text(yaml.safe_dump({"kind": "List", "items": [*ITEMS, given]}))
        assert len(load_inventory(file).feasible_nodes(asking)) == feasible


def test_an_inventory_without_nodes_is_an_empty_cluster(tmp_path):
    file = tmp_path / "inventory.yaml"
    file.write_text("kind: List\nitems: []\n")
    assert load_inventory(file).cluster.nodes == {}


def test_items_without_a_name_are_left_out_and_counted(tmp_path):
    file = tmp_path / "inventory.yaml"
    file.write_text("kind: NodeList\nitems: [null, [], text, {kind: Node}, {metadata: {name: a}}]\n")
    facts = load_inventory(file)
    assert {"a"} == set(facts.cluster.nodes)
    assert facts.cluster.unreadable == 4


EXPECTED = "expected what `kubectl get nodes,runtimeclasses,priorityclasses -o yaml` prints: a List with items"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(b"", f": the file is empty; {EXPECTED}", id="empty"),
        pytest.param(b"# nothing\n---\n", f": the file is empty; {EXPECTED}", id="only comments"),
        pytest.param(
            b"kind: List\nitems:\n- a: b: c\n",
            f":3: not valid YAML (mapping values are not allowed in this context); {EXPECTED}",
            id="a YAML error has its line",
        ),
        pytest.param(
            b'{"kind": "List",\n"items": [}\n',
            f":2: not valid YAML (did not find expected node content); {EXPECTED}",
            id="so has a JSON error",
        ),
        pytest.param(b"- kind: Node\n", f":1: found a list; {EXPECTED}", id="a bare list"),
        pytest.param(b"hello\n", f":1: found a string; {EXPECTED}", id="a text"),
        pytest.param(b'{"items": []}', f": found a map without a kind; {EXPECTED}", id="no kind"),
        pytest.param(
            b"kind: Node\n---\nkind: 7\n", f":3: found a map without a kind; {EXPECTED}", id="kind is a number"
        ),
        pytest.param(b"kind: List\n", f":1: List has no items; {EXPECTED}", id="no items"),
        pytest.param(b"kind: List\nitems: {}\n", f":1: the items of List are a map; {EXPECTED}", id="items are a map"),
    ],
)
def test_what_is_no_inventory_is_refused_with_place_fault_and_expectation(tmp_path, text, fault):
    file = tmp_path / "inventory.yaml"
    file.write_bytes(text)
    with pytest.raises(FileErrors) as refused:
        load_inventory(file)
    assert f"{file}{fault}" == str(refused.value)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    missing = tmp_path / "missing.yaml"
    with pytest.raises(FileErrors) as refused:
        load_inventory(missing)
    assert f"{missing}: the file cannot be read (No such file or directory); name a readable file" == str(refused.value)
    with pytest.raises(match="Is a directory"):
        load_inventory(tmp_path)


def test_facts_from_a_file_are_always_loaded_and_never_stale(tmp_path):
    file = tmp_path / "inventory.yaml"
    file.write_text(yaml.safe_dump(LIST))
    source: FactsSource = StaticFacts(load_inventory(file), origin="inventory.yaml")
    source.start()
    status = source.status(now=1e9)
    assert FactsStatus(True, False, 0.0, True, "inventory.yaml: 2 nodes, 1 runtime class") == status
    assert status.ready
    source.close()
    assert source.facts is not None
    assert {"a", "b"} == set(source.facts.cluster.nodes)


def test_the_gpu_pods_of_an_inventory_are_kept_beside_what_rules_ask_about(tmp_path):
    file = tmp_path / "inventory.yaml"
    items = [
        *ITEMS,
        stored("train"),
        cpu_pod("web"),
        stored("done", phase="Succeeded"),
        stored("odd", nodeSelector=[1]),
    ]
    file.write_text(yaml.safe_dump({**LIST, "items": items}))
    inventory = read_inventory(file)
    assert {"a", "b"} == set(inventory.facts.cluster.nodes)
    assert {"train"} == {pod.name for pod in inventory.pods.seen()}
    assert inventory.pods.unreadable == 1


TWICE = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {}\nmetadata: {name: b}\n"


def test_a_key_that_stands_twice_is_told_and_its_last_value_counts(tmp_path):
    file = tmp_path / "inventory"
    file.write_text(TWICE)
    found = read_inventory(file)
    assert set(found.facts.cluster.nodes) == {"b"}
    told = "the key 'metadata' is set twice in one map, in line 3 and in line 5; the last value counts"
    assert found.left_out == (told,)

"""Nodes that Karpenter may make, by its NodePools: which GPUs they bring, and which pods they take."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.eventually import eventually
from tests.facts.following import following, watched
from tests.facts.samples import node
from tests.golden import golden
from tests.rules.samples import container, pod
from webhook.cuda.offer import offer_of
from webhook.facts.facts import ClusterFacts
from webhook.facts.made_pools import node_pool_from_raw, pools_of
from webhook.facts.node_index import pool_table
from webhook.facts.snapshot import MAKING_KINDS, Snapshot
from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.gpus.gpu_names import INSTANCE_TYPE
from webhook.gpus.machine_types import cloud_of, machine_table, models_of
from webhook.ledger.inventory import read_inventory
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.cluster_settings import PoolSettings
from webhook.rules import schedulable
from webhook.rules.rule_settings import Mode

AWS = "karpenter.k8s.aws"
NODE_CLASS = {"group": AWS, "kind": "EC2NodeClass", "name": "b"}
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]


def requirement(written: str) -> dict:
    key, operator, *values = written.partition(" #")[0].split()
    values = [{} if value == "{}" else value for value in values]
    key = f"{AWS}/{key}" if key.startswith("instance-") else key
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def node_pool(requirements, *, name="gpu", group=AWS, limits=None, **template) -> dict:
    ref = {"group": group, "kind": "EC2NodeClass", "name": "own"}
    spec = {"nodeClassRef": ref, "requirements": [*map(requirement, requirements)], **template.pop("spec", {})}
    spec = {"template": {"spec": spec, "metadata": template}, "limits": limits or {}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def node_class(*aliases, **spec) -> dict:
    return {"metadata": {"name": "own"}, "spec": {"amiSelectorTerms": [{"alias": one} for one in aliases], **spec}}


def pools(*args, **others):
    return pools_of(node_pool_from_raw(node_pool(*args, **others))[1])


def offered(found) -> set[str]:
    """The GPU models of these pools; a question mark for unknown ones."""
    kinds = [one.kind for one in pool_table(found).nodes.values()]
    return {model for kind in kinds for model in CATALOGUE.models_at(kind.labels) or "?"}


def asking(*, select=None, avoid=None, beside=None, gpus=1, **spec):
    avoided = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in (avoid or {}).items()]
    avoided += [{"key": beside, "operator": "Exists"}] if beside else []
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": avoided}]}}
    spec |= {"affinity": {"nodeAffinity": terms}} if avoided else {}
    return pod_from_raw(pod(container(gpus=gpus), nodeSelector=select or {}, **spec))


def known(*raws, nodes=()) -> ClusterFacts:
    return ClusterFacts.of(nodes, node_pools=raws).with_pools(())


@golden
def test_a_node_pool_offers_the_gpus_that_its_requirements_admit(requirements, offers):
    assert offered(pools(requirements)) == set(offers)


@golden
def test_another_cloud_has_its_own_labels(group, requirements, offers):
    assert offered(pools(requirements, group=group)) == set(offers)


@golden
def test_limits_keep_machines_out_that_are_larger(limits, largest):
    facts = known(node_pool(["instance-family In g5"], limits=limits))
    assert facts.largest("nvidia.com/gpu") == largest


@golden
def test_a_pod_fits_what_a_node_pool_may_make(requirements, pod, fits):
    classes = known(node_pool(requirements)).feasible_nodes(asking(**pod))
    assert bool(classes) == fits
    assert {one.pool for one in classes} <= {"NodePool gpu"}


@golden
def test_a_declared_pool_is_the_node_pool_of_its_name(declared, offers):
    facts = ClusterFacts.of(node_pools=[node_pool(["instance-family In g5"])])
    classes = facts.with_pools((PoolSettings.model_validate(declared).pool,)).matching_nodes(asking())
    found = [(CATALOGUE.models_at(one.labels) or {"?"}, offer_of(one.labels).driver or "unknown") for one in classes]
    assert sorted(f"{model} of {driver}" for models, driver in found for model in models) == sorted(offers)


def test_pods_have_to_tolerate_taints_and_not_start_up_taints():
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    tolerant = asking(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    lasting, passing = (
        known(node_pool(["instance-family In g5"], spec={key: [taint]})) for key in ("taints", "startupTaints")
    )
    assert not lasting.matching_nodes(asking())
    assert lasting.selected_nodes(asking())
    assert lasting.matching_nodes(tolerant)
    assert passing.matching_nodes(asking())


def test_labels_of_the_template_are_labels_of_its_nodes():
    facts = known(node_pool(["instance-family In g5"], labels={"team": "a"}))
    assert facts.matching_nodes(asking(select={"team": "a"}))
    assert not facts.matching_nodes(asking(select={"team": "b"}))
    assert facts.label_values("team") == ["a"]


@pytest.mark.parametrize(
    ("resource", "makers"),
    [
        pytest.param("nvidia.com/gpu", {"NodePool gpu"}, id="NodePools tell which whole GPUs may come"),
        pytest.param("nvidia.com/mig-1g.5gb", {"Karpenter"}, id="and not how a device plugin divides them"),
    ],
)
def test_node_pools_say_what_karpenter_makes(resource, makers):
    made = node("n0", labels={"karpenter.sh/nodepool": "cpu"}, capacity={"cpu": "4"})
    facts = known(node_pool(["instance-family In g5"]), node_pool(["instance-category In c"], name="cpu"), nodes=[made])
    asks = pod_from_raw(pod({"name": "main", "resources": {"limits": {resource: 1}}}))
    assert {one.maker for one in facts.matching_nodes(asks)} == makers


def test_a_change_of_a_node_pool_is_a_change_of_its_pools_and_a_count_of_its_nodes_is_none():
    snapshot = Snapshot.of(node_pools=[node_pool(["instance-family In g5"])])
    counted = node_pool(["instance-family In g5"]) | {"status": {"resources": {"nodes": "3"}}}
    assert snapshot.with_class("node_pools", counted) is snapshot
    changed = snapshot.with_class("node_pools", node_pool(["instance-family In g6"]))
    assert (offered(snapshot.made), offered(changed.made)) == ({"A10G"}, {"L4"})
    assert changed.without_class("node_pools", "gpu").made == ()


@golden
def test_a_pod_is_told_who_may_make_a_node_for_it_unless_one_is_sure_to_come(requirements, select, said):
    facts = known(node_pool(requirements), nodes=[node("cpu", capacity={"cpu": "4"})])
    found = schedulable.validate(asking(select=select), schedulable.Settings(mode=Mode.WARN), facts)
    assert [*map(str, found)] == [f"spec: no node of today fits it (1 nvidia.com/gpu){said}"] * bool(said)


def test_node_pools_and_their_classes_are_followed(server, tmp_path):
    of_pools, of_classes = (MAKING_KINDS[part][1] for part in ("node_pools", "ec2_node_classes"))
    server.objects[of_pools] = [node_pool(["instance-family In g5"])]

    def made() -> set[tuple[str, str]]:
        found = facts.facts.cluster.made if facts.facts else ()
        return {
            (dict(pool.labels)[f"{AWS}/instance-family"], str(offer_of(dict(pool.labels)).driver)) for pool in found
        }

    with following(server, tmp_path) as facts:
        eventually(lambda: made() == {("g5", "None")} and watched(facts))
        server.tell_event(of_classes, "ADDED", node_class("al2023@v20250920"), "105")
        eventually(lambda: made() == {("g5", "570.172.08")})
        server.tell_event(of_pools, "MODIFIED", node_pool(["instance-family In g6"]), "106")
        eventually(lambda: made() == {("g6", "570.172.08")})
        server.tell_event(of_pools, "DELETED", node_pool([]), "107")
        eventually(lambda: made() == set())


@golden
def test_a_node_class_says_the_driver_and_more_labels_and_taints(spec, driver, takes):
    aliases, spec = spec.get("aliases", ()), {key: value for key, value in spec.items() if key != "aliases"}
    raw = node_class(*aliases, **spec)
    facts = ClusterFacts.of(node_pools=[node_pool(["instance-family In g6"])], ec2_node_classes=[raw]).with_pools(())
    assert {str(offer_of(one.labels).driver) for one in facts.selected_nodes(asking())} == {driver}
    assert bool(facts.matching_nodes(asking(select={"team": "a"}))) == takes


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"apiVersion": "hypershift.openshift.io/v1beta1", "metadata": {"name": "a"}}, id="another kind"),
    ],
)
def test_only_node_pools_of_karpenter_are_read(raw):
    assert node_pool_from_raw(raw) is None


@pytest.mark.parametrize(
    "spec", [None, [], {"template": {"spec": {"requirements": 7, "taints": [None], "nodeClassRef": 3}}}]
)
def test_a_node_pool_of_any_shape_may_bring_unknown_gpus(spec):
    raw = {"apiVersion": "karpenter.sh/v1", "metadata": {"name": "a"}, "spec": spec}
    assert offered(pools_of(node_pool_from_raw(raw)[1])) == {"?"}


def test_what_cannot_be_read_or_met_is_told(tmp_path):
    raws = [
        node_pool(["instance-family Near g5"], limits={"cpu": "lots"}),
        node_pool(["kubernetes.io/arch In amd64", "kubernetes.io/arch In arm64"], name="none"),
        node_pool(
            ["team In a", "team In b"], name="other", spec={"nodeClassRef": {"kind": "EC2NodeClass", "name": "b"}}
        ),
        node_class() | {"kind": "EC2NodeClass"},
    ]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": raws}))
    assert list(read_inventory(tmp_path / "cluster.json").left_out) == [
        "NodePool gpu: spec.template.spec.requirements[0] is no requirement that Karpenter knows, so the GPUs of its "
        "nodes are unknown",
        "NodePool gpu: spec.limits.cpu is no amount, so the GPUs of its nodes are unknown",
        "NodePool none: no value of kubernetes.io/arch meets all that its template says, so it makes no node",
        "NodePool other: no value of team meets all that its template says, so its nodes lack that label",
        "NodePool other: EC2NodeClass b is not among the known ones, so the driver of its nodes is unknown",
    ]


class Requirement:
    """A requirement as Karpenter computes with it: a set of values, or all others, within bounds."""

    def __init__(self, operator, values):
        self.others = operator not in ("In", "DoesNotExist")
        self.values = set(values) if operator in ("In", "NotIn") else set()
        self.least = int(values[0]) + (operator == "Gt") if operator in ("Gt", "Gte") else None
        self.most = int(values[0]) - (operator == "Lt") if operator in ("Lt", "Lte") else None

    def has(self, value):
        if (self.least, self.most) != (None, None):
            if not value.lstrip("-").isdigit():
                return False
            if (self.least is not None and int(value) < self.least) or (
                self.most is not None and int(value) > self.most
            ):
                return False
        return (value not in self.values) if self.others else (value in self.values)

    def admits(self, value):
        """Whether a machine with this value of the label, or without the label, is compatible."""
        if value is None:
            is_open = not self.others and not self.values
            return is_open or (self.others and bool(self.values))
        return self.has(value)


CLOUD = cloud_of(AWS)
LABELLED = sorted({(key, value) for one in CLOUD.types for key, value in one.labels.items() if value is not None})
KEYS = sorted({key for key, _ in LABELLED})


@st.composite
def written(draw):
    key = draw(st.sampled_from(KEYS))
    operator = draw(st.sampled_from(OPERATORS))
    among = [value for other, value in LABELLED if other == key] + ["0", "7"]
    if operator in ("Gt", "Lt", "Gte", "Lte"):
        values = [draw(st.sampled_from([one for one in among if one.isdigit()]))]
    else:
        values = draw(st.lists(st.sampled_from(among), min_size=1, max_size=6)) if operator in ("In", "NotIn") else []
    return {"key": key, "operator": operator, "values": values}


@given(st.lists(written(), max_size=4), st.lists(written(), max_size=2))
def test_a_pool_offers_every_machine_that_its_requirements_admit_and_no_other(stated, wanted):
    """Karpenter's arithmetic is the oracle: what it excludes is never offered, what it admits is, also to pods."""
    raw = node_pool([])
    raw["spec"]["template"]["spec"]["requirements"] = stated
    parsed = [(one["key"], Requirement(one["operator"], one["values"])) for one in stated]
    admitted = [
        one for one in CLOUD.types if all(own.admits(one.labels[key]) for key, own in parsed if key in one.labels)
    ]
    certain = [one for one in admitted if all(key in one.labels for key, _ in parsed)]
    facts = known(raw)
    named = tuple(pool for pool in facts.cluster.made if not pool.name.startswith("gpu (others"))
    assert {dict(pool.labels)[INSTANCE_TYPE] for pool in named} == {one.labels[INSTANCE_TYPE] for one in certain}
    models = {model for one in certain for model in models_of({INSTANCE_TYPE: one.labels[INSTANCE_TYPE]})}
    assert offered(named) <= models
    terms = {"nodeSelectorTerms": [{"matchExpressions": [strict(one) for one in wanted]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} if wanted else {}
    asks = pod_from_raw(pod(container(gpus=1), affinity=affinity))
    wants = [(one["key"], Requirement(one["operator"], one["values"])) for one in wanted]
    may_come = [one for one in certain if all(own.admits(one.labels.get(key)) for key, own in wants) and one.gpus]
    if any(one.resource == "nvidia.com/gpu" for one in may_come):
        assert facts.feasible_nodes(asks)


def strict(one: dict) -> dict:
    """The requirement as a pod writes it, whose operators have no inclusive bounds."""
    if one["operator"] not in ("Gte", "Lte"):
        return one
    is_least = one["operator"] == "Gte"
    bound = int(one["values"][0]) + (-1 if is_least else 1)
    return {**one, "operator": "Gt" if is_least else "Lt", "values": [str(bound)]}


def test_the_table_names_its_sources():
    table = machine_table()
    used = {word for groups in table["types"].values() for group in groups for word in group["source"].split(", ")}
    assert used <= table["sources"].keys()


@pytest.mark.parametrize("group", machine_table()["clouds"])
def test_the_table_of_gpus_knows_the_models_of_every_machine_type(group):
    found = {
        one.labels[INSTANCE_TYPE]: models_of({INSTANCE_TYPE: one.labels[INSTANCE_TYPE]})
        for one in cloud_of(group).types
    }
    assert [name for name, models in found.items() if not models] == []
    by_name = {
        one.labels[INSTANCE_TYPE]: models_of({cloud_of(group).name: one.labels.get(cloud_of(group).name) or ""})
        for one in cloud_of(group).types
    }
    assert [name for name in found if by_name[name] and not found[name] & by_name[name]] == []

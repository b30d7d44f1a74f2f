"""Pods and claims are refused where DRA can give them only GPUs that they may not use, and never in doubt."""

from typing import Any

from tests.build import policy
from tests.facts.samples import claim, device_class, node, resource_slice
from tests.golden import each
from tests.rules.gpu_type_samples import PRODUCT, refused, told
from tests.rules.samples import container, mutated, pod
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import EMPTY
from webhook.model.claims import CLAIM, TEMPLATE
from webhook.model.node import NodePool
from webhook.rules.gpu_types import RULE

H100, H200, T4 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "Tesla T4"
SMALL = {"allowed": ["T4", "L4"]}
GPU, CLASS = "gpu.nvidia.com", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
DRIVER = 'device.driver == "gpu.nvidia.com"'
ALL = [
    device_class(GPU, "nvidia.com/gpu", f"""{DRIVER} && device.attributes["gpu.nvidia.com"].type == "gpu\""""),
    device_class("any.example.com", selector=DRIVER),
    device_class("odd.example.com", selector="true"),
    device_class("h100.example.com", selector=f'device.attributes["{GPU}"].productName == "{H100}"'),
    device_class("nics.example.com", selector='device.driver == "dra.net"'),
]


def slices(*products: str, gpus: int = 8, **parts: Any) -> list[dict[str, Any]]:
    """One slice for each product, on the nodes n0, n1 and so on."""
    return [
        resource_slice(f"s{at}", f"n{at}", gpus=gpus, attributes={"productName": one} if one else {}, **parts)
        for at, one in enumerate(products)
    ]


def cluster(*products: str, nodes: Any = None, **objects: Any) -> ClusterFacts:
    """Nodes that offer eight GPUs of a product each, and a node without GPUs."""
    known = [node(f"n{at}") for at in range(len(products))] + [node("cpu")] if nodes is None else nodes
    return ClusterFacts.of(known, device_classes=ALL, **{"slices": slices(*products), **objects})


def template(*alternatives: str, numbers: tuple[int, ...] = (), **parts: Any) -> dict[str, Any]:
    raw = claim("t", TEMPLATE, GPU)
    numbers = numbers or (1,) * len(alternatives)
    first = [
        {"name": f"a{at}", "deviceClassName": one, "count": number, **parts}
        for at, (one, number) in enumerate(zip(alternatives, numbers, strict=True))
    ]
    raw["spec"]["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": first}]
    return raw


def claiming(**spec: Any) -> dict[str, Any]:
    raw = pod(container(resources={"claims": [{"name": "gpu"}]}), **spec)
    raw["metadata"]["namespace"] = "team"
    raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    return raw


def of_claim(raw: dict[str, Any], facts: ClusterFacts, values: dict[str, Any] = SMALL) -> list[str]:
    applied = {"apiVersion": "resource.k8s.io/v1", "kind": TEMPLATE, **raw}
    return [str(one) for one in engine.validate_claim(applied, "team", policy({"gpuTypes": values}), facts).findings]


POOL = NodePool("p", labels=((PRODUCT, "Tesla-T4"),), gpu_resources=frozenset({"nvidia.com/gpu"}))
H100_POOL = NodePool("p", labels=((PRODUCT, "NVIDIA-H100-80GB-HBM3"),), gpu_resources=frozenset({"nvidia.com/gpu"}))


@each(
    "requested, facts, values, name",
    {
        "all devices are of one model": (template(GPU), cluster(H100), SMALL, "can give only H100-80GB"),
        "of two models": (template(GPU), cluster(H100, H200), SMALL, "can give only H100-80GB or H200"),
        "denied": (template(GPU), cluster(H100), {"denied": ["H100"]}, "can give only H100-80GB"),
        "of any type": (template("any.example.com"), cluster(H100), SMALL, "can give only H100-80GB"),
        "the class says it": (template("h100.example.com"), cluster(), SMALL, "can give only H100-80GB"),
        "alternatives": (template(GPU, "h100.example.com"), cluster(H200), SMALL, "can give only H200 or H100-80GB"),
        "an alternative with more devices than any node has": (
            template(GPU, "any.example.com", numbers=(1, 9)),
            cluster(H100),
            SMALL,
            "can give only H100-80GB",
        ),
        "an alternative with more devices than the scheduler allocates": (
            template("h100.example.com", "odd.example.com", numbers=(1, 33)),
            cluster(H100),
            SMALL,
            "can give only H100-80GB",
        ),
        "devices of another driver do not matter": (
            template(GPU),
            cluster(H100, slices=[*slices(H100), resource_slice("amd", "n9", driver="gpu.amd.com", type="amdgpu")]),
            SMALL,
            "can give only H100-80GB",
        ),
        "no node is known": (template(GPU), cluster(H100, nodes=[]), SMALL, "can give only H100-80GB"),
        "a like pool": (template(GPU), cluster(H100).with_pools((H100_POOL,)), SMALL, "can give only H100-80GB"),
        "another node has T4": (template(GPU), cluster(H100, T4), SMALL, ""),
        "a device does not say its model": (template(GPU), cluster(H100, ""), SMALL, ""),
        "a device of an unknown model": (template(GPU), cluster(H100, "NVIDIA Next 1"), SMALL, ""),
        "a pool may bring T4": (template(GPU), cluster(H100).with_pools((POOL,)), SMALL, ""),
        "a node with T4 by its labels has no slice yet": (
            template(GPU),
            cluster(H100, nodes=[node("n0"), node("new", labels={PRODUCT: "Tesla-T4"})]),
            SMALL,
            "",
        ),
        "slices are missing": (template(GPU), cluster(H100, slices=slices(H100, pool_slices=2)), SMALL, ""),
        "devices of no single node": (
            template(GPU),
            cluster(H100, slices=[*slices(H100), resource_slice("all", "", allNodes=True)]),
            SMALL,
            "",
        ),
        "a class that nobody can read": (template("odd.example.com"), cluster(H100), SMALL, ""),
        "a class that does not exist": (template("missing.example.com"), cluster(H100), SMALL, ""),
        "no GPUs": (template("nics.example.com"), cluster(H100), SMALL, ""),
        "an alternative without GPUs": (template(GPU, "nics.example.com"), cluster(H100), SMALL, ""),
        "no device at the moment": (template(GPU), cluster(), SMALL, ""),
        "no slices are known": (template(GPU), ClusterFacts.of(device_classes=ALL), SMALL, ""),
        "for monitoring": (template(GPU, adminAccess=True), cluster(H100), SMALL, ""),
        "resources have other names": (template(GPU), cluster(H100), {"allowed": ["nvidia.com/*"]}, ""),
        "a profile is open": (template(GPU), cluster(H100), {"allowed": ["T4", "1g.10gb"]}, ""),
        "nothing is barred": (template(GPU), cluster(H100), {}, ""),
    },
)
def test_what_a_device_class_can_give_is_refused_with_its_claims_if_all_of_it_is_barred(
    requested: dict[str, Any], facts: ClusterFacts, values: dict[str, Any], name: str
) -> None:
    assert [name in one for one in of_claim(requested, facts, values)] == ([True] if name else [])
    cluster_with = ClusterFacts(facts.cluster.with_claims(TEMPLATE, [requested]), pools=facts.pools)
    messages = refused(claiming(), cluster_with, values)
    assert [f"ResourceClaimTemplate t {name}; the policy" in one for one in messages] == ([True] if name else [])


def test_the_refusal_says_what_the_claim_can_give_and_what_to_do(says) -> None:
    says(of_claim(template(GPU), cluster(H100)))


@each(
    "spec, found",
    {
        "the node of the H100": ({"nodeSelector": {"kubernetes.io/hostname": "n0"}}, True),
        "the node of the H100, by name": ({"nodeName": "n0"}, True),
        "the node of the T4": ({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, False),
        "any node": ({}, False),
        "the node of the H100, once it is released": (
            {"nodeSelector": {"kubernetes.io/hostname": "n0"}, "schedulingGates": [{"name": "later"}]},
            True,
        ),
    },
)
def test_a_pod_that_selects_nodes_gets_what_these_nodes_offer(spec: dict[str, Any], found: bool) -> None:
    nodes = [node(name, labels={"kubernetes.io/hostname": name}) for name in ("n0", "n1", "cpu")]
    facts = cluster(H100, T4, nodes=nodes, templates=[template(GPU)])
    assert bool(refused(claiming(**spec), facts, SMALL)) is found
    as_resource = pod(container(gpus=1, resource=CLASS), **spec)
    assert bool(refused(as_resource, facts, SMALL)) is found
    extended = pod(container(gpus=1), **spec)
    if not spec.get("nodeName"):
        assert bool(refused(extended, facts, SMALL)) is found


def test_nodes_that_offer_nothing_at_the_moment_leave_a_doubt() -> None:
    """A driver may be about to offer GPUs there."""
    term = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    for others, found in (((), True), (("cpu",), False)):
        nodes = [node(name, labels={"zone": name}) for name in ("n0", "n1", *others)]
        facts = cluster(H100, T4, nodes=nodes, templates=[template(GPU)])
        assert bool(refused(claiming(affinity=affinity), facts, SMALL)) is found


def test_a_driver_that_restarts_makes_no_pod_impossible() -> None:
    """Its slices go for a while, and its GPUs stay: nothing is certain of the others then."""
    nodes = [node("n0"), node("n1"), node("cpu")]
    h100, t4 = slices(H100, T4)
    away = EMPTY.with_nodes(nodes).with_classes("device_classes", ALL).with_slices([h100, t4]).without_slice(t4)
    away = away.with_claims(TEMPLATE, [template(GPU)])
    for snapshot in (away, away.with_nodes(nodes), away.with_node(node("n1", labels={"new": "label"}))):
        assert refused(claiming(), ClusterFacts(snapshot), SMALL) == []
        assert of_claim(template(GPU), ClusterFacts(snapshot)) == []
        only_t4 = claiming(nodeName="n1")
        assert refused(only_t4, ClusterFacts(snapshot), SMALL) == []


def test_a_class_as_a_resource_is_refused_if_it_can_give_only_what_is_barred(says) -> None:
    says(refused(pod(container(gpus=1, resource=CLASS)), cluster(H100), SMALL))
    unknown = pod(container(gpus=1, resource="deviceclass.resource.kubernetes.io/h100.example.com"))
    assert refused(unknown, cluster(), SMALL)
    assert refused(pod(container(gpus=1, resource=CLASS)), cluster(H100, T4), SMALL) == []


def test_the_extended_resource_of_a_class_is_refused_if_neither_plugins_nor_the_class_give_what_is_allowed(
    says,
) -> None:
    raw, t4 = pod(container(gpus=1)), node("t4", labels={PRODUCT: "Tesla-T4"}, capacity={"nvidia.com/gpu": "4"})
    h100 = node("h", labels={PRODUCT: "NVIDIA-H100-80GB-HBM3"}, capacity={"nvidia.com/gpu": "8"})
    says(refused(raw, cluster(H100), SMALL))
    assert refused(raw, cluster(H200, nodes=[node("n0"), h100]), SMALL)
    for facts in (cluster(T4, nodes=[node("n0"), h100]), cluster(H100, nodes=[node("n0"), t4])):
        assert told(mutated(RULE, raw, SMALL, facts), facts, SMALL) == []


def test_claims_by_name_are_judged_as_templates_are() -> None:
    raw = claim("c", CLAIM, GPU)
    by_name = pod(container(resources={"claims": [{"name": "gpu"}]}))
    by_name["metadata"]["namespace"] = "team"
    by_name["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
    (message,) = refused(by_name, cluster(H100, claims=[raw]), SMALL)
    assert message.startswith("spec.resourceClaims[gpu]: ResourceClaim c can give only H100-80GB; ")


def test_a_claim_cannot_hide_what_it_gives_behind_many_alternatives():
    """Each request has the eight alternatives that the API server allows, and differs in what it tolerates."""
    raw = template("h100.example.com")
    raw["spec"]["spec"]["devices"]["requests"] = [
        {
            "name": f"r{at}",
            "firstAvailable": [
                {"name": f"a{to}", "deviceClassName": "h100.example.com", "tolerations": [{"key": f"k{at}-{to}"}]}
                for to in range(8)
            ],
        }
        for at in range(5)
    ]
    facts = cluster(H100, T4, templates=[raw])
    (message,) = refused(claiming(), facts, SMALL)
    assert "ResourceClaimTemplate t has too many alternatives, so nobody can check which GPUs it gives" in message
    assert refused(claiming(), facts, {"memory": {"min": "16Gi"}}) == []

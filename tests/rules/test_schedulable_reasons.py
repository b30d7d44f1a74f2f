"""What is told of a pod that no node could run, word for word."""

from tests.rules.gpu_cluster import A100, MIG, POOL, PRODUCT, T4, TOLERANT, asking, gpu_node, told
from tests.rules.samples import container, each, pod, term, terms
from webhook.facts.facts import ClusterFacts


@each(
    "raw, message",
    {
        "a MIG profile that no node offers": (
            asking(1, "nvidia.com/mig-9g.90gb"),
            "spec.containers[trainer].resources: requests nvidia.com/mig-9g.90gb, which no node offers; nodes offer "
            "nvidia.com/gpu, nvidia.com/mig-1g.10gb and nvidia.com/mig-3g.40gb. "
            "Request what nodes offer, or tell the platform team.",
        ),
        "a vendor without nodes": (
            asking(1, "amd.com/gpu"),
            "spec.containers[trainer].resources: requests amd.com/gpu, which no node offers; nodes offer "
            "nvidia.com/gpu, nvidia.com/mig-1g.10gb and nvidia.com/mig-3g.40gb. "
            "Request what nodes offer, or tell the platform team.",
        ),
        "more GPUs than the largest node has": (
            asking(16),
            "spec.containers[trainer].resources: requests 16 nvidia.com/gpu; the largest node has 8. "
            "Request 8 or fewer in one pod, or tell the platform team.",
        ),
        "more memory than the largest node has, and less than the largest of those that have GPUs": (
            asking(1, resources={"memory": "2049Gi"}),
            "spec.containers[trainer].resources: requests 2049Gi of memory; the largest node with nvidia.com/gpu has "
            "1000Gi. Request 1000Gi or less in one pod, or tell the platform team.",
        ),
        "more cpu than the largest node has": (
            asking(1, resources={"cpu": "192500m"}),
            "spec.containers[trainer].resources: requests 192.5 cpu; the largest node with nvidia.com/gpu has 96. "
            "Request 96 or less in one pod, or tell the platform team.",
        ),
        "more of another extended resource": (
            asking(1, resources={"rdma/hca": 5}),
            "spec.containers[trainer].resources: requests 5 rdma/hca; the largest node with nvidia.com/gpu has 4. "
            "Request 4 or fewer in one pod, or tell the platform team.",
        ),
        "an extended resource that no node has": (
            asking(1, resources={"example.com/fpga": 1}),
            "spec.containers[trainer].resources: requests 1 example.com/fpga; no node offers any. "
            "Remove it, or tell the platform team.",
        ),
        "a product that no node has": (
            asking(1, nodeSelector={PRODUCT: "NVIDIA-A100-SXM-80GB"}),
            "spec.nodeSelector[nvidia.com/gpu.product]: no node has the value NVIDIA-A100-SXM-80GB; nodes have "
            "NVIDIA-A100-SXM4-80GB, NVIDIA-A100-SXM4-80GB-MIG-1g.10gb and Tesla-T4. "
            "Did you mean NVIDIA-A100-SXM4-80GB? Correct the value.",
        ),
        "a value that is like no other": (
            asking(1, nodeSelector={POOL: "gold"}),
            "spec.nodeSelector[example.com/pool]: no node has the value gold; nodes have serving, training and web. "
            "Choose what nodes have, or tell the platform team.",
        ),
        "an empty value": (
            asking(1, nodeSelector={POOL: ""}),
            'spec.nodeSelector[example.com/pool]: no node has the value ""; nodes have serving, training and web. '
            "Choose what nodes have, or tell the platform team.",
        ),
        "a label that no node has, and one that is like it": (
            asking(1, nodeSelector={"nvidia.com/gpu-product": T4}),
            "spec.nodeSelector[nvidia.com/gpu-product]: no node has this label; nodes have nvidia.com/gpu.product. "
            "Did you mean nvidia.com/gpu.product? Correct the key.",
        ),
        "a label that is like no other": (
            asking(1, nodeSelector={"zone": "b"}),
            "spec.nodeSelector[zone]: no node has this label; zone=b is wanted. Remove it, or tell the platform team.",
        ),
        "a required expression": (
            asking(1, affinity=terms(term((PRODUCT, "In", ["Tesla-V100", "tesla-t4"])))),
            "spec.affinity.nodeAffinity: no node meets nvidia.com/gpu.product In [Tesla-V100, tesla-t4]; nodes have "
            "NVIDIA-A100-SXM4-80GB, NVIDIA-A100-SXM4-80GB-MIG-1g.10gb and Tesla-T4. "
            "Did you mean Tesla-T4? Correct the value.",
        ),
        "one of several required expressions": (
            asking(1, affinity=terms(term((POOL, "NotIn", ["a"]), ("zone", "Exists", [])))),
            "spec.affinity.nodeAffinity: no node meets zone Exists; no node has that label. "
            "Remove it, or tell the platform team.",
        ),
        "several required terms": (
            asking(1, affinity=terms(term((PRODUCT, "In", ["H100"])), None, term(("zone", "In", ["a"])))),
            "spec.affinity.nodeAffinity: no node meets any of its 2 required terms: nvidia.com/gpu.product In [H100] "
            "and zone In [a]; nodes have NVIDIA-A100-SXM4-80GB, NVIDIA-A100-SXM4-80GB-MIG-1g.10gb and Tesla-T4. "
            "Choose what nodes have, or tell the platform team.",
        ),
        "several terms, of which one only fails as a whole": (
            asking(
                1,
                affinity=terms(
                    term((PRODUCT, "In", [T4]), (POOL, "In", ["web"])), term((PRODUCT, "In", [T4]), (POOL, "In", ["?"]))
                ),
            ),
            "spec.affinity.nodeAffinity: no node meets any of its 2 required terms: nvidia.com/gpu.product In "
            "[Tesla-T4] and example.com/pool In [web] and example.com/pool In [?]; nodes have serving, training and "
            "web. Choose what nodes have, or tell the platform team.",
        ),
        "a term that says nothing": (
            asking(1, affinity=terms({})),
            "spec.affinity.nodeAffinity: requires empty terms only; an empty term matches no node. "
            "Write an expression into one, or remove the affinity.",
        ),
    },
)
def test_what_no_node_has_is_named_with_what_nodes_have(raw, message):
    assert told(raw) == [message]


@each(
    "raw, message",
    {
        "GPUs and a product": (
            asking(4, nodeSelector={PRODUCT: T4}),
            "spec.containers[trainer].resources: requests 4 nvidia.com/gpu; the largest node with "
            "nvidia.com/gpu.product=Tesla-T4 has 1. Request 1 or fewer in one pod, or choose other nodes.",
        ),
        "GPUs and labels of nodes without any": (
            asking(1, nodeSelector={POOL: "web", "kubernetes.io/hostname": "plain"}),
            "spec.containers[trainer].resources: requests 1 nvidia.com/gpu; no node with kubernetes.io/hostname=plain "
            "offers any. Choose other nodes, or tell the platform team.",
        ),
        "GPUs and a required expression": (
            asking(8, affinity=terms(term((POOL, "NotIn", ["training"])))),
            "spec.containers[trainer].resources: requests 8 nvidia.com/gpu; the largest node with example.com/pool "
            "NotIn [training] has 1. Request 1 or fewer in one pod, or choose other nodes.",
        ),
        "GPUs and required terms": (
            asking(8, affinity=terms(term((POOL, "In", ["web"])), term((POOL, "In", ["serving"])))),
            "spec.containers[trainer].resources: requests 8 nvidia.com/gpu; the largest node with the labels of a "
            "required term has 1. Request 1 or fewer in one pod, or choose other nodes.",
        ),
        "memory and GPUs": (
            asking(1, MIG, {"memory": "501Gi"}),
            "spec.containers[trainer].resources: requests 501Gi of memory; the largest node with "
            "nvidia.com/mig-1g.10gb has 500Gi. Request 500Gi or less in one pod, or tell the platform team.",
        ),
        "GPUs of two kinds": (
            asking(1, MIG, {"nvidia.com/gpu": 1}),
            "spec.containers[trainer].resources: requests 1 nvidia.com/mig-1g.10gb; no node with nvidia.com/gpu offers "
            "any. Remove it, or tell the platform team.",
        ),
        "labels of different nodes": (
            asking(1, nodeSelector={PRODUCT: T4, POOL: "training", "kubernetes.io/hostname": "small"}),
            "spec: no node has example.com/pool=training and kubernetes.io/hostname=small together; some node has "
            "each. Change or remove one of them, or tell the platform team.",
        ),
        "expressions of different nodes": (
            asking(1, affinity=terms(term((PRODUCT, "In", [T4]), (POOL, "In", ["training"])))),
            "spec.affinity.nodeAffinity: no node has nvidia.com/gpu.product In [Tesla-T4] and example.com/pool In "
            "[training] together; some node has each. Change or remove one of them, or tell the platform team.",
        ),
    },
)
def test_what_only_fails_together_is_named_without_the_rest(raw, message):
    assert told(raw) == [message]


def test_amounts_of_two_nodes_that_no_node_has_together():
    facts = ClusterFacts.of(
        [gpu_node("a", A100, {"nvidia.com/gpu": "8"}, "100Gi"), gpu_node("b", A100, {"nvidia.com/gpu": "4"}, "500Gi")]
    )
    assert told(asking(8, resources={"memory": "300Gi"}, nodeSelector={PRODUCT: A100}), facts) == [
        "spec.containers[trainer].resources: requests 300Gi of memory and 8 nvidia.com/gpu; no node has all of that. "
        "Request less of one of them in one pod, or tell the platform team."
    ]


@each(
    "containers, init, message",
    {
        "the sum of containers": (
            [container("a", 5), container("b", 4)],
            [],
            "spec: requests 9 nvidia.com/gpu in all; the largest node has 8",
        ),
        "what runs before them is not added": ([container("a", 5)], [container("b", 4)], None),
        "a sidecar is": (
            [container("a", 5)],
            [container("b", 4, restartPolicy="Always")],
            "spec: requests 9 nvidia.com/gpu in all; the largest node has 8",
        ),
        "one container that asks for as much as all": (
            [container("a", 9), container("b", 0)],
            [container("c", 1)],
            "spec.containers[a].resources: requests 9 nvidia.com/gpu; the largest node has 8",
        ),
        "two, one after the other": (
            [container("a", 9)],
            [container("b", 9)],
            "spec: requests 9 nvidia.com/gpu in all; the largest node has 8",
        ),
        "an init container alone": (
            [container("a")],
            [container("b", 9)],
            "spec.initContainers[b].resources: requests 9 nvidia.com/gpu; the largest node has 8",
        ),
    },
)
def test_the_amount_is_what_the_scheduler_reserves(containers, init, message):
    found = told(pod(*containers, initContainers=init, **TOLERANT))
    assert [one.partition(". ")[0] for one in found] == ([message] if message else [])


def test_resources_of_the_pod_as_a_whole_are_told_there():
    raw = asking(1, resources={"memory": "1Gi"})
    raw["spec"]["resources"] = {"limits": {"memory": "3Ti"}, "requests": {"memory": "3Ti"}}
    (message,) = told(raw)
    assert message.startswith("spec.resources: requests 3Ti of memory; the largest node with nvidia.com/gpu has 1000Gi")


def test_a_node_by_name_is_shown_with_the_rest_of_its_term():
    by_name = {"key": "metadata.name", "operator": "NotIn", "values": ["small"]}
    required = {**term((POOL, "In", ["serving"])), "matchFields": [by_name]}
    (message,) = told(asking(1, affinity=terms(required)))
    assert message == (
        "spec.affinity.nodeAffinity: no node meets its required term: example.com/pool In [serving] and metadata.name "
        "NotIn [small]; a node has to meet all of it. Change or remove a part, or tell the platform team."
    )


def test_who_asks_for_gpus_where_there_are_slices_is_told_which():
    sliced = {"nvidia.com/gpu": "0", MIG: "7", "nvidia.com/mig-3g.40gb": "0"}
    facts = ClusterFacts.of([gpu_node("a", A100, sliced, "500Gi"), gpu_node("b", T4, {"nvidia.com/gpu": "1"}, "60Gi")])
    assert told(asking(1, nodeSelector={PRODUCT: A100}), facts) == [
        f"spec.containers[trainer].resources: requests 1 nvidia.com/gpu; nodes with {PRODUCT}={A100} offer {MIG}. "
        "Request what they offer, or choose other nodes."
    ]


def test_labels_that_every_node_has_are_unknown_where_none_is_known_to_have_them():
    assert told(asking(1, nodeSelector={"kubernetes.io/os": "linux"})) == []
    known = gpu_node("a", T4, {"nvidia.com/gpu": "1"}, "60Gi", **{"kubernetes.io/os": "linux"})
    (message,) = told(asking(1, nodeSelector={"kubernetes.io/os": "windows"}), ClusterFacts.of([known]))
    assert "no node has the value windows; nodes have linux." in message

"""GPUs that come by resource claims are completed and limited as others are."""

import pytest

from tests.golden import each
from tests.rules.samples import NOTHING_KNOWN, Cluster, container, is_left_alone, mutated, pod, settings_of
from webhook.model.claims import CLAIM, MOST_CLAIMS, TEMPLATE, TOO_LARGE, Devices
from webhook.model.pod_reader import pod_from_raw
from webhook.rules import gpu_limits, nccl_env, node_affinity, shared_memory

GPU, MIG, AMD, NIC = "gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "nic.vendor.io"
SHM, NCCL, AFFINITY, LIMITS = shared_memory.RULE, nccl_env.RULE, node_affinity.RULE, gpu_limits.RULE
ENV = {"env": {"NCCL_DEBUG": "WARN"}, "minGpus": 2}
POOL = {"required": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}


def using(*names, **parts):
    """A container that uses these claims of its pod."""
    return container(resources={"claims": [{"name": name} for name in names]}, **parts)


def claiming(*containers, **claims):
    """A pod with claims, each made from the template of its value."""
    named = [{"name": name, "resourceClaimTemplateName": template} for name, template in claims.items()]
    return pod(*containers, resourceClaims=named)


def knowing(**templates):
    return Cluster(claims={(TEMPLATE, name): requests for name, requests in templates.items()})


def one(device_class=GPU, number=1, **parts):
    return (Devices(device_class, number, **parts),)


def said(raw, values, facts):
    return [str(found) for found in LIMITS.validate(pod_from_raw(raw), settings_of(LIMITS, values), facts)]


@each(
    "requests, has_shm, has_env",
    {
        "one GPU": ((one(),), True, False),
        "two": ((one(number=2),), True, True),
        "two by two requests": ((one(), one()), True, True),
        "two slices": ((one(MIG, 2),), True, True),
        "another vendor": ((one(AMD, 4),), True, True),
        "all of a node": ((one(number=None),), True, True),
        "the alternative with most": ((one() + one(number=8),), True, True),
        "no GPU": ((one(NIC, 8),), False, False),
        "adminAccess": ((one(is_administrative=True, number=8),), False, False),
        "a request that nobody can read": (((),), False, False),
        "none": ((), False, False),
    },
)
def test_containers_that_use_a_claim_are_completed_by_what_it_brings(requests, has_shm, has_env):
    raw, facts = claiming(using("gpu"), container("side"), gpu="t"), knowing(t=requests)
    completed = mutated(SHM, raw, {}, facts)["spec"]["containers"]
    assert [bool(found.get("volumeMounts")) for found in completed] == [has_shm, False]
    completed = mutated(NCCL, raw, ENV, facts)["spec"]["containers"]
    assert [bool(found.get("env")) for found in completed] == [has_env, False]


@pytest.mark.parametrize("rule", [SHM, NCCL, AFFINITY], ids=lambda rule: rule.key)
def test_nothing_follows_from_a_claim_that_is_not_known(rule):
    values = {"sharedMemory": {}, "ncclEnv": ENV, "nodeAffinity": POOL}[rule.key]
    raw = claiming(using("gpu"), gpu="later")
    assert is_left_alone(rule, raw, values, knowing(t=(one(number=8),)))
    assert is_left_alone(rule, raw, values, NOTHING_KNOWN)


def test_gpus_by_number_and_by_claim_are_added_up():
    both = container(gpus=1, resources={"claims": [{"name": "gpu"}]})
    both["resources"]["limits"] = {"nvidia.com/gpu": 1}
    raw, facts = claiming(both, gpu="t"), knowing(t=(one(),))
    assert mutated(NCCL, raw, ENV, facts)["spec"]["containers"][0]["env"]
    assert is_left_alone(NCCL, raw, ENV, NOTHING_KNOWN)


@each(
    "requests, is_steered",
    {
        "a GPU": ((one(),), True),
        "a GPU, whichever alternative is taken": ((one() + one(AMD),), True),
        "a GPU or something else": ((one() + one(NIC),), False),
        "no GPU": ((one(NIC),), False),
    },
)
def test_only_pods_that_are_certain_to_get_a_gpu_are_kept_to_gpu_nodes(requests, is_steered):
    raw, facts = claiming(using("gpu"), gpu="t"), knowing(t=requests)
    assert ("affinity" in mutated(AFFINITY, raw, POOL, facts)["spec"]) == is_steered
    elsewhere = {**raw, "spec": {**raw["spec"], "nodeSelector": {"pool": "cpu"}}}
    found = list(AFFINITY.validate(pod_from_raw(elsewhere), settings_of(AFFINITY, POOL), facts))
    assert bool(found) == is_steered


@pytest.mark.parametrize(
    ("globs", "is_preferred"), [((), True), (("nvidia.com/*",), True), (("amd.com/*",), False)], ids=str
)
def test_preferences_are_for_the_gpus_that_are_claimed(globs, is_preferred):
    preference = {"key": "pool", "operator": "In", "values": ["gpu"], "weight": 1, "resources": globs}
    raw, facts = claiming(using("gpu"), gpu="t"), knowing(t=(one(),))
    assert is_left_alone(AFFINITY, raw, {"preferred": [preference]}, facts) != is_preferred


@each(
    "requests, found",
    {
        "as many as allowed": ((one(number=4),), ""),
        "one too many": ((one(number=5),), "requests 5 GPUs by resource claims"),
        "in two requests": ((one(number=2), one(number=3)), "requests 5 GPUs by resource claims"),
        "by an alternative": ((one(number=2) + one(number=8),), "requests 8 GPUs by resource claims"),
        "if there is no other": ((one(NIC, 8) + one(number=5),), "requests 5 GPUs by resource claims"),
        "2**62": ((one(number=2**62),), "requests 4611686018427387904 GPUs by resource claims"),
        "other devices": ((one(NIC, 8),), ""),
        "adminAccess": ((one(number=8, is_administrative=True),), ""),
    },
)
def test_claimed_gpus_count_against_the_maximum_of_a_pod(requests, found):
    raw, facts = claiming(using("gpu"), gpu="t"), knowing(t=requests)
    expected = f"spec.resourceClaims: {found}; the policy allows at most 4 per pod. Request 4 or fewer."
    assert said(raw, {"maxPerPod": 4}, facts) == [expected] * bool(found)


def test_claims_that_no_container_uses_are_reserved_all_the_same():
    raw, facts = claiming(container(), gpu="t"), knowing(t=(one(number=5),))
    assert len(said(raw, {"maxPerPod": 4}, facts)) == 1
    assert said(raw, {"maxPerContainer": 4}, facts) == []


def test_what_is_requested_by_number_is_added():
    raw, facts = claiming(container(gpus=3), gpu="t"), knowing(t=(one(number=2),))
    (found,) = said(raw, {"maxPerPod": 4}, facts)
    assert found.startswith("spec.resourceClaims: requests 5 GPUs, 2 of them by resource claims; ")
    (by_number,) = said(raw, {"maxPerPod": 2}, facts)
    assert by_number.startswith("spec: requests 3 GPUs; ")


def test_a_claim_that_several_containers_share_counts_once_for_the_pod_and_once_for_each_of_them():
    raw, facts = claiming(using("gpu", name="a"), using("gpu", name="b"), gpu="t"), knowing(t=(one(number=4),))
    assert said(raw, {"maxPerPod": 4, "maxPerContainer": 4}, facts) == []
    where = [found.partition(":")[0] for found in said(raw, {"maxPerContainer": 3}, facts)]
    assert where == ["spec.containers[a].resources.claims", "spec.containers[b].resources.claims"]


def naming(*requests):
    """A container that uses these requests of the claim of its pod."""
    return container(resources={"claims": [{"name": "gpu", "request": request} for request in requests]})


@each(
    "named, requests, found",
    {
        "the only one": (["a"], (one(number=5),), 5),
        "one of two, which may be the small one": (["a"], (one(number=1), one(number=8)), 0),
        "one of two large ones": (["a"], (one(number=5), one(number=8)), 5),
        "both": (["a", "b"], (one(number=3), one(number=3)), 6),
        "one twice": (["a", "a"], (one(number=3), one(number=3)), 0),
        "two alternatives of one": (["a/x", "a/y"], (one(number=3), one(number=3)), 0),
    },
)
def test_a_container_that_names_requests_of_a_claim_gets_what_the_smallest_have(named, requests, found):
    told = said(claiming(naming(*named), gpu="t"), {"maxPerContainer": 4}, knowing(t=requests))
    expected = f"spec.containers[trainer].resources.claims: requests {found} GPUs by resource claims; "
    assert [one.startswith(expected) for one in told] == [True] * bool(found)


def test_what_is_too_large_to_be_counted_is_refused_where_there_is_a_maximum(says):
    raw = claiming(using("gpu"), gpu="t")
    facts = knowing(t=TOO_LARGE)
    says(said(raw, {"maxPerPod": 4}, facts))
    assert said(raw, {}, facts) == []
    many = claiming(container(), **{f"c{number}": "t" for number in range(MOST_CLAIMS + 1)})
    assert said(many, {"maxPerPod": 4}, NOTHING_KNOWN) == [
        "spec.resourceClaims: has 129 resource claims; at most 128 are counted. Use fewer claims."
    ]
    last = claiming(container(), **{f"c{number}": "nic" for number in range(MOST_CLAIMS - 1)}, gpu="t")
    assert len(said(last, {"maxPerPod": 4}, knowing(nic=(one(NIC),), t=(one(number=5),)))) == 1


def test_nobody_knows_how_many_all_gpus_of_a_node_are(says):
    raw, facts = claiming(using("gpu"), gpu="t"), knowing(t=(one(number=None),))
    says(said(raw, {"maxPerPod": 4}, facts))


def knowing_slices(requests, most=8):
    """A cluster with the template `t`, whose nodes offer at most so many GPUs and four slices each."""
    return Cluster(claims={(TEMPLATE, "t"): requests}, most={GPU: most, MIG: 4})


ALL = (one(number=None),)


@each(
    "requests, most, told",
    {
        "no node has more than allowed": (ALL, 4, ""),
        "a node has more": (ALL, 8, "up to 8, "),
        "more than the scheduler allocates": (ALL, 40, "up to 32, "),
        "and one more": ((*ALL, one(number=1)), 4, "up to 5, "),
        "another class, or fewer": ((one(MIG, None) + one(number=3),), 8, ""),
        "the alternative with most": ((one(number=None) + one(MIG, None),), 6, "up to 6, "),
        "no node has any yet": (ALL, 0, ""),
    },
)
def test_all_gpus_of_a_node_are_as_many_as_the_slices_of_one_node_have(requests, most, told):
    raw, facts = claiming(using("gpu"), gpu="t"), knowing_slices(requests, most)
    place = {"maxPerPod": "spec.resourceClaims", "maxPerContainer": "spec.containers[trainer].resources.claims"}
    for maximum, where in place.items():
        found = said(raw, {maximum: 4}, facts)
        if most and not told:
            assert found == []
        else:
            many = f", {told}" if told else " "
            assert len(found) == 1
            assert found[0].startswith(f"{where}: requests all GPUs of a node{many}by resource claims; the policy")


@pytest.mark.parametrize(("most", "is_completed"), [(1, False), (2, True), (0, True)])
def test_containers_are_completed_for_all_gpus_where_a_node_may_have_enough(most, is_completed):
    raw, facts = claiming(using("gpu"), gpu="t"), knowing_slices(ALL, most)
    assert is_left_alone(SHM, raw, {"minGpus": 2}, facts) != is_completed
    assert is_left_alone(NCCL, raw, ENV, facts) != is_completed


def test_a_request_for_all_gpus_of_a_node_counts_as_one_and_hides_no_others():
    raw = claiming(using("gpu"), gpu="t")
    for requests, number in (((one(number=None), one(number=5)), 6), ((one(number=None) + one(number=5),), 5)):
        (found,) = said(raw, {"maxPerPod": 4}, knowing(t=requests))
        assert found.startswith(f"spec.resourceClaims: requests {number} GPUs by resource claims; ")
    (found,) = said(raw, {"maxPerContainer": 0}, knowing(t=(one(number=None),)))
    assert found.endswith(
        "requests 1 GPU by resource claims; the policy allows none for a container. Remove the claim."
    )


def test_where_gpus_are_not_enabled_a_claim_for_them_is_refused(says):
    raw, facts = claiming(using("gpu"), gpu="t"), knowing(t=(one(),))
    says(said(raw, {"maxPerPod": 0}, facts))


def test_a_claim_that_a_pod_names_itself_counts():
    raw = pod(using("gpu"), resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    facts = Cluster(claims={(CLAIM, "shared"): (one(number=5),)})
    assert len(said(raw, {"maxPerPod": 4}, facts)) == 1


@pytest.mark.parametrize("written", ["gpu", 7, [7], [{"name": 7}], [{}], {"name": "gpu"}, [None]], ids=str)
def test_claims_of_containers_that_make_no_sense_bring_nothing(written):
    raw = claiming(container(resources={"claims": written}), gpu="t")
    assert is_left_alone(SHM, raw, {}, knowing(t=(one(number=8),)))

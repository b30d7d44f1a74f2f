"""Replicas on GPUs do not all stand on one node."""

import pytest
from hypothesis import strategies as st

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods
from tests.rules.samples import NOTHING_KNOWN, Cluster, container, is_left_alone, mutated, pod, settings_of
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.replica_spread import RULE

PREFERRED = {"inject": "preferred"}
LABELS = {"app": "chat", "pod-template-hash": "6f7d8c"}
ZONES = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}


def replica(*, labels=LABELS, owner="ReplicaSet", gpus=1, **spec):
    raw = pod(container(gpus=gpus), **spec)
    raw["metadata"] = {"generateName": "chat-", "labels": labels}
    if owner:
        raw["metadata"]["ownerReferences"] = [{"kind": owner, "name": "chat", "controller": True}]
    return raw


def said(raw, values=None, replicas=2, facts=NOTHING_KNOWN):
    settings = settings_of(RULE, values or {})
    return [str(value) for value in RULE.validate_replicas(pod_from_raw(raw), replicas, settings, facts)]


def test_replicas_that_nothing_keeps_apart_are_told(says):
    says(said(replica()))


def test_scaling_makes_no_other_message_because_an_update_tells_what_is_new():
    assert said(replica(), replicas=2) == said(replica(), replicas=30)


QUIET = [
    pytest.param(replica(topologySpreadConstraints=[ZONES]), id="a spread, over whatever"),
    pytest.param(replica(affinity={"podAntiAffinity": APART}), id="pod anti-affinity"),
    pytest.param(replica(gpus=None), id="no GPU"),
    pytest.param(replica(gpus=0), id="zero GPUs"),
    pytest.param(replica(owner="StatefulSet"), id="a StatefulSet"),
    pytest.param(replica(owner="Job"), id="a Job"),
    pytest.param(replica(owner=""), id="by itself"),
    pytest.param(replica(nodeName="a"), id="on a node by name"),
    pytest.param(replica(nodeSelector={"kubernetes.io/hostname": "a"}), id="on a node by its host name"),
]


@pytest.mark.parametrize("raw", QUIET)
def test_other_pods_are_left_alone(raw):
    assert said(raw) == []
    assert is_left_alone(RULE, raw, PREFERRED)


@each(
    "raw",
    {
        "nothing": replica(),
        "an empty list": replica(topologySpreadConstraints=[]),
        "an empty anti-affinity": replica(affinity={"podAntiAffinity": {}}),
        "an anti-affinity without terms": replica(
            affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
        ),
        "affinity, which brings them together": replica(affinity={"podAffinity": APART}),
        "a node selector that many nodes fit": replica(nodeSelector={"pool": "gpu"}),
    },
)
def test_replicas_that_say_nothing_are_spread_where_the_policy_says_so(raw):
    assert mutated(RULE, raw, PREFERRED)["spec"]["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "chat"}},
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]
    assert len(said(raw)) == 1
    assert said(raw, PREFERRED) == []


@pytest.mark.parametrize("label", ["karpenter.sh/nodepool", "karpenter.sh/provisioner-name"])
def test_where_karpenter_makes_nodes_replicas_are_spread_only_if_the_policy_insists(label):
    """Karpenter takes the preference for a requirement, and makes one node for each pod."""
    facts = Cluster(labels={label: ["gpu"]})
    assert is_left_alone(RULE, replica(), PREFERRED, facts)
    assert len(said(replica(), PREFERRED, facts=facts)) == 1
    insisting = {"inject": "always"}
    assert mutated(RULE, replica(), insisting, facts)["spec"]["topologySpreadConstraints"]
    assert said(replica(), insisting, facts=facts) == []


def test_the_revision_of_a_rollout_is_a_label_like_any_other():
    labels = {"app": "chat", "rollouts-pod-template-hash": "7c9"}
    (spread,) = mutated(RULE, replica(labels=labels), PREFERRED)["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels


@pytest.mark.parametrize("labels", [None, {}, {"pod-template-hash": "6f7d8c"}, {"app": None}], ids=str)
def test_pods_that_share_no_label_are_not_spread(labels):
    """A selector without labels would count every pod of the namespace."""
    assert is_left_alone(RULE, replica(labels=labels), PREFERRED)


def _replica(raw):
    owner = {**raw["metadata"]["ownerReferences"][0], "apiVersion": "apps/v1", "kind": "ReplicaSet"}
    labels = {**raw["metadata"]["labels"], "pod-template-hash": "6f6f9d1a"}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner], "labels": labels}}


CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=_replica(raw), breaks=_replica(raw), judging={"inject": "none"}),
    values=st.fixed_dictionaries({"inject": st.sampled_from(("preferred", "preferred", "none"))}),
    enforced={"inject": "preferred"},
    injecting={"inject": "preferred"},
    fuzzed={"inject": "preferred"},
)

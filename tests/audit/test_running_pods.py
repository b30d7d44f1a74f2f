"""Pods that a cluster has are reviewed as what they are: they count against their quotas once."""

from typing import Any

from tests.ledger.small_cluster import seen_pod
from tests.reviews import NAMESPACE, against, pod, policy
from webhook.audit.documents import Document
from webhook.audit.simulate import review
from webhook.ledger.book import uid_text
from webhook.ledger.store import SeenPod
from webhook.policy.policy_set import PolicySet

FOUR = PolicySet.of(policy({}), {NAMESPACE: policy({"gpuQuota": {"gpus": 4}}, name=NAMESPACE)})


def as_printed(seen: SeenPod, gpus: int) -> dict[str, Any]:
    """The pod as `kubectl get pods -o yaml` prints it."""
    raw = pod(gpus, name=seen.name)
    return {**raw, "metadata": {**raw["metadata"], "uid": uid_text(seen.uid)}}


def test_pods_that_run_are_not_refused_because_of_themselves() -> None:
    running = [seen_pod(1, NAMESPACE, 2), seen_pod(2, NAMESPACE, 2)]
    objects = [*(as_printed(seen, 2) for seen in running), pod(1, name="another")]
    documents = [Document("f", number, number, raw) for number, raw in enumerate(objects, start=1)]
    items = review(documents, "default", against(FOUR, pods=running)).items
    assert [item.is_allowed for item in items] == [True, True, False]

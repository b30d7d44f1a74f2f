"""What ledgers ask of pods, about one of them."""

from webhook.ledger.ledger_store import Pods


def is_live(pods: Pods, uid: bytes) -> bool:
    """Whether a pod counted when it was last reported."""
    return uid in pods.live_among({uid})


def is_gone(pods: Pods, uid: bytes) -> bool:
    """Whether a pod is known to have been stored once and not to count any more."""
    return uid in pods.gone_among({uid})

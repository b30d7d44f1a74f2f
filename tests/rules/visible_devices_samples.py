"""What tests of `visibleDevices` have in common."""

from tests.rules.samples import Cluster, settings_of
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Advice
from webhook.rules.visible_devices import RULE

VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
IMAGES_MAY = {"images": "allow"}
"""Settings for what the rule says besides: images may set the variable."""
PRIVILEGED = {"securityContext": {"privileged": True}}


def device(path):
    return {"name": "dev", "hostPath": {"path": path}}


def told(raw, values=None, facts=None):
    """What is only warned of."""
    found = RULE.validate(pod_from_raw(raw), settings_of(RULE, values or {}), facts or Cluster())
    return [str(one) for one in found if isinstance(one, Advice)]

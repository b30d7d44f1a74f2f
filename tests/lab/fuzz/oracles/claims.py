"""Oracle of the rule about resource claims."""

from tests.lab.fuzz.cluster import TEMPLATES
from tests.lab.fuzz.raw import amount, at, containers, maps
from tests.lab.fuzz.seen import Complaints, Seen, exactly

_AS_RESOURCES = "deviceclass.resource.kubernetes.io/"
_REQUESTS = {one["metadata"]["name"]: one["spec"]["spec"]["devices"]["requests"] for one in TEMPLATES}


def resource_claims(seen: Seen) -> Complaints:
    """Whoever claims devices of classes that are denied, or administers them where nobody may, is refused."""
    named = [one.get("resourceClaimTemplateName") for one in maps(seen.after, "spec", "resourceClaims")]
    requests = [request for name in named if isinstance(name, str) for request in _REQUESTS.get(name, ())]
    written = [one for request in requests for one in request.get("firstAvailable") or [request["exactly"]]]
    classes = {one["deviceClassName"] for one in written}
    for _, container in containers(seen.after):
        wanted = {**(at(container, "resources", "limits") or {}), **(at(container, "resources", "requests") or {})}
        classes |= {
            name.removeprefix(_AS_RESOURCES)
            for name, value in wanted.items()
            if name.startswith(_AS_RESOURCES) and (amount(value) or 0) > 0
        }
    administers = any(one.get("adminAccess") for one in written)
    may_administer = bool(seen.settings["resourceClaims"]["adminAccess"])
    is_denied = any(name.endswith(".example.com") for name in classes)
    refused = bool(seen.violations("resourceClaims"))
    yield from exactly(refused, is_denied or (administers and not may_administer), f"refused for claims of {classes}")

"""GPUs that a pod will have by its resource claims (DRA), as far as that is certain. How many they are is not asked."""

from collections.abc import Sequence

from webhook.model.claims import DeviceRequest, claims_of, names_of_gpus
from webhook.model.pod import Pod
from webhook.rules.names import ResourceGlobs, is_one_of
from webhook.rules.rule import Facts

Alternatives = Sequence[tuple[str, ...]]
"""A request that can be satisfied with GPUs only: for each device that may be taken, the resource names of its GPUs."""


def claimed_gpus(pod: Pod, facts: Facts) -> list[Alternatives]:
    """The requests of the pod's claims that are certain to be GPUs. Without them the pod never starts.

    Left out are claims that are not known, requests of which some alternative is no GPU or one that nobody knows, and
    administrative access, which reserves no device.
    """
    requests: dict[DeviceRequest, None] = {}
    for named in claims_of(pod.resource_claims):
        requests.update(dict.fromkeys(facts.claim(named, pod.namespace) or ()))
    found = (_alternatives(request, pod, facts) for request in requests)
    return [alternatives for alternatives in found if alternatives]


def all_are_of(alternatives: Alternatives, globs: ResourceGlobs) -> bool:
    """Whether the GPU is of one of these names, whichever alternative is taken; without any glob, whatever GPU."""
    return not globs or all(any(is_one_of(name, globs) for name in names) for names in alternatives)


def _alternatives(request: DeviceRequest, pod: Pod, facts: Facts) -> Alternatives:
    found = []
    for devices in request:
        extended = facts.extended_resource(devices.device_class)
        names = names_of_gpus(devices.device_class, extended, pod.known)
        if not names or devices.is_administrative:
            return ()
        found.append(names)
    return found

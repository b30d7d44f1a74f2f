"""The pods of a cluster for which exceptions hold, so that the claims that were made for them are judged alike.

A stored claim does not say who made it. So its owner reference decides, together with the uid of the pod: in an audit,
a claim of somebody who wrote a reference to an excepted pod counts as made for the pod.
"""

from collections.abc import Mapping
from typing import Any

from webhook.facts.stored_claims import is_for_extended_resources
from webhook.model.claim_owner import claim_owner, subject_for_pod, template_claims
from webhook.model.claims import CLAIM
from webhook.model.json_parts import mapped, part
from webhook.model.subject import PodSubject, subject_of


class ExceptedPods:
    """What exceptions are compared with for the pods that were learned, by namespace, name and uid."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[PodSubject, frozenset[str]]] = {}

    def learn(self, namespace: str, pod: Mapping[str, Any], subject: PodSubject) -> None:
        """Remember a pod that has claims from templates, or one for extended resources: of most clusters, few."""
        names, metadata = template_claims(pod), mapped(pod, "metadata")
        name, uid = metadata.get("name"), metadata.get("uid")
        owns = names or part(pod, "status", "extendedResourceClaimStatus") is not None
        if isinstance(name, str) and isinstance(uid, str) and owns:
            self._known[namespace, name, uid] = subject, names

    def subject_of(self, namespace: str, raw: Mapping[str, Any], kind: str) -> PodSubject:
        """What exceptions are compared with for an object: for a claim of a pod that was learned, the pod as well."""
        owner = claim_owner(raw) if kind == CLAIM else None
        found = None if owner is None else self._known.get((namespace, owner.name, owner.uid))
        if owner is None or found is None:
            return subject_of(raw, kind)
        pod, names = found
        is_made = owner.claim in names if owner.claim else is_for_extended_resources(raw)
        return subject_for_pod(raw, pod) if is_made else subject_of(raw, kind)

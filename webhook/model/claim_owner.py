"""The pod that Kubernetes makes a resource claim for, and what exceptions are compared with for the claim.

Whoever may create claims may write any owner and any annotation; so what is said here holds only for claims whose maker
is known. Sources: pkg/controller/resourceclaim/controller.go of Kubernetes, for claims from templates, and
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go, for claims for extended resources.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.model.claims import CLAIM
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod_reader import controller_of
from webhook.model.subject import PodSubject, subject_of

CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that Kubernetes made from a template: its name in the pod that owns it."""


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """The pod that controls a claim, by name and uid. `claim` is the name that the pod has for a claim from a template;
    empty for a claim for extended resources.
    """

    name: str
    uid: str
    claim: str = ""

    def is_of(self, pod: Mapping[str, Any]) -> bool:
        metadata = mapped(pod, "metadata")
        if (metadata.get("name"), metadata.get("uid")) != (self.name, self.uid):
            return False
        return not self.claim or self.claim in template_claims(pod)


def template_claims(pod: Mapping[str, Any]) -> frozenset[str]:
    """The names that a pod has for its claims from templates."""
    claims = [one for one in listed(pod, "spec", "resourceClaims") if part(one, "resourceClaimTemplateName")]
    return frozenset(name for one in claims if isinstance(name := part(one, "name"), str))


def claim_owner(claim: Mapping[str, Any]) -> ClaimOwner | None:
    """The pod that controls a claim, as the claim says; None for claims without such a pod, as those of PodGroups."""
    owner, name = mapped(controller_of(claim)), mapped(claim, "metadata", "annotations").get(CLAIM_NAME)
    if (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
        return None
    found = ClaimOwner(*(one if isinstance(one, str) else "" for one in (owner.get("name"), owner.get("uid"), name)))
    return found if found.name and found.uid else None


def subject_for_pod(claim: Mapping[str, Any], pod: PodSubject) -> PodSubject:
    """What exceptions are compared with for a claim that was made for a pod: the pod, and the claim itself."""
    own = subject_of(claim, CLAIM)
    members = tuple(dict.fromkeys((*pod.members, *own.members)))
    return replace(pod, members=members, labels={**own.labels, **pod.labels})

"""What the webhook would answer for an object: both phases, one after the other, as the API server runs them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from webhook import engine
from webhook.audit.documents import Document, DocumentError
from webhook.engine import quotas
from webhook.ledger.book import uid_bytes
from webhook.ledger.ledgers import Ledgers
from webhook.model.shape import ShapeError
from webhook.model.workload import template_path
from webhook.outcome import Finding, Kind, printable
from webhook.policy.policy_set import PolicySet
from webhook.rules.rule import Facts

_LEDGER_SECONDS = 30.0
"""How long the pods that a quota counts may take to be listed."""


@dataclass(frozen=True, slots=True)
class Item:
    """One reviewed object. `policy` is empty for kinds that no rule concerns; `result` is the object after `patch`."""

    document: Document
    namespace: str
    name: str
    policy: str
    findings: tuple[Finding, ...]
    patch: tuple[Mapping[str, Any], ...]
    result: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What people call the object: kind, namespace and name."""
        place = f"{self.namespace}/" if self.namespace else ""
        return printable(f"{self.document.kind} {place}{self.name}")

    @property
    def is_allowed(self) -> bool:
        """Whether nothing refuses the object, or the pods it would make."""
        return not any(finding.refuses for finding in self.findings)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """What the object violates, in every mode."""
        return tuple(f for f in self.findings if f.kind in (Kind.VIOLATION, Kind.MISSING))

    @property
    def warnings(self) -> Sequence[str]:
        """What a user would be told by kubectl."""
        return tuple(dict.fromkeys(finding.warning for finding in self.findings if finding.warns))


@dataclass(frozen=True, slots=True)
class ReviewList:
    """Everything that was reviewed and everything that could not be read."""

    items: tuple[Item, ...]
    errors: tuple[DocumentError, ...]

    @property
    def exit_status(self) -> int:
        """0 all allowed, 1 something refused, 2 unusable input, which beats 1."""
        if self.errors:
            return 2
        return 0 if all(item.is_allowed for item in self.items) else 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What objects are reviewed against. The pods among them are entered in `ledgers` one after the other, so that
    the last ones are refused where all together pass a quota.
    """

    policies: PolicySet
    facts: Facts
    ledgers: Ledgers


def review(documents: Sequence[Document | DocumentError], namespace: str, surroundings: Surroundings) -> ReviewList:
    """Review every document; objects without a namespace of their own are taken to be in `namespace`."""
    items: list[Item] = []
    errors: list[DocumentError] = []
    for document in documents:
        if isinstance(document, DocumentError):
            errors.append(document)
            continue
        try:
            items.append(_review(document, namespace, surroundings))
        except ShapeError as error:
            errors.append(document.error(str(error)))
    return ReviewList(tuple(items), tuple(errors))


def _review(document: Document, namespace: str, surroundings: Surroundings) -> Item:
    policies, facts = surroundings.policies, surroundings.facts
    raw = document.object
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    path = template_path(document.api_version, document.kind)
    if path is None:
        return Item(document, str(metadata.get("namespace") or ""), name, "", (), (), raw)
    namespace = str(metadata.get("namespace") or namespace)
    policy, bound = policies.for_namespace(namespace), policies.quotas_for(namespace)
    if path:
        outcome = engine.check_template(raw, path, policy, facts)
        if outcome.refusals:
            return Item(document, namespace, name, policy.name, outcome.findings, (), raw)
        template = partial(engine.completed_template, raw, path, policy, facts)
        findings = (*outcome.findings, *quotas.workload_findings(raw, path, namespace, bound, template))
        return Item(document, namespace, name, policy.name, findings, outcome.patch, outcome.object)
    completed = engine.complete(raw, policy, facts)
    findings = completed.findings
    if not completed.refusals:
        judged = quotas.reserved(
            engine.judge(completed.object, policy, facts),
            namespace,
            bound,
            lambda claims: surroundings.ledgers.reserve(_uid(metadata), claims, time.monotonic() + _LEDGER_SECONDS),
            surroundings.ledgers.means.pods.seen,
        )
        findings = tuple(dict.fromkeys((*findings, *judged.findings)))
    return Item(document, namespace, name, policy.name, findings, completed.patch, completed.object)


def _uid(metadata: Mapping[str, Any]) -> bytes:
    """Under which a pod is counted: one that is taken from a cluster is counted there, and not a second time."""
    try:
        return uid_bytes(str(metadata.get("uid")))
    except ValueError:
        return uuid4().bytes

"""What becomes of an example: the engine is asked, with nothing but the example's rule, in a cluster of three nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import yaml

from webhook.audit.documents import Document, read_text
from webhook.audit.review_objects import Item, ReviewContext, injected, look
from webhook.engine import Foreseen, check_workload
from webhook.facts.inventory import Inventory, read_inventory
from webhook.facts.static_pods import StaticPods
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.memory_store import MemoryStore
from webhook.model.edits import apply
from webhook.outcome import Finding, Outcome
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION, DEFAULT_FILE
from webhook.rules.rule import Example, Rule
from webhook.rules_page.as_yaml import in_one_line
from webhook.rules_page.yaml_additions import additions

_SOURCE = "example.yaml"
_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """What became of an example under a line of a policy.

    `webhook` is the one that refused it, empty for none. `added` is what the rule added to the pod, or to those of each
    template of a workload.
    """

    line: str
    findings: tuple[Finding, ...]
    webhook: str
    refusal: str
    warnings: tuple[str, ...]
    added: tuple[Mapping[str, Any], ...]
    is_workload: bool


def try_out(rule: Rule, example: Example) -> ExampleTrial:
    """Judge an example. Raises PolicyErrors for mistakes in its settings, ValueError for those in what is applied."""
    line = f"{rule.key}: {in_one_line({'mode': str(example.mode), **example.settings})}"
    surroundings = ReviewContext(_policies(rule, line), cluster().snapshot, _ledgers(example))
    item = look(_document(example), _NAMESPACE, surroundings)
    outcome = item.outcome or _of_workload(item, surroundings)
    refusals = outcome.refusals
    return ExampleTrial(
        line=line,
        findings=outcome.findings,
        webhook=_refusing(item, refusals) if refusals else "",
        refusal=outcome.refusal,
        warnings=outcome.warnings,
        added=() if refusals else _added(item),
        is_workload=item.outcome is None,
    )


def _policies(rule: Rule, line: str) -> PolicySet:
    """The policies of one line, read as those of a directory are. Raises PolicyErrors."""
    head = f"apiVersion: {API_VERSION}\nkind: GPUPolicy\nmetadata: {{name: {Path(DEFAULT_FILE).stem}}}\n"
    text = f"{head}spec:\n  rules:\n    {line}\n"
    return build(contents_of(Path(_SOURCE), {DEFAULT_FILE: text.encode()}), [rule])


@cache
def cluster() -> Inventory:
    """The cluster in which examples are judged."""
    with as_file(files(__package__) / "cluster.yaml") as path:
        return read_inventory(path)


def _ledgers(example: Example) -> Ledgers:
    pods = StaticPods(yaml.safe_load_all(example.beside))
    if pods.unreadable:
        raise ValueError("beside: holds pods that Kubernetes would refuse")
    return Ledgers(LedgerContext(MemoryStore(), pods))


def _document(example: Example) -> Document:
    (document,) = read_text(example.manifest, _SOURCE)
    if isinstance(document, Document):
        return document
    raise ValueError(str(document))


def _of_workload(item: Item, surroundings: ReviewContext) -> Outcome:
    """What whoever applies a workload hears."""
    if item.policy is None:
        raise ValueError(f"{item.title}: makes no pods")
    quotas = surroundings.policies.quotas_for(item.namespace)
    return check_workload(item.document.object, item.namespace, item.policy, surroundings.facts, quotas)


def _refusing(item: Item, refusals: Sequence[Finding]) -> str:
    """The webhook that refuses: what the API server would refuse on its own never reaches the validating one."""
    if item.outcome is None:
        return "workloads.gpupolicy.dev"
    return "mutate.gpupolicy.dev" if any(one.fails_validation for one in refusals) else "validate.gpupolicy.dev"


def _added(item: Item) -> tuple[Mapping[str, Any], ...]:
    """What is new in the pods' specs; annotations tell of it, and are left out."""
    if item.outcome is not None:
        pairs = [(item.document.object, item.outcome.object)]
    else:
        pairs = [(one.template.pod, _completed(one)) for one in item.pods]
    added = (additions({"spec": before["spec"]}, {"spec": after["spec"]}) for before, after in pairs)
    return tuple(one for one in added if one)


def _completed(pods: Foreseen) -> Mapping[str, Any]:
    edits = (edit for injection in injected(pods) for edit in injection.edits)
    return apply(pods.template.pod, edits).object

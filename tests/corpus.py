"""The manifests of `tests/manifests/`, the verdicts that are expected of them, and those that the engine gives."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests import quick_yaml
from webhook.audit.documents import Document, DocumentError, read_all
from webhook.audit.review_objects import ReviewContext, ReviewedObject, injected, review
from webhook.engine import TemplateOutcome
from webhook.facts.facts import ClusterFacts
from webhook.ledger.context import LedgerContext
from webhook.ledger.inventory import read_inventory
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.static_pods import StaticPods
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import Template, is_pod, templates_of
from webhook.policy.policy_set import PolicySet
from webhook.rules import RULES

FOLDER = Path(__file__).parent / "manifests"
CLUSTERS = ("t4", "l4", "a100", "h100", "h200", "b200", "mixed")
_KEYS = {"why", "gpus", "refused", "warned", "injected", "where", "says", "unreadable"}
_LISTS = ("refused", "warned", "injected")


class Verdict(NamedTuple):
    """What becomes of a manifest on one cluster: the rules that refuse it, warn of it and complete its pods."""

    refused: frozenset[str]
    warned: frozenset[str]
    injected: frozenset[str]


@dataclass(frozen=True)
class Manifest:
    """One file and what is expected of it: GPUs of each of its pod templates, and a verdict for each cluster."""

    path: Path
    gpus: tuple[int, ...]
    verdicts: Mapping[str, Verdict]
    says: tuple[str, ...]
    is_unreadable: bool

    @property
    def name(self) -> str:
        """Its folder and file."""
        return str(self.path.relative_to(FOLDER))

    def documents(self) -> list[Document | DocumentError]:
        """What stands in the file, as audits read it."""
        return list(read_all([str(self.path)], io.BytesIO(), lambda _: None))

    def templates(self) -> Iterator[Template]:
        """Its pods and pod templates, those of pods with the pod as it is."""
        for document in self.documents():
            if isinstance(document, DocumentError):
                continue
            if is_pod(document.api_version, document.kind):
                yield Template(document.object, "spec")
            else:
                yield from templates_of(document.object)


@dataclass(frozen=True)
class Judged:
    """What the engine says of a manifest on one cluster."""

    verdict: Verdict
    gpus: tuple[int, ...]
    said: tuple[str, ...]
    errors: tuple[str, ...]


def judged(manifest: Manifest, cluster: str | ClusterFacts, policies: PolicySet) -> Judged:
    """The audit of one file."""
    facts = cluster if isinstance(cluster, ClusterFacts) else facts_of(cluster)
    surroundings = ReviewContext(policies, facts, Ledgers(LedgerContext(MemoryStore(), StaticPods())))
    reviewed = review(manifest.documents(), "default", surroundings)
    findings = [finding for item in reviewed.items for finding in item.findings]
    verdict = Verdict(
        refused=frozenset(finding.rule for finding in findings if finding.refuses),
        warned=frozenset(finding.rule for finding in findings if finding.warns),
        injected=frozenset(rule for item in reviewed.items for rule in _injected(item)),
    )
    gpus = tuple(number for item in reviewed.items for number in _gpus(item) if number)
    return Judged(verdict, gpus, tuple(map(str, findings)), tuple(error.message for error in reviewed.errors))


def _injected(item: ReviewedObject) -> Iterator[str]:
    if item.outcome is not None:
        yield from item.outcome.injected if item.is_allowed else ()
    for pods in item.pods:
        yield from (injection.rule for injection in injected(pods))


def _gpus(item: ReviewedObject) -> Iterator[int]:
    if item.outcome is not None:
        yield pod_from_raw(item.outcome.object).gpu_count
    pods: Sequence[TemplateOutcome] = item.pods
    yield from (one.gpus for one in pods)


@cache
def facts_of(cluster: str) -> ClusterFacts:
    """What the policy engine knows of one of the clusters."""
    return read_inventory(FOLDER / "clusters" / f"{cluster}.yaml").facts


def read_corpus() -> list[Manifest]:
    """Every manifest with its verdicts; AssertionError with the place where one of both is missing or mistaken."""
    manifests = []
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir() and path.name != "clusters"):
        verdicts = quick_yaml.load((folder / "verdicts.yaml").read_text())
        files = {path.name for path in folder.iterdir()} - {"verdicts.yaml"}
        assert files == set(verdicts), f"{folder.name}: with a file or a verdict only: {files ^ set(verdicts)}"
        manifests += [_manifest(folder / name, verdicts[name]) for name in sorted(files)]
    return manifests


def _manifest(path: Path, written: Mapping[str, Any]) -> Manifest:
    unknown = set(written) - _KEYS
    assert not unknown, (
        f"{path}: unknown keys {unknown}; known are {', '.join(sorted(_KEYS))} (a bare `on` is true in YAML)"
    )
    assert written.get("why"), f"{path}: why is missing"
    gpus = tuple(written.get("gpus", ()))
    return Manifest(
        path,
        gpus,
        {cluster: _expected(path, written, cluster, is_single=len(gpus) < 2) for cluster in CLUSTERS},
        tuple(written.get("says", ())),
        bool(written.get("unreadable")),
    )


def _expected(path: Path, written: Mapping[str, Any], cluster: str, *, is_single: bool) -> Verdict:
    lists = {key: set(written.get(key, ())) for key in _LISTS}
    for clusters, more in written.get("where", {}).items():
        names = clusters.split()
        assert set(names) <= set(CLUSTERS), f"{path}: where: {clusters}: an unknown cluster"
        for key, rules in more.items():
            if cluster in names:
                lists[key] |= {rule for rule in rules if not rule.startswith("-")}
                lists[key] -= {rule.removeprefix("-") for rule in rules if rule.startswith("-")}
    unknown = set().union(*lists.values()) - {rule.key for rule in RULES}
    assert not unknown, f"{path}: unknown rules {unknown}"
    if not facts_of(cluster).runtime_class("nvidia"):
        lists["injected"].discard("runtimeClass")
    if is_single and lists["refused"]:
        lists["injected"].clear()
    return Verdict(**{key: frozenset(rules) for key, rules in lists.items()})

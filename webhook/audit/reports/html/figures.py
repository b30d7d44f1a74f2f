"""What the page draws: refusals by namespace and rule, the worst workloads, GPUs and quotas."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from webhook.audit.quota_report import LimitUsage, Reported
from webhook.audit.report import AuditFinding, Capacity, Level, ObjectReference
from webhook.audit.reports.html.bars import Bar, bar, quota_bar, quota_style
from webhook.audit.reports.report_wording import home
from webhook.outcome import printable

MOST_WORKLOADS = 10


@dataclass(frozen=True, slots=True)
class Ranked:
    """A bar of a chart: a namespace or a rule with its findings, and a link that shows them in the table."""

    name: str
    refusals: int
    warnings: int
    bar: Bar
    link: str


@dataclass(frozen=True, slots=True)
class Worst:
    """A workload that would be refused. `gpus` are those of its pods that would be, 0 where that is not known."""

    owner: ObjectReference
    namespace: str
    refusals: int
    warnings: int
    gpus: int
    running: int
    rules: tuple[str, ...]
    link: str


@dataclass(frozen=True, slots=True)
class NodesFigure:
    """Nodes of one GPU model and driver, with a bar in proportion to those of the same resource."""

    capacity: Capacity
    bar: Bar


@dataclass(frozen=True, slots=True)
class LimitFigure:
    """One limit of a quota. `style` is a word for how full it is."""

    name: str
    part: LimitUsage
    style: str
    bar: Bar


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota with its limits."""

    quota: Reported
    limits: tuple[LimitFigure, ...]


def by_namespace(findings: Sequence[AuditFinding]) -> list[Ranked]:
    """Refusals and warnings of each namespace."""
    return _ranked(findings, "namespace", lambda finding: home(finding.owner))


def by_rule(findings: Sequence[AuditFinding]) -> list[Ranked]:
    """Refusals and warnings of each rule."""
    return _ranked(findings, "rule", lambda finding: finding.rule)


def _ranked(findings: Sequence[AuditFinding], key: str, name_of: Callable[[AuditFinding], str]) -> list[Ranked]:
    refusals = Counter(name_of(finding) for finding in findings if finding.level is Level.REFUSE)
    warnings = Counter(name_of(finding) for finding in findings if finding.level is Level.WARN)
    names = sorted({*refusals, *warnings}, key=lambda name: (-refusals[name], -warnings[name], name))
    most = max((refusals[name] + warnings[name] for name in names), default=0)
    return [
        Ranked(
            name,
            refusals[name],
            warnings[name],
            bar(((Level.REFUSE, refusals[name]), (Level.WARN, warnings[name])), most),
            link(**{key: name, "level": "refuse,warn"}),
        )
        for name in names
    ]


def worst(findings: Iterable[AuditFinding]) -> list[Worst]:
    """The workloads with most refusals, then those with most GPUs, then those with most pods that run."""
    of_owners: dict[ObjectReference, list[AuditFinding]] = {}
    for finding in findings:
        of_owners.setdefault(finding.owner, []).append(finding)
    found = [_worst(owner, group) for owner, group in of_owners.items()]
    found = [one for one in found if one.refusals]
    found.sort(key=lambda one: (-one.refusals, -one.gpus, -one.running, -one.warnings, one.owner))
    return found[:MOST_WORKLOADS]


def _worst(owner: ObjectReference, findings: Sequence[AuditFinding]) -> Worst:
    refusals = [finding for finding in findings if finding.level is Level.REFUSE]
    sorts = {finding.sort for finding in refusals if finding.sort is not None}
    return Worst(
        owner,
        home(owner),
        len(refusals),
        sum(finding.level is Level.WARN for finding in findings),
        sum((sort.pods or 0) * sort.gpus for sort in sorts),
        max((finding.running.count for finding in refusals if finding.running is not None), default=0),
        tuple(sorted({finding.rule for finding in refusals})),
        link(namespace=home(owner), q=f"{owner.kind} {owner.name}"),
    )


def nodes(capacity: Iterable[Capacity]) -> list[NodesFigure]:
    """The GPUs of a cluster, most of them first."""
    capacity = sorted(capacity, key=lambda one: (one.resource != "nvidia.com/gpu", one.resource, -one.gpus, one.model))
    most: dict[str, int] = {}
    for one in capacity:
        most[one.resource] = max(most.get(one.resource, 0), one.gpus)
    return [NodesFigure(one, bar((("some", one.gpus),), most[one.resource])) for one in capacity]


def gpus(capacity: Iterable[Capacity]) -> list[tuple[str, int]]:
    """How many of each resource the nodes have."""
    sums: Counter[str] = Counter()
    for one in capacity:
        sums[one.resource] += one.gpus
    return sorted(sums.items(), key=lambda one: (-one[1], one[0]))


def quotas(reported: Iterable[Reported]) -> list[QuotaUse]:
    """The quotas with their limits, the fullest first."""
    found = [QuotaUse(quota, tuple(_limit(part) for part in quota.parts)) for quota in reported]
    return sorted(found, key=_fullest, reverse=True)


def _fullest(use: QuotaUse) -> float:
    return max((float(share) for limit in use.limits if (share := limit.part.share) is not None), default=-1.0)


def _limit(part: LimitUsage) -> LimitFigure:
    return LimitFigure(part.name or "GPUs", part, quota_style(part), quota_bar(part))


def link(**state: str) -> str:
    """Where the table shows nothing else: a place in the same page, as its script reads it."""
    shown = {key: printable(value) for key, value in state.items()}
    return f"#findings?{urlencode(shown, quote_via=quote)}"

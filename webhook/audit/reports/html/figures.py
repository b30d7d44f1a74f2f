"""The figures of the page: refusals by namespace and rule, the worst workloads, GPUs and quotas.

Bars are made of segments in percent, as SVG needs them. Totals say what would happen to all objects, in a sentence and
in four numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import quote, urlencode

from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.audit.report import AuditFinding, AuditReport, Capacity, Level, ObjectReference
from webhook.audit.reports.report_wording import home
from webhook.outcome import printable
from webhook.quota.quota_wording import number

_NARROWEST = Fraction(6, 1000)
"""Least width of a segment, as a share of the bar, so that every amount is visible."""
_INVISIBLE = Fraction(1, 100_000)
"""A share of the bar that is 0.000% or hardly more: segments before it took the room, each with its least width."""
_NEARLY_FULL = Fraction(9, 10)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: its style, its start and its width, in percent of the bar."""

    style: str
    start: str
    width: str


Bar = tuple[Segment, ...]


def bar(amounts: Iterable[tuple[str, int | Fraction]], whole: int | Fraction) -> Bar:
    """A bar of segments side by side; it is full where the amounts add up to `whole`."""
    segments = []
    start = Fraction(0)
    for style, amount in amounts:
        if amount <= 0 or whole <= 0 or 1 - start < _INVISIBLE:
            continue
        width = min(max(Fraction(amount) / whole, _NARROWEST), 1 - start)
        segments.append(Segment(style, _percent(start), _percent(width)))
        start += width
    return tuple(segments)


def quota_bar(part: LimitUsage) -> Bar:
    """The used part of a limit. If more is used than allowed, a second segment begins at the limit."""
    share = part.share
    if share is None:
        return ()
    if share > 1:
        return bar((("full", 1), ("over", share - 1)), share)
    return bar(((quota_style(part), share),), 1)


def quota_style(part: LimitUsage) -> str:
    """How full a limit is, in a word: `over`, `full`, `near`, `some`, or `unknown`."""
    share = part.share
    if share is None:
        return "unknown"
    if share >= 1:
        return "over" if part.rest.endswith("over") else "full"
    return "near" if share >= _NEARLY_FULL else "some"


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.3f}%"


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
    """A workload that would be refused. `gpus` are the GPUs of its refused pods; 0 if unknown."""

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
    """Nodes of one GPU model and driver, with a bar in proportion to others with the same resource."""

    capacity: Capacity
    bar: Bar

    @property
    def physical(self) -> str:
        """The GPUs that all units are together."""
        return number(self.capacity.physical)


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

    quota: ReportedQuota
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
    """The workloads with most refusals; equal ones are ordered by GPUs, then by running pods."""
    of_owners: dict[ObjectReference, list[AuditFinding]] = {}
    for finding in findings:
        of_owners.setdefault(finding.owner, []).append(finding)
    found = [_worst(owner, group) for owner, group in of_owners.items()]
    found = [one for one in found if one.refusals]
    found.sort(key=lambda one: (-one.refusals, -one.gpus, -one.running, -one.warnings, one.owner))
    return found[:MOST_WORKLOADS]


def _worst(owner: ObjectReference, findings: Sequence[AuditFinding]) -> Worst:
    refusals = [finding for finding in findings if finding.level is Level.REFUSE]
    groups = {finding.pod_group for finding in refusals if finding.pod_group is not None}
    return Worst(
        owner,
        home(owner),
        len(refusals),
        sum(finding.level is Level.WARN for finding in findings),
        sum((pod_group.pods or 0) * pod_group.gpus for pod_group in groups),
        max((finding.running.count for finding in refusals if finding.running is not None), default=0),
        tuple(sorted({finding.rule for finding in refusals})),
        link(namespace=home(owner), q=f"{owner.kind} {owner.name}"),
    )


def nodes(capacity: Iterable[Capacity]) -> list[NodesFigure]:
    """The GPU nodes of a cluster, by resource; the largest number of GPUs first."""
    capacity = sorted(
        capacity, key=lambda one: (one.resource != "nvidia.com/gpu", one.resource, -one.physical, one.model)
    )
    most: dict[str, Fraction] = {}
    for one in capacity:
        most[one.resource] = max(most.get(one.resource, Fraction(0)), one.physical)
    return [NodesFigure(one, bar((("some", one.physical),), most[one.resource])) for one in capacity]


def gpus(capacity: Iterable[Capacity]) -> list[tuple[str, int, str]]:
    """How many units of each resource the nodes have, and how many GPUs they are, if that is another number."""
    units: Counter[str] = Counter()
    physical: dict[str, Fraction] = {}
    for one in capacity:
        units[one.resource] += one.gpus
        physical[one.resource] = physical.get(one.resource, Fraction(0)) + one.physical
    return [
        (resource, count, "" if physical[resource] == count else number(physical[resource]))
        for resource, count in sorted(units.items(), key=lambda one: (-one[1], one[0]))
    ]


def quotas(reported: Iterable[ReportedQuota]) -> list[QuotaUse]:
    """The quotas with their limits, the fullest first."""
    found = [QuotaUse(quota, tuple(_limit(part) for part in quota.parts)) for quota in reported]
    return sorted(found, key=_fullest, reverse=True)


def _fullest(use: QuotaUse) -> float:
    return max((float(share) for limit in use.limits if (share := limit.part.share) is not None), default=-1.0)


def _limit(part: LimitUsage) -> LimitFigure:
    return LimitFigure(part.name or "GPUs", part, quota_style(part), quota_bar(part))


def link(**state: str) -> str:
    """A link to the table of the same page with this filter, as its script reads it."""
    shown = {key: printable(value) for key, value in state.items()}
    return f"#findings?{urlencode(shown, quote_via=quote)}"


@dataclass(frozen=True, slots=True)
class Total:
    """How many pods, workloads and resource claims have one result. `share` is a text such as `2.6 %`."""

    style: str
    label: str
    count: int
    share: str


def totals(report: AuditReport) -> tuple[Total, ...]:
    """What would happen to the pods, workloads and resource claims; each is in exactly one total."""
    counts = report.counts
    whole = counts.pods + counts.workloads + counts.claims
    kept = max(whole - counts.refused - counts.warned - counts.completed, 0)
    named = (
        (Level.REFUSE, "refused", counts.refused),
        (Level.WARN, "admitted with a warning", counts.warned),
        (Level.COMPLETE, "completed", counts.completed),
        ("rest", "admitted as they are", kept),
    )
    return tuple(Total(style, label, count, share_of(count, whole)) for style, label, count in named)


def totals_bar(found: Iterable[Total]) -> Bar:
    """The totals side by side."""
    amounts = [(total.style, total.count) for total in found]
    return bar(amounts, sum(count for _, count in amounts))


def share_of(count: int, whole: int) -> str:
    """The share in percent with one digit. Only an empty share is shown as 0, and only a whole one as 100."""
    if not whole:
        return ""
    percent = 100 * count / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %"


def verdict(report: AuditReport) -> str:
    """The gravest result in one sentence."""
    counts = report.counts
    whole = counts.pods + counts.workloads + counts.claims
    objects = f"{whole:,} {'pods and workloads' if whole != 1 else 'pod or workload'}"
    if counts.claims:
        objects = f"{whole:,} {'pods, workloads and resource claims' if whole != 1 else 'resource claim'}"
    others = sum(1 for _ in report.at(Level.REFUSE))
    if counts.refused:
        return f"{counts.refused:,} of {objects} would be refused"
    if others:
        found = "1 other finding is a refusal" if others == 1 else f"{others:,} other findings are refusals"
        return f"None of {objects} would be refused, but {found}"
    if counts.warned:
        return f"None of {objects} would be refused, {counts.warned:,} would get a warning"
    if whole:
        return f"None of {objects} would be refused"
    return "No pod and no workload was looked at"

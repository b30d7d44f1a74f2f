"""Reports with whatever texts: what a manifest can hold, what a format could take for its own, and half characters."""

from datetime import UTC
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st

from tests.audit.sample_report import HOSTILE
from tests.strategies import examples
from webhook.audit.documents import DocumentError
from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    Capacity,
    ChangedInjection,
    Comparison,
    Counts,
    Level,
    ObjectReference,
    PendingPods,
    PodGroup,
    Running,
    SourceLine,
)
from webhook.outcome import FindingKind
from webhook.rules.rule_settings import Mode

SOME = settings(max_examples=examples(25))
"""For tests that render a whole report."""

NASTY = (
    HOSTILE,
    "",
    " ",
    "-",
    "|",
    "\\|",
    "a\\",
    "`",
    "``` `",
    "` |`",
    "[link](https://example.com)",
    "![](https://example.com/x.png)",
    "<https://example.com>",
    "https://example.com www.example.com me@example.com",
    "@everyone #1 org/repo#2",
    "</details><img src=x onerror=alert(1)>",
    "&lt;b&gt;",
    "{0} {{}} %s",
    "[[a](1)](2)",
    "[bold]x[/bold] [/] :smile:",
    "\ud800",
    "\udfff\ud83d",
    "\x00\x1b[31m\x85\u2028\ufffe\uffff",
    "../../etc/passwd",
    "/absolute/path",
    "c:d",
)
TEXTS = st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=()), max_size=12)
NUMBERS = st.integers(0, 10**6)
UNIT_PARTS = st.builds(Fraction, st.just(1), st.integers(1, 7 * 1024))
MAYBE_LINES = st.none() | st.integers(1, 10**6)
REFERENCES = st.builds(ObjectReference, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
SOURCES = st.just(SourceLine()) | st.builds(SourceLine, TEXTS, MAYBE_LINES)
SORTS = st.none() | st.builds(PodGroup, TEXTS, st.none() | NUMBERS, NUMBERS)


def lists_of(elements: st.SearchStrategy, most: int = 3) -> st.SearchStrategy:
    return st.lists(elements, max_size=most).map(tuple)


FINDINGS = st.builds(
    AuditFinding,
    level=st.sampled_from(Level),
    rule=TEXTS | st.just("gpuLimits"),
    mode=st.sampled_from(Mode),
    kind=st.sampled_from(FindingKind),
    object=REFERENCES,
    owner=REFERENCES,
    field=TEXTS,
    message=TEXTS,
    remedy=TEXTS,
    policy=TEXTS,
    file=TEXTS,
    line=NUMBERS,
    source=SOURCES,
    pod_group=SORTS,
    running=st.none() | st.builds(Running, NUMBERS, lists_of(TEXTS)),
)
PARTS = st.builds(LimitUsage, TEXTS, NUMBERS.map(str), NUMBERS.map(str), st.just("") | TEXTS)
QUOTAS = st.builds(
    ReportedQuota, TEXTS, TEXTS, TEXTS, lists_of(TEXTS), st.none() | PARTS, lists_of(PARTS, 2), lists_of(PARTS, 2)
)
COMPARISONS = st.builds(
    Comparison,
    TEXTS,
    TEXTS,
    lists_of(FINDINGS, 2),
    lists_of(FINDINGS, 2),
    lists_of(st.builds(ChangedInjection, REFERENCES, SOURCES, SORTS, lists_of(TEXTS), lists_of(TEXTS)), 2),
)
REPORTS = st.builds(
    AuditReport,
    created=st.datetimes(timezones=st.just(UTC)),
    directory=TEXTS,
    hash=TEXTS,
    is_of_cluster=st.booleans(),
    counts=st.builds(Counts, *[NUMBERS] * 6),
    findings=lists_of(FINDINGS, 5),
    errors=lists_of(st.builds(DocumentError, TEXTS, NUMBERS, MAYBE_LINES, TEXTS)),
    capacity=lists_of(st.builds(Capacity, TEXTS, TEXTS, NUMBERS, NUMBERS, TEXTS, TEXTS, TEXTS, UNIT_PARTS)),
    quotas=lists_of(QUOTAS),
    comparison=st.none() | COMPARISONS,
    pending=lists_of(
        st.builds(PendingPods, REFERENCES, st.just("Busy"), TEXTS, TEXTS, st.builds(Running, NUMBERS, lists_of(TEXTS)))
    ),
)

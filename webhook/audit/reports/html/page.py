"""The report as one page of HTML that works without network, without a server, and even without JavaScript.

Every text may come from tenants. Templates escape all texts, the data for the script cannot contain markup, the script
makes text nodes only, and the page's own Content-Security-Policy forbids anything else to run or to be loaded.

Findings become rows of texts: the script has all of them as data, and without it the page shows the first ones.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from webhook.audit.report import AuditFinding, AuditReport, Level, Section
from webhook.audit.reports import report_wording as wording
from webhook.audit.reports.report_wording import FINDINGS, alike, findings, lines, rule_texts, sections
from webhook.outcome import printable

Row = dict[str, str]
"""One finding as printable texts by column; unknown and missing values are empty."""


def _row(finding: AuditFinding, *, is_new: bool) -> Row:
    running = finding.running
    texts = {
        "level": finding.level,
        "rule": finding.rule,
        "namespace": finding.owner.home,
        "kind": finding.owner.kind,  # of the object that people change
        "name": finding.owner.name,
        "message": finding.message,
        "field": finding.field,
        "remedy": finding.remedy,
        "object": finding.object.title if finding.object != finding.owner else "",
        "pods": wording.about(finding.pod_group),
        "running": str(running.count) if running is not None else "",
        "names": wording.listed(running) if running is not None else "",
        "mode": finding.mode,
        "policy": finding.policy,
        "line": wording.policy_place(finding),
        "source": wording.place(finding.source),
        "change": "new" if is_new else "",
    }
    return {column: printable(text) for column, text in texts.items()}


MOST_SHOWN = 200
"""Most rows of a table, and of findings if JavaScript is off; other formats have all rows."""


def render(report: AuditReport) -> str:
    """The whole page; equal reports give equal pages."""
    subject = report.subject
    listed = [section for section in sections(report) if section.key not in FINDINGS]
    if rules := [(key, *rule_texts(key, report)) for key in sorted({finding.rule for finding in report.findings})]:
        title, heads = "Rules: gpu-policy explain RULE says more", ("Rule", "Promise", "Without it")
        if subject is not None:
            title, heads = "Changes", ("Change", "Meaning", "")
        listed.append(Section("rules", title, heads[: len(rules[0])], rules))
    before = ("newly-refused", "no-longer-refused", "changed", "refusals", "planned")
    new = frozenset(one.id for one in report.comparison.newly_refused) if report.comparison else frozenset[str]()
    shown = alike(report.findings, new)
    rows = [_row(finding, is_new=is_new) for finding, is_new in shown]
    script, style = _asset("script.js"), _asset("style.css")
    words = {} if subject is None else {str(level): title for level, title in subject.levels.items()}
    data = _as_data(rows, words, folds=report.is_of_cluster)
    return (
        _environment()
        .get_template("page.html")
        .render(
            content_security_policy=_content_security_policy(script, style),
            script=Markup(script),  # noqa: S704  # a file of this package
            style=Markup(style),  # noqa: S704  # a file of this package
            data=Markup(data),  # noqa: S704  # holds no character that begins markup
            report=report,
            title="GPU policy audit" if subject is None else subject.title,
            words=words,
            verdict=verdict(report),
            totals=tuple(totals_of(report)),
            count=len(shown),
            levels=[(level, sum(one.level is level for one, _ in shown)) for level in Level],
            before=[section for section in listed if section.key in before],
            after=[section for section in listed if section.key not in before],
            unscripted=findings("findings", "Findings", [one for one, _ in shown[:MOST_SHOWN]]),
            lines=lines,
            most_shown=MOST_SHOWN,
            counted=wording.counted,
            changes=wording.changes,
            looked_at=wording.looked_at(report.counts),
        )
    )


_MEANT_BY_MARKUP = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


def _as_data(rows: Sequence[Row], words: Mapping[str, str], *, folds: bool) -> str:
    """Rows as JSON for a script element: the columns, every text once, and each row as indexes of its texts.

    `folds`: what would merely be completed is shown only to those who ask, because it runs already.
    """
    places: dict[str, int] = {}
    table = [[places.setdefault(text, len(places)) for text in row.values()] for row in rows]
    data = {
        "levels": tuple(Level),
        "words": words,
        "folded": [Level.COMPLETE] if folds else [],
        "columns": list(rows[0]) if rows else [],
        "texts": list(places),
        "rows": table,
    }
    return json.dumps(data, separators=(",", ":")).translate(_MEANT_BY_MARKUP)


def _content_security_policy(script: str, style: str) -> str:
    """A policy that allows this script and this style only; `trusted-types` forbids them to make markup of texts."""
    run, look = (f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (script, style))
    return (
        f"default-src 'none'; script-src {run}; style-src {look}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """A value as the template shows it. Only the template itself makes markup."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return f"{value:,}" if isinstance(value, int) else value


def totals_of(report: AuditReport) -> Iterator[tuple[str, str, int, str]]:
    """Style, label, count and share of what would happen to the pods, workloads and claims; each is in one total."""
    if report.subject is not None:
        yield from ((*total, "") for total in report.subject.totals)
        return
    counts = report.counts
    whole = counts.pods + counts.workloads + counts.claims
    kept = max(whole - counts.refused - counts.warned - counts.completed, 0)
    for style, label, count in (
        (Level.REFUSE, "refused", counts.refused),
        (Level.WARN, "admitted with a warning", counts.warned),
        (Level.COMPLETE, "completed", counts.completed),
        ("rest", "admitted as they are", kept),
    ):
        yield str(style), label, count, f"{100 * count / whole:.1f} %" if whole else ""


def verdict(report: AuditReport) -> str:
    """The gravest result in one sentence."""
    if report.subject is not None:
        return report.subject.total
    counts = report.counts
    whole = counts.pods + counts.workloads + counts.claims
    objects = wording.counted(whole, "object")
    if counts.refused:
        return f"{counts.refused:,} of {objects} would be refused"
    if others := sum(1 for _ in report.at(Level.REFUSE)):
        found = wording.counted(others, "other finding is a refusal", "other findings are refusals")
        return f"None of {objects} would be refused, but {found}"
    if counts.warned:
        return f"None of {objects} would be refused, {counts.warned:,} would get a warning"
    if whole:
        return f"None of {objects} would be refused"
    return "No pod and no workload was looked at"

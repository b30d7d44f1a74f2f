"""The report as one page of HTML that needs nothing but itself: no network, no server, not even JavaScript.

Every text may come from tenants. The template escapes what it shows, the data for the script can hold no markup, the
script makes text nodes only, and the page's own Content-Security-Policy lets nothing else run or be loaded.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from webhook.audit.report import AuditReport, Level, SourceLine
from webhook.audit.reports.html import figures
from webhook.audit.reports.html.rows import MOST_SHOWN, as_data, changes, rows
from webhook.audit.reports.report_wording import counted, looked_at, place
from webhook.outcome import printable

MOST_WITHOUT_SCRIPT = 300
"""Rows of the table where JavaScript is off."""


def render(report: AuditReport) -> str:
    """The whole page; the same for the same report."""
    found = rows(report.findings, report.comparison)
    parts = figures.totals(report)
    script, style = _asset("script.js"), _asset("style.css")
    return _template().render(
        content_security_policy=_content_security_policy(script, style),
        script=Markup(script),  # noqa: S704  # a file of this package
        style=Markup(style),  # noqa: S704  # as above
        data=Markup(as_data(found)),  # noqa: S704  # holds no character that begins markup
        report=report,
        verdict=figures.verdict(report),
        totals=parts,
        totals_bar=figures.totals_bar(parts),
        levels=[(level, sum(1 for _ in report.at(level))) for level in Level],
        changes=changes(report.comparison) if report.comparison is not None else None,
        charts=(
            ("namespace", "Namespace", figures.by_namespace(report.findings)),
            ("rule", "Rule", figures.by_rule(report.findings)),
        ),
        worst=figures.worst(report.findings),
        nodes=figures.nodes(report.capacity),
        gpus=figures.gpus(report.capacity),
        quotas=figures.quotas(report.quotas),
        errors=[(place(SourceLine(error.source, error.line)), error.message) for error in report.errors],
        rows=found[:MOST_WITHOUT_SCRIPT],
        most_shown=MOST_SHOWN,
        link=figures.link,
        counted=counted,
        looked_at=looked_at(report.counts),
    )


def _content_security_policy(script: str, style: str) -> str:
    """Nothing but this script and this style; `trusted-types` keeps even them from making markup of texts."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("page.html"))


def _shown(value: Any) -> Any:
    """A value as the template shows it; markup is what the template made itself."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return f"{value:,}" if isinstance(value, int) else value

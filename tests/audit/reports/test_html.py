"""The page holds texts of tenants as texts, and needs nothing but itself."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from hashlib import sha256
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import example, given

from tests.audit.reports.any_report import REPORTS, SOME
from tests.audit.reports.large_report import large
from tests.audit.reports.parsed_page import ParsedPage
from tests.audit.sample_report import HOSTILE, empty, sample, sample_of_files
from webhook.audit.report import AuditReport
from webhook.audit.reports.html.page import render
from webhook.outcome import printable

PAYLOADS = (
    "</script><script>hacked=1</script>",
    "<!--<script>",
    "--></title><script>hacked=1</script>",
    '"><img src=x onerror=hacked=1>',
    "' onmouseover='hacked=1",
    "</style><style>*{display:none}</style>",
    "</noscript><svg onload=hacked=1>",
    "javascript:hacked=1",
    "{{ 7 * 7 }}{% raw %}",
    "\u2028\u2029\u202e\ufeff\x00",
    "&lt;b&gt;&#60;",
)
OF_ALL_SORTS = [
    pytest.param(sample, id="of a cluster, with everything"),
    pytest.param(sample_of_files, id="of files"),
    pytest.param(empty, id="of nothing"),
    pytest.param(lambda: large(300), id="of a large cluster"),
]


def everywhere(text: str, value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(everywhere(text, one) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: everywhere(text, getattr(value, one.name)) for one in fields(value)})
    return value


def shown(value: str) -> str:
    """A text as the page shows it, without regard to white space."""
    return " ".join(printable(value).split())


@given(report=REPORTS)
@SOME
@example(report=everywhere("\ud800", sample()))
def test_whatever_texts_hold_they_stay_texts(report: AuditReport) -> None:
    is_safe(report)


@pytest.mark.parametrize("text", PAYLOADS)
def test_what_would_do_harm_as_markup_stays_text_wherever_it_stands(text: str) -> None:
    is_safe(everywhere(text, sample()))


def is_safe(report: AuditReport) -> None:
    """Texts are no markup, no attribute and no address; the script reads them as they are; any file can hold them."""
    text = render(report)
    assert text.encode()
    page = ParsedPage(text)
    elements, attributes = benign()
    assert {one.tag for one in page.elements} <= elements
    assert {name for one in page.elements for name in one.attributes} <= attributes
    assert all(one.attributes["href"].startswith("#") for one in page.elements if "href" in one.attributes)
    assert len(page.all("script")) == 2
    assert len(page.all("style")) == 1
    for name, value in (("message", "message"), ("field", "field"), ("name", "owner.name"), ("remedy", "remedy")):
        assert [printable(attrgetter(value)(one)) for one in report.findings] == [row[name] for row in page.data]


def test_without_javascript_every_text_is_shown_as_it_is_printed() -> None:
    report = sample()
    body = " ".join(ParsedPage(render(report)).one("body").text.split())
    for finding in report.findings:
        assert shown(finding.message) in body
        assert shown(finding.remedy) in body
        assert shown(finding.owner.name) in body
    for error in report.errors:
        assert shown(error.message) in body
    assert shown(HOSTILE) in body


@pytest.mark.parametrize("report", OF_ALL_SORTS)
def test_nothing_would_be_loaded(report: Callable[[], AuditReport]) -> None:
    page = ParsedPage(render(report()))
    loading = {"src", "srcset", "action", "data", "poster", "background", "formaction", "ping"}
    assert not loading & {name for one in page.elements for name in one.attributes}
    assert not {"link", "img", "iframe", "object", "embed", "base"} & {one.tag for one in page.elements}
    style, script = page.one("style").text, page.all("script")[0].text
    assert not re.search(r"url\(|@import|@font-face", style)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket|sendBeacon|EventSource|innerHTML|eval\(", script)
    assert set(re.findall(r"\w+://[^\"]*", style + script)) == {"http://www.w3.org/2000/svg"}  # the name of SVG


def test_only_this_script_and_this_style_may_run() -> None:
    page = ParsedPage(render(sample()))
    (policy,) = [one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes]
    assert dict(rule.split(maxsplit=1) for rule in policy.split("; ")) == {
        "default-src": "'none'",
        "script-src": f"'sha256-{hashed(page.all('script')[0].text)}'",
        "style-src": f"'sha256-{hashed(page.one('style').text)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def hashed(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


@cache
def benign() -> tuple[frozenset[str], frozenset[str]]:
    """The elements and the attributes that pages are made of whose texts mean no harm."""
    compared = large(400)
    reports = (replace(compared, quotas=compared.quotas * 3), replace(compared, comparison=None))
    found = [one for report in reports for one in ParsedPage(render(report)).elements]
    return frozenset(one.tag for one in found), frozenset(name for one in found for name in one.attributes)

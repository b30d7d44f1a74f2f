"""A page of a report, opened in a real Chromium."""

from dataclasses import replace
from urllib.parse import parse_qs

from tests.audit.reports.large_report import large
from tests.audit.sample_report import LONG, sample
from tests.browser import Browser
from webhook.audit.report import AuditFinding

MANY = large(1_500, is_compared=False)


SMALL = replace(sample(), directory=LONG, comparison=replace(sample().comparison, directory=LONG))


CHUNK = 100
"""Rows that the script makes at a time."""


ROWS = "return [...document.querySelectorAll('.finding')].map(row => row.querySelector('.owner').innerText)"


MESSAGES = "return [...document.querySelectorAll('.finding .message span')].map(one => one.textContent)"


class Opened:
    """A page in the browser."""

    def __init__(self, window: Browser, url: str) -> None:
        self.window = window
        self.url = url
        self.reopen()

    def reopen(self, fragment: str = "") -> None:
        self.window.open("about:blank")
        self.window.open(f"{self.url}{fragment}")

    @property
    def owners(self) -> list[str]:
        return list(self.window.run(ROWS))

    @property
    def messages(self) -> list[str]:
        return list(self.window.run(MESSAGES))

    @property
    def status(self) -> str:
        return self.window.text("#status")

    @property
    def state(self) -> dict[str, list[str]]:
        place, _, query = str(self.window.run("return location.hash")).partition("?")
        return parse_qs(query, keep_blank_values=True) if place == "#findings" else {}


def named(findings: list[AuditFinding]) -> list[str]:
    return [f"{one.owner.kind} {one.owner.name}" for one in findings[:CHUNK]]

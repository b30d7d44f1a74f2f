"""The page in a real Chromium: people filter, sort, read, print and share it, and nobody's text does anything."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.reports.opened_page import CHUNK, MANY, SMALL, Opened, named
from tests.audit.sample_report import HOSTILE
from tests.browser import ENTER, TAB, Browser, browser, missing
from tests.e2e.eventually import eventually
from tests.golden import each
from webhook.audit.report import AuditFinding, Level
from webhook.audit.reports.html.page import MOST_SHOWN, render
from webhook.outcome import printable

LEFT = sum(1 for _ in MANY.at(Level.COMPLETE))
FOLDED = f"{1_500 - LEFT:,} of 1,500 findings: {LEFT:,} that run and would only be completed are folded away"
FAULTS = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := missing():
        pytest.skip(reason)
    with browser(tmp_path_factory.mktemp("browser")) as found:
        found.open("about:blank")
        found.requests()  # of the page that the browser begins with
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pages")
    (directory / "many.html").write_text(render(MANY), encoding="utf-8")
    (directory / "small.html").write_text(render(SMALL), encoding="utf-8")
    return directory


@pytest.fixture(autouse=True)
def _quiet(request: pytest.FixtureRequest, window: Browser, pages: Path) -> Iterator[None]:
    """Whatever a test does, the console stays empty, and nothing is asked for but the page itself."""
    window.resize(1280, 900)
    window.prefer("light")
    yield
    assert window.console() == []
    asked = {url.partition("#")[0] for url in window.requests()}
    assert asked <= {"about:blank", *((pages / name).as_uri() for name in ("many.html", "small.html"))}


@pytest.fixture
def many_page(window: Browser, pages: Path) -> Opened:
    return Opened(window, (pages / "many.html").as_uri())


@pytest.fixture
def small_page(window: Browser, pages: Path) -> Opened:
    return Opened(window, (pages / "small.html").as_uri())


def test_the_first_findings_are_shown_and_the_others_when_people_ask_for_them(many_page: Opened) -> None:
    """They do not come by themselves: below the table stands what could not be read, and who scrolls there arrives."""
    assert many_page.owners == named(list(MANY.findings))
    assert many_page.status == FOLDED
    many_page.window.click("#more")
    assert eventually(lambda: len(many_page.owners) >= 2 * CHUNK)


def test_the_table_shows_what_was_chosen_and_the_url_says_so(many_page: Opened) -> None:
    window = many_page.window
    window.click(".chip.refuse")
    window.run(
        "for (const [name, start] of [['rule', 'cudaDriver '], ['namespace', 'team-nlp ']]) {"
        "  const select = document.querySelector(`[name=${name}]`);"
        "  select.value = [...select.options].find(option => option.text.startsWith(start)).value;"
        "  select.dispatchEvent(new Event('input', {bubbles: true}));"
        "}"
    )
    expected = [
        one
        for one in MANY.findings
        if one.level is Level.REFUSE and one.rule == "cudaDriver" and one.owner.namespace == "team-nlp"
    ]
    assert 1 < len(expected) <= CHUNK
    assert many_page.owners == named(expected)
    assert many_page.status == f"{len(expected)} of 1,500 findings: refuse, rule cudaDriver, namespace team-nlp"
    wanted = {"level": ["refuse"], "rule": ["cudaDriver"], "namespace": ["team-nlp"]}
    eventually(lambda: many_page.state == wanted)

    window.click("#reset")
    assert many_page.status == FOLDED
    eventually(lambda: many_page.state == {})


def test_every_word_of_a_search_must_be_somewhere_in_a_finding(many_page: Opened) -> None:
    many_page.window.type("[name=q]", "PYTORCHJOB bert-1")
    expected = [one for one in MANY.findings if "pytorchjob" in one.owner.kind.lower() and "bert-1" in one.owner.name]
    assert many_page.status.startswith(f"{len(expected):,} of 1,500 findings")
    assert many_page.owners == named(expected)
    eventually(lambda: many_page.state == {"q": ["PYTORCHJOB bert-1"]})
    many_page.window.type("[name=q]", " nothing-is-called-so")
    assert many_page.owners == []
    assert "No finding is like this." in many_page.window.text("#table")


def test_a_shared_url_shows_the_same(many_page: Opened) -> None:
    many_page.reopen("#findings?q=missing&namespace=team-maps&level=refuse%2Cwarn&sort=-rule")
    expected = [
        one
        for one in MANY.findings
        if one.owner.namespace == "team-maps" and one.level in (Level.REFUSE, Level.WARN) and "missing" in one.message
    ]
    expected.sort(key=lambda one: one.rule, reverse=True)
    assert many_page.owners == named(expected)
    assert many_page.window.run("return document.querySelector('[name=q]').value") == "missing"
    assert many_page.window.run("return document.querySelectorAll('.chip :checked').length") == 2
    assert many_page.window.run("return document.querySelector('#findings').getBoundingClientRect().top") < 450


def test_what_is_newly_refused_can_be_looked_at_alone(small_page: Opened) -> None:
    assert SMALL.comparison is not None
    small_page.window.click(".chip.new")
    eventually(lambda: small_page.messages == [one.message for one in SMALL.comparison.newly_refused])


@each(
    "column, orders",
    {
        "texts rise first": ("level", ["ascending", "descending", None]),
        "numbers fall first": ("running", ["descending", "ascending", None]),
    },
)
def test_a_column_is_sorted_one_way_then_the_other_then_not_at_all(
    small_page: Opened, column: str, orders: list[str | None]
) -> None:
    def number(one: AuditFinding) -> int:
        return list(Level).index(one.level) if column == "level" else one.running.count if one.running else 0

    for order in orders:
        small_page.window.type(f"[data-column={column}] button", ENTER)
        heads = small_page.window.run(
            "return [...document.querySelectorAll('[aria-sort]')].map(one => [one.dataset.column, one.ariaSort])"
        )
        assert heads == ([[column, order]] if order else [])
        found = [one for one in SMALL.findings if one.level is not Level.COMPLETE]
        if order:
            found.sort(key=number, reverse=order == "descending")
        assert small_page.messages == [printable(one.message) for one in found]


def test_details_open_and_close_by_keyboard_and_by_mouse(small_page: Opened) -> None:
    window = small_page.window
    finding = SMALL.findings[3]
    nth = "document.querySelectorAll('.toggle')[3]"
    window.run(f"{nth}.focus()")
    window.press(ENTER)
    assert window.run(f"return {nth}.getAttribute('aria-expanded')") == "true"
    details = window.text(".details")
    names = "bert-worker-0, bert-worker-1, bert-worker-2 and 1 more"
    for text in (finding.field, finding.message, finding.remedy, "team-nlp.yaml:15", names, "4 pods, 32 GPUs"):
        assert text in details
    window.click(".finding:has(+ .details) .message")
    assert window.run("return document.querySelectorAll('.details').length") == 0


def test_the_page_can_be_used_by_keyboard_alone(small_page: Opened) -> None:
    """Everything that does something is reached in order, and one sees where one is."""
    window = small_page.window
    wanted = window.run(
        "return [...document.querySelectorAll('a, button, input, select, summary, [tabindex]')]"
        ".filter(one => one.checkVisibility()).length"
    )
    window.run("document.activeElement.blur()")
    seen = 0
    for _ in range(wanted):
        window.press(TAB)
        outline = window.run(
            "const one = document.activeElement; if (one === document.body) return null;"
            "const drawn = one.matches('.chip input') ? one.closest('.chip') : one;"
            "const style = getComputedStyle(drawn); return [style.outlineStyle, style.outlineWidth]"
        )
        assert outline == ["solid", "2px"]
        seen += 1
    assert seen == wanted
    assert window.run("return document.activeElement.matches('#rules [tabindex]')")


def test_a_finding_leads_to_what_its_rule_is_about_and_stays_closed(small_page: Opened) -> None:
    window = small_page.window
    window.click(".finding .rule a")
    assert "no more GPUs than its quota" in window.text("#rules tr:target")
    assert window.run("return document.querySelectorAll('.details').length") == 0


def test_what_runs_and_would_only_be_completed_is_shown_to_those_who_ask(small_page: Opened) -> None:
    small_page.window.click(".chip.complete")
    assert small_page.messages == [one.message for one in SMALL.at(Level.COMPLETE)]


def test_a_print_shows_all_that_was_chosen_and_nothing_to_click(many_page: Opened) -> None:
    window = many_page.window
    window.run("location.hash = '#findings?level=refuse&rule=cudaDriver'")
    expected = sum(one.rule == "cudaDriver" for one in MANY.at(Level.REFUSE))
    eventually(lambda: many_page.status.startswith(f"{expected} of "))
    assert expected > CHUNK
    assert len(many_page.owners) < expected
    printed = window.pdf()
    assert printed.startswith(b"%PDF-")
    assert 3 < len(re.findall(rb"/Type\s*/Page\b", printed)) < 40
    assert len(many_page.owners) == expected

    window.command("Emulation.setEmulatedMedia", {"media": "print"})
    shown = window.run(
        "return ['.toolbar', '#more', '#reset', 'nav'].filter(one => document.querySelector(one).checkVisibility())"
    )
    stuck = window.run(
        "return [...document.querySelectorAll('*')].filter(one =>"
        " ['sticky', 'fixed'].includes(getComputedStyle(one).position)).length"
    )
    window.command("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == []
    assert stuck == 0


@pytest.mark.parametrize(("name", "scheme"), [("many_page", "light"), ("small_page", "light"), ("small_page", "dark")])
def test_nothing_stands_in_the_way_of_people_who_see_badly(
    request: pytest.FixtureRequest, window: Browser, name: str, scheme: str
) -> None:
    window.prefer(scheme)
    request.getfixturevalue(name)
    window.click(".toggle")
    window.run(
        "document.querySelectorAll('.chip').forEach(one => one.click());"
        "document.querySelectorAll('details').forEach(one => { one.open = true; })"
    )
    assert window.run(FAULTS) == []


@pytest.mark.parametrize("name", ["many_page", "small_page"])
def test_nothing_is_wider_than_the_window(request: pytest.FixtureRequest, window: Browser, name: str) -> None:
    request.getfixturevalue(name)
    window.click(".toggle")
    for width in (320, 390, 768, 1280):
        window.resize(width, 900)
        assert window.run("return document.documentElement.scrollWidth") <= width


def test_texts_of_tenants_are_shown_and_do_nothing(small_page: Opened) -> None:
    window = small_page.window
    window.run("for (const one of document.querySelectorAll('.toggle')) one.click()")
    texts = window.run("return [...document.querySelectorAll('#table dd')].map(one => one.textContent)")
    assert printable(HOSTILE) in texts
    assert window.run("return document.querySelectorAll('script').length") == 2
    assert window.run("return document.querySelectorAll('b, img, iframe').length") == 0


def test_without_javascript_the_page_is_read_as_it_is(window: Browser, pages: Path) -> None:
    window.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        Opened(window, (pages / "many.html").as_uri())
        text = window.text("#findings")
        buttons = window.ask("POST", "/elements", {"using": "css selector", "value": "button, input, select"})
        shown = [one for element in buttons for one in element.values()]
        visible = [one for one in shown if window.ask("GET", f"/element/{one}/displayed")]
    finally:
        window.command("Emulation.setScriptExecutionDisabled", {"value": False})
    assert f"The first {MOST_SHOWN} of 1,500 findings" in text
    assert MANY.findings[0].owner.title in text
    assert visible == []

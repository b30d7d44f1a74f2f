"""The page of a plan in a real Chromium: people look at the matrix, filter the workloads, in light and in dark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, missing
from tests.e2e.eventually import eventually
from tests.upgrades.sample_plan import large_plan, sample_plan
from webhook.upgrades.driver_plan import WorkloadChange
from webhook.upgrades.page.plan_page import render

FAULTS = (Path(__file__).parents[1] / "audit/reports/accessibility.js").read_text(encoding="utf-8")
LARGE = large_plan(10_000)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := missing():
        pytest.skip(reason)
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pages")
    (directory / "large.html").write_text(render(LARGE), encoding="utf-8")
    (directory / "small.html").write_text(render(sample_plan()), encoding="utf-8")
    return directory


@pytest.fixture(autouse=True)
def _quiet(window: Browser) -> Iterator[None]:
    """Whatever a test does, the console stays empty."""
    window.resize(1280, 900)
    window.prefer("light")
    yield
    assert window.console() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_people_who_see_badly(window: Browser, pages: Path, scheme: str) -> None:
    window.prefer(scheme)
    window.open((pages / "small.html").as_uri())
    window.click(".toggle")
    window.run("document.querySelectorAll('.chip').forEach(one => one.click())")
    assert window.run(FAULTS) == []


def test_nothing_but_the_matrix_is_wider_than_the_window(window: Browser, pages: Path) -> None:
    window.open((pages / "small.html").as_uri())
    window.click(".toggle")
    for width in (320, 390, 768, 1280):
        window.resize(width, 900)
        assert window.run("return document.documentElement.scrollWidth") <= width
        assert window.run("const one = document.querySelector('.matrix'); return one.scrollWidth > one.clientWidth")


def test_the_name_of_nodes_stays_in_view_while_branches_are_scrolled(window: Browser, pages: Path) -> None:
    window.open((pages / "small.html").as_uri())
    left = (
        "const box = document.querySelector('.matrix'); box.scrollLeft = arguments[0];"
        "return document.querySelector('.matrix tbody th').getBoundingClientRect().left"
    )
    assert window.run(left, 0) == window.run(left, 900)


def test_ten_thousand_workloads_are_filtered_by_change_and_by_kind(window: Browser, pages: Path) -> None:
    window.open((pages / "large.html").as_uri())
    assert window.text("#status") == "All 10,000 workloads"
    window.click(".chip.breaks")
    breaking = LARGE.at(WorkloadChange.BREAKS)
    assert window.text("#status") == f"{len(breaking):,} of 10,000 workloads: breaks"
    owners = window.run("return [...document.querySelectorAll('.toggle')].map(one => one.textContent.trim())")
    assert owners == [f"{one.owner.kind} {one.owner.name}" for one in breaking[:100]]
    window.run(
        "const select = document.querySelector('[name=kind]');"
        "select.value = [...select.options].find(option => option.text.startsWith('Deployment ')).value;"
        "select.dispatchEvent(new Event('input', {bubbles: true}));"
    )
    of_kind = sum(one.owner.kind == "Deployment" for one in breaking)
    assert window.text("#status") == f"{of_kind:,} of 10,000 workloads: breaks, kind Deployment"
    eventually(lambda: window.run("return location.hash") == "#workloads?kind=Deployment&change=breaks")


def test_the_page_sorts_by_the_gpus_in_use(window: Browser, pages: Path) -> None:
    window.open((pages / "small.html").as_uri())
    window.run("document.querySelector('[data-column=gpus] button').click()")
    found = window.run("return [...document.querySelectorAll('.finding .number')].map(one => Number(one.textContent))")
    assert found == sorted((one.gpus for one in sample_plan().workloads), reverse=True)

"""Every format of a plan holds texts of tenants as texts, has everything that counts, and is of a bounded size."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.audit.reports.parsed_page import ParsedPage
from tests.audit.reports.test_html import PAYLOADS, everywhere, hashed
from tests.audit.sample_report import HOSTILE
from tests.upgrades.sample_plan import large_plan, only_matrix, plan_of_nothing, sample_plan, workload
from webhook.audit.reports.as_markdown import MOST, code
from webhook.outcome import printable
from webhook.upgrades import plan_markdown, plan_sarif
from webhook.upgrades.driver_plan import DriverPlan, MatrixCell, WorkloadChange
from webhook.upgrades.page.plan_page import MOST_SHOWN, MOST_WITHOUT_SCRIPT, render
from webhook.upgrades.plan_formats import PLAN_FORMATS, rendered_plan

OF_ALL_SORTS = [
    pytest.param(sample_plan, id="with everything"),
    pytest.param(plan_of_nothing, id="of nothing"),
    pytest.param(only_matrix, id="a matrix alone"),
    pytest.param(lambda: large_plan(500), id="of many"),
]


@pytest.mark.parametrize("form", PLAN_FORMATS)
@pytest.mark.parametrize("plan", OF_ALL_SORTS)
def test_equal_plans_are_written_alike_and_none_is_empty(form: str, plan: Callable[[], DriverPlan]) -> None:
    assert rendered_plan(plan(), form) == rendered_plan(plan(), form)
    assert rendered_plan(plan(), form).strip()


@pytest.mark.parametrize("form", PLAN_FORMATS)
def test_every_format_says_what_could_not_be_read(form: str) -> None:
    assert "not YAML" in rendered_plan(sample_plan(), form)


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_where_no_branch_is_safe_every_format_for_people_says_why(form: str) -> None:
    plan = only_matrix()
    assert plan.matrix is not None
    rows = tuple(replace(row, newest=None, branches=(MatrixCell(580, 1, 0, 0, True),)) for row in plan.matrix.pools)
    told = rendered_plan(replace(plan, matrix=replace(plan.matrix, pools=rows)), form)
    assert "every branch that drives these GPUs breaks some" in " ".join(told.split())


@pytest.mark.parametrize("form", PLAN_FORMATS)
def test_half_characters_are_written_in_every_format(form: str) -> None:
    assert rendered_plan(everywhere("\ud800", sample_plan()), form).encode()


@pytest.mark.parametrize("text", PAYLOADS)
def test_what_would_do_harm_as_markup_stays_text_on_the_page(text: str) -> None:
    """Texts are no markup, no attribute and no address, and the script reads them as they are."""
    plan = everywhere(text, sample_plan())
    page, benign = ParsedPage(render(plan)), ParsedPage(render(sample_plan()))
    assert [one.tag for one in page.elements if one.tag in ("script", "style")] == ["style", "script", "script"]
    assert {one.tag for one in page.elements} <= {one.tag for one in benign.elements}
    known = {name for one in benign.elements for name in one.attributes}
    assert {name for one in page.elements for name in one.attributes} <= known
    assert all(one.attributes["href"].startswith("#") for one in page.elements if "href" in one.attributes)
    assert [printable(one.reason) for one in plan.workloads] == [row["message"] for row in page.data]


def test_only_this_script_and_this_style_may_run_on_the_page() -> None:
    page = ParsedPage(render(sample_plan()))
    (policy,) = [one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes]
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules["script-src"] == f"'sha256-{hashed(page.all('script')[0].text)}'"
    assert rules["style-src"] == f"'sha256-{hashed(page.one('style').text)}'"
    assert rules["default-src"] == "'none'"
    assert not re.search(r"url\(|@import|@font-face", page.one("style").text)


def test_each_cell_of_the_matrix_has_its_number_and_a_word_besides_its_colour() -> None:
    plan = sample_plan()
    assert plan.matrix is not None
    page = ParsedPage(render(plan))
    cells = [one for one in page.all("td") if one.attributes.get("class", "").startswith("cell ")]
    expected = [cell for row in plan.matrix.pools for cell in reversed(row.branches)]
    assert len(cells) == len(expected)
    for cell, element in zip(expected, cells, strict=True):
        words = " ".join(element.text.split())
        if cell.drives is False:
            assert words.startswith("not driven")
        else:
            assert re.match(rf"{cell.breaks} breaks?\b", words)
        assert (f"{cell.unknown} unknown" in words) == (cell.unknown > 0 and cell.drives is not False)
        assert (f"{cell.loses_nodes} lose nodes" in words) == (cell.loses_nodes > 0 and cell.drives is not False)


def test_more_workloads_that_break_are_shown_in_a_darker_shade() -> None:
    plan = sample_plan()
    assert plan.matrix is not None
    page = ParsedPage(render(plan))
    shades = [
        one.attributes["class"].split()[1] for one in page.all("td") if "cell " in one.attributes.get("class", "")
    ]
    by_shade: dict[str, list[int]] = {}
    for shade, cell in zip(shades, (c for row in plan.matrix.pools for c in reversed(row.branches)), strict=True):
        by_shade.setdefault(shade, []).append(cell.breaks)
    breaking = [by_shade[f"breaking-{number}"] for number in range(1, 5)]
    for lighter, darker in pairwise(breaking):
        assert max(lighter) < min(darker)
    assert set(by_shade["fine"]) == {0}


def test_the_page_without_javascript_shows_the_worst_and_says_how_many_there_are() -> None:
    plan = large_plan(MOST_WITHOUT_SCRIPT + 50)
    text = ParsedPage(render(plan)).one("noscript").text
    assert f"The first {MOST_WITHOUT_SCRIPT} of {MOST_WITHOUT_SCRIPT + 50} workloads" in text
    assert plan.workloads[0].owner.name in text


def test_the_page_lists_a_bounded_number_of_kinds_of_nodes() -> None:
    page = ParsedPage(render(large_plan(3, MOST_SHOWN + 7)))
    assert "And 7 more, which the other formats list." in page.one("main").text


def test_markdown_holds_texts_in_code_and_stays_within_a_comment() -> None:
    assert code(HOSTILE) in plan_markdown.render(sample_plan())
    text = plan_markdown.render(large_plan(10_000))
    assert len(text.encode()) <= MOST
    assert "`gpu-policy cuda plan --format json` has all" in text
    assert "910 break" in text


def sarif(plan: DriverPlan) -> Any:
    """The only run of a plan."""
    text = plan_sarif.render(plan)
    assert text.isascii()
    (run,) = json.loads(text)["runs"]
    return run


def test_sarif_has_a_result_for_each_change_with_its_place() -> None:
    plan = sample_plan()
    run = sarif(plan)
    changed = [one for one in plan.workloads if one.change is not WorkloadChange.SAME]
    results = [one for one in run["results"] if one["ruleId"] != "undriven"]
    assert [one["ruleId"] for one in results] == [one.change for one in changed]
    assert [one["level"] for one in results] == ["error"] * 2 + ["warning"] * 3 + ["note"] * 2
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    prints = [one["partialFingerprints"]["gpuPolicyPlan/v1"] for one in run["results"]]
    assert len(set(prints)) == len(prints)
    in_manifest = results[[one.owner.name for one in changed].index("train-3")]["locations"][0]["physicalLocation"]
    assert in_manifest["artifactLocation"]["uri"] == "manifests/train.yaml"
    assert in_manifest["region"]["startLine"] == 4
    of_cluster = results[[one.owner.name for one in changed].index("train-1")]["locations"][0]["physicalLocation"]
    assert of_cluster["artifactLocation"]["uri"] == "cluster/team-1/Job/train-1"
    undriven = [one for one in run["results"] if one["ruleId"] == "undriven"]
    assert [one["level"] for one in undriven] == ["error", "warning"]


def test_a_fingerprint_of_sarif_stays_while_the_reason_changes() -> None:
    one = workload(1, WorkloadChange.BREAKS)
    plans = [replace(only_matrix(), workloads=(each,)) for each in (one, replace(one, reason="other", gpus=5))]
    prints = [sarif(plan)["results"][0]["partialFingerprints"] for plan in plans]
    assert prints[0] == prints[1]


def test_sarif_keeps_the_gravest_and_says_what_is_left_out() -> None:
    run = sarif(large_plan(10_000))
    assert len(run["results"]) == plan_sarif.MOST_RESULTS
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"].startswith("3,184 of 8,184 results are left out")

"""A plan in the formats of audits: everything that counts is in each of them, and texts of tenants stay texts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.audit.reports.parsed_page import ParsedPage
from tests.audit.reports.test_html import PAYLOADS, everywhere
from tests.upgrades.sample_plan import sample_plan, workload
from webhook.audit.reports.as_markdown import MOST
from webhook.commands.cuda_plan import PLAN_FORMATS
from webhook.outcome import printable
from webhook.upgrades.driver_plan import (
    DriverPlan,
    MatrixCell,
    MatrixRow,
    WorkloadChange,
    as_report,
    rendered_plan,
    why_no_newest,
)

EMPTY = DriverPlan(sample_plan().created, (), sample_plan().pools[2:3])


@pytest.mark.parametrize("form", PLAN_FORMATS)
@pytest.mark.parametrize(
    "plan", [sample_plan(), EMPTY, replace(sample_plan(), pools=())], ids=["all", "none", "matrix"]
)
def test_equal_plans_are_written_alike_and_none_is_empty(form: str, plan: DriverPlan) -> None:
    assert rendered_plan(plan, form) == rendered_plan(replace(plan), form)
    assert rendered_plan(plan, form).strip()
    assert "What each driver branch would do" not in rendered_plan(replace(plan, pools=(), matrix=None), form)


@pytest.mark.parametrize("form", PLAN_FORMATS)
def test_every_format_has_what_could_not_be_read_and_each_change(form: str) -> None:
    text = rendered_plan(everywhere("\ud800", sample_plan()), form)
    assert text.encode()
    plain = rendered_plan(sample_plan(), form)
    assert "not YAML" in plain
    changes = [change for change in WorkloadChange if change is not WorkloadChange.SAME]
    assert [change for change in changes if change not in plain] == []
    assert ("train-7" in plain) == (form == "json")  # nothing changes for it


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_people_read_of_nodes_images_and_the_matrix(form: str) -> None:
    text = " ".join(rendered_plan(sample_plan(), form).replace("&gt;", ">").split())
    for part in (
        "GPU driver plan",
        "8 workloads: 2 break, 1 unknown, 1 lose nodes, 1 by forward compatibility only, 1 unblocked, 1 gain nodes",
        "driver 535.104.05 and 550.54.15 -> 590.44.01",
        "an unknown driver -> 620",
        "branch 590 (new feature) has ended: it gets no more releases",
        "16 GPUs of Tesla-V100: driver branch 580 is the last for compute capability 7.0",
        "7 GPUs, 1,200 of 1,500 nodes -> 700 of 1,500 nodes and 1 pool, 3 unknown: as it is",
        "registry.corp/train:1",
        "2 workloads, 24 GPUs",
        "newest that breaks nobody: 580",
        "590: 3 break, 1 lose nodes",
        "620: does not drive these GPUs",
    ):
        assert part in text, part


def test_the_page_shows_that_workloads_lose_nodes_as_large_as_that_none_breaks() -> None:
    workloads = tuple(workload(number, WorkloadChange.LOSES_NODES) for number in range(10))
    page = ParsedPage(rendered_plan(replace(sample_plan(), workloads=workloads), "html"))
    assert page.one("h1").text == "10 workloads: 0 break, 10 lose nodes"
    assert [one.text for one in page.all("span") if "data-total" in one.attributes] == ["0", "10"]


@pytest.mark.parametrize("text", PAYLOADS)
def test_what_would_do_harm_as_markup_stays_text_on_the_page(text: str) -> None:
    plan = everywhere(text, sample_plan())
    page, benign = (ParsedPage(rendered_plan(one, "html")) for one in (plan, sample_plan()))
    assert {one.tag for one in page.elements} <= {one.tag for one in benign.elements}
    assert all(one.attributes["href"].startswith("#") for one in page.elements if "href" in one.attributes)
    assert [printable(one.message) for one in as_report(plan).findings] == [row["message"] for row in page.data]


def test_markdown_stays_within_a_comment_and_opens_what_breaks() -> None:
    many = tuple(workload(number, WorkloadChange.BREAKS) for number in range(3_000))
    text = rendered_plan(replace(sample_plan(), workloads=many), "markdown")
    assert len(text.encode()) <= MOST
    assert "`gpu-policy plan --format json` has all" in text
    assert "<summary>Breaks" not in text
    assert "<summary>At risk" in rendered_plan(sample_plan(), "markdown")


def test_sarif_has_a_result_for_each_change_with_its_place() -> None:
    plan = replace(sample_plan(), workloads=sample_plan().workloads[1:])
    (run,) = json.loads(rendered_plan(plan, "sarif"))["runs"]
    results: list[Any] = [one for one in run["results"] if one["ruleId"] != "undriven"]
    levels = {"breaks": "error", "unknown": "warning", "losesNodes": "warning", "compatOnly": "warning"}
    assert {one["ruleId"]: one["level"] for one in results} == {**levels, "unblocked": "note", "gains": "note"}
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    assert "on none of its nodes" in rules[results[0]["ruleIndex"]]["fullDescription"]["text"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results]
    assert places[0] == "cluster/team-1/Job/train-1"
    assert "manifests/train.yaml" in places
    undriven = [one["level"] for one in run["results"] if one["ruleId"] == "undriven"]
    assert undriven == ["error", "warning"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([(0, 0, 0, False), (2, 0, 0, False)], "no branch drives these GPUs"),
        ([(0, 0, 0, False), (2, 0, 0, True)], "every branch that drives these GPUs breaks some"),
        ([(2, 0, 0, True), (0, 1, 0, True)], "no branch is known to break nobody"),
        ([(2, 0, 0, True), (0, 0, 0, None)], "no branch is known to break nobody"),
    ],
)
def test_where_no_branch_is_safe_the_matrix_says_why(cells: list[tuple[int, int, int, bool | None]], said: str) -> None:
    made = tuple(MatrixCell(500 + at, *cell) for at, cell in enumerate(cells))
    assert why_no_newest(MatrixRow("pool", "", "", 1, 1, None, made)) == said

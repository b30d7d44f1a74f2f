"""docs/architecture.md shows the house as it is: its floors are those that `make contracts` checks."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)[0]
NAMED = sorted(set(re.findall(r"`((?:webhook|certs|deploy)/[\w/]+(?:\.py)?)/?`", PAGE)))
PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))
BESIDE = {"server"}
"""Rooms that stand on no floor."""


def contracts() -> list[dict[str, object]]:
    """What import-linter checks."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["importlinter"]["contracts"])


def floors() -> list[set[str]]:
    """The rooms of each floor in the picture, from the top."""
    rooms = [re.split(r" {2,}", line)[0] for line in PICTURE.splitlines()]
    return [set(floor.split(" | ")) for floor in rooms]


def test_the_picture_has_the_floors_of_the_contract() -> None:
    (layers,) = [one["layers"] for one in contracts() if one["type"] == "layers"]
    assert isinstance(layers, list)
    assert floors() == [{room.removeprefix("webhook.") for room in floor.split(" | ")} for floor in layers]


def test_every_room_is_in_the_picture() -> None:
    package = ROOT / "webhook"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    assert set().union(*floors()) == (rooms - BESIDE) | modules


@pytest.mark.parametrize("name", NAMED)
def test_every_file_that_the_page_names_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_pure_rooms_are_those_of_the_contract() -> None:
    (sentence,) = re.findall(r"\n((?:`\w+`,? ?(?:and )?)+) are pure: no network", PAGE)
    (pure,) = [one["source_modules"] for one in contracts() if str(one["name"]).startswith("Rules and models are pure")]
    assert isinstance(pure, list)
    assert {f"webhook.{room}" for room in re.findall(r"`(\w+)`", sentence)} == set(pure)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", *PAGES])
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    """By its path, or by its name alone where the page says which room it is in."""
    modules = {path.name for room in ("webhook", "certs", "deploy", "tests") for path in (ROOT / room).rglob("*.py")}
    named = re.findall(r"`([\w/.]*\w\.py)(?:::\w+)?`", (ROOT / page).read_text(encoding="utf-8"))
    assert [name for name in named if not ((ROOT / name).exists() if "/" in name else name in modules)] == []

"""A new rule touches six files by hand; CONTRIBUTING.md says which. No list of all rules stands anywhere else."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from webhook import rules

ROOT = Path(__file__).parent.parent
MODULES = {
    module.RULE.key: name
    for name, module in vars(rules).items()
    if isinstance(module, ModuleType) and "RULE" in vars(module)
}
FOR_EVERY_RULE = ["policies/_default.yaml", "webhook/rules/__init__.py"]
GENERATED = [
    "deploy/chart/files/policies/_default.yaml",
    "deploy/install.yaml",
    "docs/exceptions-schema.json",
    "docs/policy-schema.json",
    "docs/policy-test-schema.json",
    "docs/rules.md",
]
"""Written by `make docs`."""
MEASURED = ["tests/policy/faults.yaml"]
"""Messages as they were printed."""
FOLDERS = ("webhook", "certs", "deploy", "docs", "examples", "policies", "tests")


def texts():
    """Every file of the project that has text, with it."""
    files = [file for file in ROOT.iterdir() if file.suffix in {".md", ".toml"}]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if not file.is_symlink()]
    for file in files:
        if file.is_file() and file.suffix in {".py", ".md", ".yaml", ".json", ".toml"}:
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def test_every_rule_is_named_in_two_lists_that_people_write_and_in_no_other() -> None:
    named = {
        name
        for name, text in texts()
        if all(re.search(rf"\b({key}|{module})\b", text) for key, module in MODULES.items())
    }
    assert named.difference(MEASURED) == {*FOR_EVERY_RULE, *GENERATED}


@pytest.mark.parametrize("key", MODULES)
def test_a_rule_has_a_file_and_a_file_of_tests_of_its_name(key) -> None:
    files = [f"webhook/rules/{MODULES[key]}.py", f"tests/rules/test_{MODULES[key]}.py"]
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_page_for_contributors_counts_six_files_and_names_the_lists() -> None:
    """A rule's own two files, the lists, the changelog, and whichever file of `policies/tests/` has its cases."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("## Adding a rule\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^[0-9]\. ", section, re.MULTILINE)) == len(FOR_EVERY_RULE) + 4
    assert [file for file in FOR_EVERY_RULE if f"`{file}`" not in section] == []

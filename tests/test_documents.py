"""Links in the documents lead somewhere, and the commands, options, files and objects that they name exist."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests import runbook
from tests.deploy.manifests import shipped
from tests.monitoring.promql import alerts
from webhook.commands.main import main

ROOT = Path(__file__).parents[1]
PAGES = [
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "deploy/README.md",
    *sorted(str(one.relative_to(ROOT)) for one in (ROOT / "docs").rglob("*.md")),
]
SHOWN = [
    shown
    for page in ("README.md", "docs/ai-conformance.md")
    for shown in re.findall(r"```console\n\$ gpu-policy ((?:.*\\\n)*.+)\n([^`$]+)```", (ROOT / page).read_text())
]
KINDS = {document["kind"].lower() for document in shipped()}
KUBECTL = sorted({command for command in runbook.commands() if command.startswith("kubectl ")})
WRITTEN = re.compile(
    r"`(gpu-policy [a-z][^`]*)`|^(?:   )?(?:\$ |.*\| )?(gpu-policy [a-z](?:\\\n|[^#\n])*)", re.MULTILINE
)
OURS = sorted({found[1] or found[2] for page in PAGES for found in WRITTEN.finditer((ROOT / page).read_text())})


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    """By its path, or by its name alone where the page says which room it is in."""
    modules = {path.name for room in ("webhook", "certs", "deploy", "tests") for path in (ROOT / room).rglob("*.py")}
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w/.]*\w\.py)(?:::\w+)?`", text)
    places = [name if "/" not in name or (ROOT / name).exists() else f"tests/{name}" for name in named]
    assert [name for name in places if not ((ROOT / name).exists() if "/" in name else name in modules)] == []
    rooms = re.findall(r"`((?:webhook|certs)/[\w/]+)/?`", text)
    assert [name for name in rooms if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command.rpartition("/")[2] for command, _ in SHOWN])
def test_what_a_command_prints_is_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    """`...` stands for what is left out; lines may be broken elsewhere."""
    monkeypatch.chdir(ROOT)
    printed = " ".join(CliRunner().invoke(main, shlex.split(command)).output.split())
    assert re.search(re.escape(" ".join(shown.split())).replace(r"\.\.\.", ".*"), printed), printed


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    def anchors(file: Path) -> set[str]:
        return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)}

    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for file, place in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]+))?\)", text):
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), file
        assert not place or place in anchors(target), f"{file}#{place}"


# The runbook


def test_every_alert_leads_to_a_section_of_its_own() -> None:
    sections = runbook.sections()
    assert {name for name in sections if name.startswith("GpuPolicy")} == {rule["alert"] for rule in alerts()}
    for rule in alerts():
        file, _, place = rule["annotations"]["runbook_url"].partition("#")
        assert (file.endswith("docs/runbook.md"), place) == (True, anchor(rule["alert"]))


def objects(command: str) -> Iterator[tuple[str, str]]:
    """Kind and name of the objects that a kubectl command names, as far as the release has such names."""
    words = [word for word in shlex.split(command.partition(" | ")[0]) if not word.startswith("-")]
    yield from (
        (kind, name) for kind, slash, name in (word.partition("/") for word in words) if slash and kind in KINDS
    )
    for kinds, name in pairwise(words):
        yield from ((kind, name) for kind in kinds.split(",") if kind in KINDS and name.startswith("gpu-policy"))


def test_commands_name_what_is_installed() -> None:
    installed = {(document["kind"].lower(), document["metadata"]["name"]) for document in shipped()}
    named = {found for command in KUBECTL for found in objects(command)}
    assert named - installed == set()
    assert ("configmap", "gpu-policy-policies") in named
    assert {place for command in KUBECTL for place in re.findall(r" -n (\S+)", command)} <= {"gpu-policy", "team-a"}


@pytest.mark.parametrize("command", OURS)
def test_our_own_commands_and_their_options_exist(command: str) -> None:
    words = shlex.split(command.partition(" | ")[0], comments=True)[1:]
    known: Any = main
    while words and words[0] in getattr(known, "commands", {}):
        known = known.commands[words.pop(0)]
    assert known is not main
    options = {option for parameter in known.params for option in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= options


def test_nothing_but_policies_and_tampered_configurations_is_ever_replaced_as_a_whole() -> None:
    """Replacing takes away what the replicas wrote: of a configuration they write it again, of the Secret too late."""
    replacing = [command for command in KUBECTL if re.search(r"kubectl replace|--force", command)]
    sources = ("configmap gpu-policy-policies", "configmap gpu-policy-registration")
    assert all(any(one in command for one in sources) or command == "kubectl replace" for command in replacing)


def test_values_of_the_chart_exist() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())
    paths = [text for text in runbook.commands() if re.fullmatch(r"[a-zA-Z]+(\.[a-zA-Z]+)+", text)]
    for path in (path for path in paths if path.partition(".")[0] in values):
        node: Any = values
        for part in path.split("."):
            assert part in node, path
            node = node[part]

"""The runbook keeps up with what it is about: alerts, objects, values, metrics, checks and commands."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests import runbook
from tests.deploy.manifests import shipped
from tests.monitoring.promql import alerts
from webhook.commands.main import main
from webhook.doctor.checklist import CHECKS

ROOT = runbook.FILE.parents[1]
ALERTS = alerts()
NAMES = list(dict.fromkeys(rule["alert"] for rule in ALERTS))
TEXT = runbook.FILE.read_text()


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


# Alerts


@pytest.mark.parametrize("alert", NAMES)
def test_every_alert_has_a_section_that_says_what_to_do(alert: str) -> None:
    section = runbook.sections()[alert]
    meaning, *points = re.split(r"^- \*\*", section.strip(), flags=re.MULTILINE)
    assert meaning.strip()
    assert [point.partition(":")[0] for point in points] == ["Impact", "Look at", "Do"]


def test_no_section_is_about_an_alert_that_does_not_exist() -> None:
    assert {name for name in runbook.sections() if name.startswith("GpuPolicy")} == set(NAMES)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_every_alert_leads_to_its_section(rule: dict[str, Any]) -> None:
    file, _, place = rule["annotations"]["runbook_url"].partition("#")
    assert file.endswith("docs/runbook.md")
    assert place == anchor(rule["alert"])


def test_every_link_leads_somewhere() -> None:
    anchors = {anchor(heading) for heading in runbook.sections()}
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) > 20
    for link in links:
        file, _, place = link.partition("#")
        assert (runbook.FILE.parent / file).exists(), link
        assert file or place in anchors, link


# Commands

KINDS = {document["kind"].lower() for document in shipped()}


def objects(command: str) -> Iterator[tuple[str, str]]:
    """Kind and name of the objects that a kubectl command names, as far as the release has such names."""
    words = [word for word in shlex.split(command.partition(" | ")[0]) if not word.startswith("-")]
    for word in words:
        kind, slash, name = word.partition("/")
        if slash and kind in KINDS:
            yield kind, name
    for kinds, name in pairwise(words):
        yield from ((kind, name) for kind in kinds.split(",") if kind in KINDS and name.startswith("gpu-policy"))


KUBECTL = sorted({command for command in runbook.commands() if command.startswith("kubectl ")})


_SOMEBODYS = "team-a"
"""The namespace of those whom an entry is about."""


@pytest.mark.parametrize("command", KUBECTL)
def test_commands_name_what_is_installed(command: str) -> None:
    installed = {(document["kind"].lower(), document["metadata"]["name"]) for document in shipped()}
    assert set(objects(command)) <= installed
    assert set(re.findall(r" -n (\S+)", command)) <= {"gpu-policy", _SOMEBODYS}


def test_the_objects_in_commands_are_recognised() -> None:
    """Or the test above would show nothing."""
    assert {found for command in KUBECTL for found in objects(command)} == {
        ("configmap", "gpu-policy-policies"),
        ("configmap", "gpu-policy-registration"),
        ("deployment", "gpu-policy"),
        ("mutatingwebhookconfiguration", "gpu-policy"),
        ("networkpolicy", "gpu-policy"),
        ("secret", "gpu-policy-tls"),
        ("validatingwebhookconfiguration", "gpu-policy"),
    }


@pytest.mark.parametrize(
    "command",
    sorted({found for command in runbook.commands() for found in re.findall(r"(?:^|\| )gpu-policy .*", command)}),
)
def test_our_own_commands_and_their_options_exist(command: str) -> None:
    words = shlex.split(command.removeprefix("| "))[1:]
    known: Any = main
    while words and words[0] in getattr(known, "commands", {}):
        known = known.commands[words.pop(0)]
    assert known is not main
    options = {option for parameter in known.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_nothing_but_policies_and_tampered_configurations_is_ever_replaced_as_a_whole() -> None:
    """Replacing takes away what the replicas wrote: of a configuration they write it again, of the Secret too late."""
    replacing = [command for command in KUBECTL if re.search(r"kubectl replace|--force", command)]
    sources = ("configmap gpu-policy-policies", "configmap gpu-policy-registration")
    assert all(any(one in command for one in sources) or command == "kubectl replace" for command in replacing)


# What it speaks of


def test_every_check_of_the_doctor_is_described() -> None:
    table = runbook.sections()["The doctor"]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert [key for row in rows for key in re.findall(r"`([a-z-]+)`", row)] == [check.key for check in CHECKS]


def test_values_of_the_chart_exist() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())
    paths = [text for text in runbook.commands() if re.fullmatch(r"[a-zA-Z]+(\.[a-zA-Z]+)+", text)]
    named = [path for path in paths if path.partition(".")[0] in values]
    assert len(named) > 10
    for path in named:
        node: Any = values
        for part in path.split("."):
            assert part in node, path
            node = node[part]


def test_metrics_exist() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text()
    named = set(re.findall(r"gpu_policy_[a-z_]+", TEXT))
    assert named
    assert all(f"`{name}`" in metrics for name in named), named

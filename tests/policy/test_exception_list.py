"""The list of exceptions, for people and for programs."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from tests.engine.test_exceptions import ENTRY, written
from webhook.commands.main import main
from webhook.policy.show import as_json, explain, lines, listed, state

NOW = datetime(2027, 1, 10, tzinfo=UTC).timestamp()
DAY = 86_400


@pytest.fixture
def exceptions(tmp_path):
    weekly = {"days": ["Sat", "Sun"], "from": "20:00", "to": "06:00", "timezone": "Europe/Berlin"}
    entries = [
        {**ENTRY, "name": "later", "until": "2027-02-10", "weekly": weekly, "match": {"all": True}, "owner": "me"},
        ENTRY,
        {**ENTRY, "name": "over", "until": "2027-01-09", "match": {"kinds": ["Job"]}},
        {**ENTRY, "name": "far", "until": "2029-01-09", "match": {"labels": {"a": "b"}}},
    ]
    return written(tmp_path, *entries).exceptions.all


def test_those_that_end_first_come_first(exceptions) -> None:
    assert [one.name for one in listed(exceptions, NOW)] == ["over", "bert-legacy", "later", "far"]
    assert [one.name for one in listed(exceptions, NOW, 14 * DAY)] == ["bert-legacy"]
    assert [one.name for one in listed(exceptions, NOW, 6 * DAY)] == ["bert-legacy"]
    assert listed(exceptions, NOW, 6 * DAY - 1) == []


def test_each_says_whether_it_holds(exceptions) -> None:
    states = {one.name: state(one, NOW) for one in exceptions}
    assert states == {"later": "active", "bert-legacy": "active", "over": "ended", "far": "too far ahead"}
    assert state(exceptions[0], NOW + 12 * 3600) == "waiting"


def test_people_find_who_asked_for_it_and_why(exceptions) -> None:
    assert list(lines(exceptions[0], NOW)) == [
        "later: active, until 2027-02-10, Sat, Sun 20:00 to 06:00 Europe/Berlin",
        "    for all pods in team",
        "    from gpuLimits (mode audit)",
        "    because of migration to 8 GPUs (OPS-123, me)",
    ]


def test_people_find_when_it_begins(tmp_path) -> None:
    entry = {**ENTRY, "from": "2027-01-12", "mode": "warn"}
    (one,) = written(tmp_path, entry).exceptions.all
    first, _, third, _ = lines(one, NOW)
    assert first == "bert-legacy: waiting, from 2027-01-12T00:00Z, until 2027-01-15"
    assert third == "    from gpuLimits (mode warn)"


def test_programs_find_every_key(exceptions) -> None:
    found = as_json(exceptions[1], NOW)
    assert (found["ends"], found["daysLeft"], found["match"]) == ("2027-01-16T00:00Z", 6, {"names": ["bert-*"]})
    assert json.dumps(found)


def test_the_policy_of_a_namespace_shows_them_alike(tmp_path) -> None:
    policies = written(tmp_path, {**ENTRY, "until": "2031-01-01"})
    assert explain(policies, "team").splitlines()[-5:] == [
        "# exceptions, from _exceptions.yaml:",
        "#   bert-legacy: too far ahead, until 2031-01-01",
        "#       for names bert-* in team",
        "#       from gpuLimits (mode audit)",
        "#       because of migration to 8 GPUs (OPS-123)",
    ]


def test_the_command_prints_them(tmp_path) -> None:
    written(tmp_path, {**ENTRY, "until": "2031-01-01"})
    asked = ["policy", "exceptions", "--policies", str(tmp_path)]
    answer = CliRunner().invoke(main, [*asked, "-o", "json"])
    assert [one["name"] for one in json.loads(answer.output)["items"]] == ["bert-legacy"]
    assert CliRunner().invoke(main, asked).output.startswith("bert-legacy: too far ahead, until 2031-01-01\n")
    assert "ends within 14d" in CliRunner().invoke(main, [*asked, "--expiring", "14d"]).output
    faulty = CliRunner().invoke(main, [*asked, "--expiring", "soon"])
    assert faulty.exit_code == 2
    assert "write days, hours or minutes such as 14d" in faulty.output

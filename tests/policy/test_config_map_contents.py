"""What a ConfigMap of policies may hold, and what it may cost."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from tests.golden import each
from tests.policy.checked_config_maps import DEFAULT, SHIPPED, Texts, checked
from tests.policy.conftest import policy_text
from webhook.model.shape import ShapeError
from webhook.policy.config_maps import MOST_VALUES, Checked, files_of
from webhook.yaml_files.file_errors import MOST_FAULTS

# What a ConfigMap holds


def test_files_are_those_of_both_parts_of_a_config_map() -> None:
    raw = {"data": {"a.yaml": "é"}, "binaryData": {"b.yaml": base64.b64encode(b"\xff").decode()}}
    assert files_of(raw) == {"a.yaml": "é".encode(), "b.yaml": b"\xff"}
    assert files_of({}) == {}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"data": []}, "data: found a list, expected a map", id="a list"),
        pytest.param({"data": {"a.yaml": []}}, "data.a.yaml: found a list, expected a string", id="no string"),
        pytest.param({"binaryData": {"a": "é"}}, "binaryData.a: found a string, expected base64", id="no base64"),
        pytest.param({"binaryData": {"a": "abc"}}, "binaryData.a: found a string, expected base64", id="cut base64"),
        *(
            pytest.param({"data": {key: ""}}, f"{place}: found a string, expected keys of up to 253 .*", id=repr(key))
            for key, place in (
                ("../x.yaml", r"data\.\.\./x\.yaml"),
                ("/etc/x.yaml", r"data\./etc/x\.yaml"),
                ("_default.yaml/..", r"data\._default\.yaml/\.\."),
                ("a\0.yaml", "data\\.a\0\\.yaml"),
                ("..data", r"data\.\.\.data"),
                ("..", r"data\.\.\."),
                (".", r"data\.\."),
                ("", "data"),
                ("a.yaml\n", "data\\.a\\.yaml\n"),
                ("é.yaml", "data.é.yaml"),
            )
        ),
        pytest.param({"data": {"n" * 254: ""}}, r"data\.n{57}\.\.\.: found a string, .*", id="a long key"),
        pytest.param(
            {"data": {"a": "x" * 2**19}, "binaryData": {"b": base64.b64encode(b"x" * (2**19 + 1)).decode()}},
            "data: found more than 1048576 bytes, expected at most 1048576, since no API server stores more",
            id="more than 1 MiB",
        ),
    ],
)
def test_what_no_api_server_stores_is_no_config_map(raw: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(ShapeError, match=f"^{expected}$"):
        files_of(raw)


# What it may cost

TOO_MANY = "together the policies have more than 50000 keys and values"


@each(
    "new",
    {
        "one file of many values": {"a.yaml": f"[{'1,' * MOST_VALUES}]"},
        "many files": {f"{n}.yaml": "[1, 2, 3]" for n in range(MOST_VALUES // 5 + 1)},
        "many empty files": {f"{n}.yaml": "" for n in range(MOST_VALUES + 1)},
        "many keys": {"a.yaml": "a: {" + ",".join(f"k{n}: 1" for n in range(MOST_VALUES // 2)) + "}"},
    },
)
def test_more_than_is_checked_is_not_read(new: Texts) -> None:
    assert checked(new, mounted=DEFAULT) == Checked(unchecked=TOO_MANY)


def test_aliases_are_counted_as_what_they_stand_for() -> None:
    found = checked({"a.yaml": f"a: &a [{'1,' * 1000}]\nb: [{'*a,' * 50}]"}, mounted=DEFAULT)
    assert found == Checked(unchecked=TOO_MANY)


def test_a_large_default_is_not_copied_for_any_number_of_files() -> None:
    default = {"_default.yaml": f"#{'x' * 2**19}\n{DEFAULT['_default.yaml']}"}
    teams = {f"t{number}.yaml": "" for number in range(40)}
    found = checked(default | teams, mounted=DEFAULT)
    assert found.unchecked.startswith("_default.yaml times the files that may inherit it is more than")
    assert found == Checked(unchecked=found.unchecked)


def test_of_ten_thousands_of_mistakes_not_each_is_kept() -> None:
    pool = f"&p {{{', '.join(f'k{number}: 1' for number in range(1000))}}}"
    pools = f"  nodePools: [{pool}, {'*p, ' * 20}]\n"
    found = checked({"team.yaml": policy_text("team") + pools}, mounted=DEFAULT)
    assert "team.yaml:1: holds 21021 mistakes, too many to name them; correct all of one kind, and check again" in map(
        str, found.errors
    )
    nulls = {"a.yaml": f"[{'~,' * (MOST_FAULTS + 1)}]"}
    assert len(checked(nulls, mounted=DEFAULT).errors) <= MOST_FAULTS


def test_the_policies_of_hundreds_of_namespaces_are_checked() -> None:
    own = (SHIPPED / "examples" / "training.yaml").read_text().splitlines()
    at = next(number for number, line in enumerate(own) if line.lstrip().startswith("namespaces:"))
    text = "\n".join(own[:at] + own[at + 1 :])
    teams = {f"team-{n}.yaml": text.replace("name: training", f"name: team-{n}", 1) for n in range(400)}
    default = {"_default.yaml": (SHIPPED / "_default.yaml").read_text()}
    assert checked(default | teams, mounted=default).errors == ()

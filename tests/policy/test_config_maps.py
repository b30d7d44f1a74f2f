"""What is wrong with a ConfigMap of policies before it is mounted: certain mistakes, doubts and advice."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.conftest import policy_text
from webhook.model.shape import ShapeError
from webhook.policy.config_maps import MOST_VALUES, Checked, TooLargeError, check_files, files_of
from webhook.policy.directory import contents_of
from webhook.policy.loader import build, load
from webhook.yaml_files.file_errors import MOST_FAULTS, FileError, FileErrors

SHIPPED = Path(__file__).resolve().parents[2] / "policies"
DEFAULT = {"_default.yaml": policy_text("_default", "gpuLimits: {mode: enforce, maxPerPod: 4}")}
TEAM = {"team.yaml": policy_text("team", "gpuLimits: {maxPerPod: 2}")}
MISTAKEN = {"team.yaml": policy_text("team", "gpuLimits: {maxPerPodd: 2}")}
UNKNOWN_KEY = "team.yaml:6: spec.rules.gpuLimits.maxPerPodd"

Texts = Mapping[str, str]


def encoded(files: Texts) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


def checked(new: Texts, *, old: Texts | None = None, mounted: Texts) -> Checked:
    """What is found where a ConfigMap becomes `new`, on a replica that serves what it has mounted."""
    current = build(contents_of(Path(), encoded(mounted)))
    return check_files(encoded(new), encoded(old or {}), contents_of(Path("/etc/policies"), encoded(mounted)), current)


def told(errors: Any) -> list[str]:
    """File, line and key of each."""
    return [str(error).rpartition(": ")[0] for error in errors]


# One ConfigMap is the whole directory


def test_a_mistake_is_named_by_the_key_of_the_config_map_the_line_and_the_key_in_it() -> None:
    (error,) = checked(DEFAULT | MISTAKEN, old=DEFAULT, mounted=DEFAULT).errors
    assert str(error).startswith(f"{UNKNOWN_KEY}: unknown key; known keys are ")


def test_what_is_shipped_has_no_mistake_and_nothing_to_be_said_of() -> None:
    shipped = {file.name: file.read_text() for file in SHIPPED.glob("*.yaml")}
    assert Checked() == checked(shipped, old=shipped, mounted=shipped)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param({}, ["holds no policy file; write _default.yaml or <namespace>.yaml"], id="nothing is left"),
        pytest.param(
            {"README.md": "a"}, ["holds no policy file; write _default.yaml or <namespace>.yaml"], id="no policy"
        ),
        pytest.param(
            DEFAULT | {"a.yml": "a"},
            ["a.yml: policy files end in .yaml; rename it to a.yaml"],
            id="a name that is none",
        ),
        pytest.param(
            {"team.yaml": policy_text("team", "gpuLimits: {}")},
            [
                "team.yaml:6: spec.rules.gpuLimits.mode: missing, here and in _default.yaml; write one of enforce, "
                "warn, audit, disabled"
            ],
            id="a mode that the default said, in the same change",
        ),
        pytest.param(
            DEFAULT | {"_quotas.yaml": "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUQuotaPots\nspec: {pots: [7]}\n"},
            [
                "_quotas.yaml:1: metadata: missing; write a map",
                "_quotas.yaml:3: spec.pots[0]: 7 is a number; write a map",
            ],
            id="pots",
        ),
    ],
)
def test_where_nothing_else_is_mounted_every_mistake_is_certain(new: Texts, expected: list[str]) -> None:
    found = checked(new, old=DEFAULT, mounted=DEFAULT)
    assert ([str(error) for error in found.errors], found.doubts) == (expected, ())


def test_what_does_nothing_is_said_as_policy_check_says_it() -> None:
    idle = DEFAULT | {"team.yaml": policy_text("team", "sharedMemory: {mode: audit}\npriorityClass: {mode: enforce}")}
    (notice,) = checked(idle, old=DEFAULT, mounted=DEFAULT).notices
    assert notice.startswith("team.yaml:7: spec.rules.priorityClass: does nothing in mode enforce; ")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(TEAM | {"team.yaml": policy_text("team")}, "_default.yaml: the file is gone", id="no default"),
        pytest.param(
            {
                "_default.yaml": DEFAULT["_default.yaml"]
                + "  accelerators: {extra: [{name: example.com/vgpu, vendor: nvidia}]}\n"
            },
            "_default.yaml: spec.accelerators.extra: differs from the names with which thi",
            id="names of GPUs",
        ),
    ],
)
def test_what_running_replicas_do_not_take_up_although_it_is_sound_is_a_doubt(new: Texts, expected: str) -> None:
    found = checked(new, old=DEFAULT, mounted=DEFAULT)
    assert found.errors == ()
    assert [str(doubt)[: len(expected)] for doubt in found.doubts] == [expected]


# Several ConfigMaps make the directory


def test_a_name_that_no_default_can_declare_is_certain_not_to_be_a_gpu() -> None:
    weights = {"team.yaml": policy_text("team", "gpuQuota: {mode: warn, weights: {cpu: 1}}")}
    found = checked(weights, mounted=DEFAULT)
    assert (told(found.errors), found.doubts) == (["team.yaml:6: spec.rules.gpuQuota.weights.cpu"], ())


def test_a_mistake_is_certain_whatever_the_other_config_maps_say() -> None:
    found = checked(MISTAKEN, old=TEAM, mounted=DEFAULT | TEAM)
    assert (told(found.errors), found.doubts) == ([UNKNOWN_KEY], ())


@pytest.mark.parametrize(
    ("new", "mounted"),
    [
        pytest.param(TEAM, DEFAULT, id="the default of another ConfigMap has the mode"),
        pytest.param(DEFAULT, TEAM | DEFAULT, id="the file of another inherits from this default"),
        pytest.param({}, DEFAULT, id="no file yet"),
    ],
)
def test_what_is_sound_together_has_no_mistake(new: Texts, mounted: Texts) -> None:
    assert Checked() == checked(new, mounted=mounted | {"other.yaml": policy_text("other")})


@pytest.mark.parametrize(
    ("new", "mounted", "doubt"),
    [
        pytest.param(
            {"team.yaml": policy_text("team", "sharedMemory: {}")},
            DEFAULT,
            "team.yaml:6: spec.rules.sharedMemory.mode",
            id="a mode that the default of another ConfigMap may be about to get",
        ),
        pytest.param(
            {
                "team.yaml": policy_text("team")
                + "  nodePools: [{name: a, resource: example.com/vgpu, product: NVIDIA-L40S, gpus: 2}]\n"
            },
            DEFAULT,
            "team.yaml:7: spec.nodePools[0].resource",
            id="a name of GPUs that it may be about to declare",
        ),
        *(
            pytest.param(
                {"team.yaml": policy_text("team", f"gpuQuota: {{mode: warn, {limit}: 1}}}}")},
                DEFAULT,
                f"team.yaml:6: spec.rules.gpuQuota.{key}",
                id=f"{what}, of {key}",
            )
            for limit, key, what in (
                ("byModel: {Z9000", "byModel.Z9000", "a model"),
                ("byResource: {nvidia.com/mig-9g.999gb", "byResource.nvidia.com/mig-9g.999gb", "a weight"),
                ("weights: {example.com/vgpu", "weights.example.com/vgpu", "a name"),
            )
        ),
        pytest.param(
            {
                "_quotas.yaml": "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUQuotaPots\nmetadata: {name: _quotas}\n"
                "spec:\n  pots:\n  - {name: a, namespaces: [a], byModel: {Z9000: 1}}\n"
            },
            DEFAULT,
            "_quotas.yaml:6: spec.pots[0].byModel.Z9000",
            id="a model of a pot",
        ),
        pytest.param(
            {"_default.yaml": policy_text("_default", "gpuQuota: {mode: warn, byModel: {Z9000: 1}}")},
            {"other.yaml": policy_text("other")},
            "_default.yaml:6: spec.rules.gpuQuota.byModel.Z9000",
            id="a GPU that a _cuda.yaml of another ConfigMap may have",
        ),
        pytest.param(
            {"second.yaml": policy_text("second", namespaces="[team]")},
            DEFAULT | {"team.yaml": policy_text("team")},
            "team.yaml:3: metadata.name",
            id="a namespace that a file of another ConfigMap claims",
        ),
        pytest.param(
            {"_default.yaml": policy_text("_default")},
            DEFAULT | TEAM,
            "team.yaml:6: spec.rules.gpuLimits.mode",
            id="what the file of another ConfigMap inherits",
        ),
    ],
)
def test_what_is_wrong_only_together_is_a_doubt(new: Texts, mounted: Texts, doubt: str) -> None:
    """The others may be changing at the same moment, and what is mounted is a minute or two old."""
    found = checked(new, old=DEFAULT if "_default.yaml" in new else None, mounted=mounted)
    assert (found.errors, told(found.doubts)) == ((), [doubt])


def test_a_file_that_another_config_map_replaces_raises_no_doubts() -> None:
    """As the default that comes with the chart, where people have one of their own."""
    replaced = {"_default.yaml": policy_text("_default", "sharedMemory: {mode: warn}")}
    changed = {"_default.yaml": policy_text("_default", "sharedMemory: {mode: enforce}")}
    assert Checked() == checked(changed, old=replaced, mounted=DEFAULT | TEAM)
    mistaken = {"_default.yaml": policy_text("_default", "sharedMemory: {mod: enforce}")}
    assert told(checked(mistaken, old=replaced, mounted=DEFAULT | TEAM).errors) == [
        "_default.yaml:6: spec.rules.sharedMemory.mod",
        "_default.yaml:6: spec.rules.sharedMemory.mode",
    ]


def test_a_file_that_is_removed_or_renamed_does_not_speak_any_more() -> None:
    renamed = {"renamed.yaml": policy_text("renamed", namespaces="[team]")}
    assert Checked() == checked(DEFAULT | renamed, old=DEFAULT | TEAM, mounted=DEFAULT | TEAM)


def test_of_other_config_maps_nothing_is_advised() -> None:
    idle = {"idle.yaml": policy_text("idle", "priorityClass: {mode: enforce}")}
    found = checked({"own.yaml": policy_text("own", "priorityClass: {mode: warn}")}, mounted=DEFAULT | idle)
    assert [notice.partition(":")[0] for notice in found.notices] == ["own.yaml"]


PARTS = [
    *(policy_text("a", rules) for rules in ("gpuLimits: {}", "gpuLimits: {mode: warn}", "gpuLimits: {x: 1}", "{}")),
    policy_text("b", namespaces="[a]"),
    "[",
]
NAMES = ["_default.yaml", "a.yaml", "b.yaml"]
FILES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(PARTS))


@given(FILES, FILES)
def test_an_error_is_there_in_the_whole_directory_and_all_of_its_errors_are_told(new: Texts, mounted: Texts) -> None:
    current = build(contents_of(Path(), encoded(DEFAULT)))
    on_disk = encoded(mounted)
    old = {name: content for name, content in on_disk.items() if name in new}
    found = check_files(
        encoded(new), old, contents_of(Path(), {"z.yaml": policy_text("z").encode()} | on_disk), current
    )
    try:
        build(contents_of(Path(), {"z.yaml": policy_text("z").encode()} | on_disk | encoded(new)))
        expected: set[FileError] = set()
    except FileErrors as error:
        expected = set(error.errors)
    assert set(found.errors) <= expected <= {*found.errors, *found.doubts}
    assert {error.path for error in found.errors} <= set(new)


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


@pytest.mark.parametrize(
    "new",
    [
        pytest.param({"a.yaml": f"[{'1,' * MOST_VALUES}]"}, id="one file of many values"),
        pytest.param({f"{n}.yaml": "[1, 2, 3]" for n in range(MOST_VALUES // 5 + 1)}, id="many files"),
        pytest.param({f"{n}.yaml": "" for n in range(MOST_VALUES + 1)}, id="many empty files"),
        pytest.param({"a.yaml": "a: {" + ",".join(f"k{n}: 1" for n in range(MOST_VALUES // 2)) + "}"}, id="many keys"),
    ],
)
def test_A39_more_than_is_checked_is_not_read(new: Texts) -> None:
    with pytest.raises(TooLargeError, match=r"^together the policies have more than 50000 keys and values$"):
        checked(new, mounted=DEFAULT)


def test_A53_aliases_are_counted_as_what_they_stand_for() -> None:
    with pytest.raises(TooLargeError):
        checked({"a.yaml": f"a: &a [{'1,' * 1000}]\nb: [{'*a,' * 50}]"}, mounted=DEFAULT)


def test_A53_a_large_default_is_not_copied_for_any_number_of_files() -> None:
    default = {"_default.yaml": f"#{'x' * 2**19}\n{DEFAULT['_default.yaml']}"}
    teams = {f"t{number}.yaml": "" for number in range(40)}
    with pytest.raises(TooLargeError, match=r"^_default\.yaml times the files that may inherit it is more than"):
        checked(default | teams, mounted=DEFAULT)


def test_A53_of_ten_thousands_of_mistakes_not_each_is_kept() -> None:
    pool = f"&p {{{', '.join(f'k{number}: 1' for number in range(1000))}}}"
    pools = f"  nodePools: [{pool}, {'*p, ' * 20}]\n"
    found = checked({"team.yaml": policy_text("team") + pools}, mounted=DEFAULT)
    assert "team.yaml:1: holds 21021 mistakes, too many to name them; mend those of one kind, and check again" in map(
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


def test_the_directory_that_is_checked_is_the_one_that_is_loaded(tmp_path: Path) -> None:
    for name, text in (DEFAULT | MISTAKEN).items():
        (tmp_path / name).write_text(text)
    with pytest.raises(FileErrors) as refused:
        load(tmp_path)
    found = checked(DEFAULT | MISTAKEN, mounted=DEFAULT)
    assert [str(error).replace(f"{tmp_path}/", "") for error in refused.value.errors] == list(map(str, found.errors))


# Rows for the tables of CUDA


def rows(text: str) -> dict[str, str]:
    """A file of rows; `text` is YAML for the place behind `spec:`."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUCudaTables\nmetadata: {name: _cuda}\n"
    return {"_cuda.yaml": f"{head}spec: {text}\n"}


BRANCH = '{drivers: [{branch: 650, cuda: "14.0", source: me, date: unknown}]}'


def test_a_mistake_in_a_row_is_certain_in_whichever_config_map_it_stands() -> None:
    mistaken = rows(BRANCH.replace('"14.0"', "14.0"))
    alone = checked(mistaken, mounted=DEFAULT)
    together = checked(DEFAULT | mistaken, old=DEFAULT, mounted=DEFAULT)
    assert told(alone.errors) == told(together.errors) == ["_cuda.yaml:4: spec.drivers[0].cuda"]


def test_a_config_map_that_loses_the_rows_is_not_taken_up() -> None:
    had = DEFAULT | rows(BRANCH)
    lost = checked(DEFAULT, old=had, mounted=had)
    assert (lost.errors, [error.path for error in lost.doubts]) == ((), ["_cuda.yaml"])
    assert checked(DEFAULT | rows("{}"), old=had, mounted=had) == Checked()

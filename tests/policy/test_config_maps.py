"""What is wrong with a ConfigMap of policies before it is mounted: certain mistakes, doubts and advice."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.policy.checked_config_maps import (
    DEFAULT,
    MISTAKEN,
    SHIPPED,
    TEAM,
    UNKNOWN_KEY,
    Texts,
    checked,
    encoded,
    told,
)
from tests.policy.conftest import policy_text
from webhook.policy.config_maps import Checked, check_files
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.yaml_files.file_errors import FileError, FileErrors

# What is taken away

QUOTAS = {
    "_default.yaml": policy_text("_default", "gpuQuota: {mode: disabled}\ngpuLimits: {mode: enforce, maxPerPod: 4}"),
    "team.yaml": policy_text("team", "gpuQuota: {mode: enforce, gpus: 8}"),
    "_quotas.yaml": (
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"
        "spec: {quotas: [{name: research, namespaces: [a], mode: enforce, gpus: 4}]}\n"
    ),
}
GONE = "team.yaml: namespace team has the policy _default now, and no quota any more"


@each(
    "changed, expected",
    {
        "the file": ({"team.yaml": None}, [GONE]),
        "the quota alone": (
            {"team.yaml": policy_text("team", "gpuLimits: {}")},
            ["team.yaml: namespace team has the policy team now, and no quota any more"],
        ),
        "renamed": (
            {"team.yaml": None, "other.yaml": policy_text("other", "gpuQuota: {mode: enforce, gpus: 8}", "[team]")},
            [],
        ),
        "under a glob": (
            {"team.yaml": None, "other.yaml": policy_text("other", "gpuQuota: {mode: enforce, gpus: 8}", "[te*]")},
            ["team.yaml: namespace team has the policy other now"],
        ),
        "a shared quota": (
            {"_quotas.yaml": QUOTAS["_quotas.yaml"].replace("research", "others")},
            ["_quotas.yaml: the shared quota research is no longer there"],
        ),
        "nothing": ({}, []),
    },
)
@pytest.mark.parametrize("others", [{}, {"web.yaml": policy_text("web", "gpuLimits: {}")}], ids=["alone", "beside"])
def test_what_namespaces_lose_is_said_when_it_is_applied(changed, expected: list[str], others: Texts) -> None:
    new = {name: text for name, text in {**QUOTAS, **changed}.items() if text is not None}
    found = checked(new, old=QUOTAS, mounted=QUOTAS | others)
    assert (found.errors, found.doubts) == ((), ())
    assert [one for one in found.notices if "does nothing" not in one] == expected


# One ConfigMap is the whole directory


def test_a_mistake_is_named_by_the_key_of_the_config_map_the_line_and_the_key_in_it() -> None:
    (error,) = checked(DEFAULT | MISTAKEN, old=DEFAULT, mounted=DEFAULT).errors
    assert str(error).startswith(f"{UNKNOWN_KEY}: unknown key; known keys are ")


def test_what_is_shipped_has_no_mistake_and_nothing_to_be_said_of() -> None:
    shipped = {file.name: file.read_text() for file in SHIPPED.glob("*.yaml")}
    assert Checked() == checked(shipped, old=shipped, mounted=shipped)


@each(
    "new, expected",
    {
        "nothing is left": ({}, ["holds no policy file; write _default.yaml or <namespace>.yaml"]),
        "no policy": ({"README.md": "a"}, ["holds no policy file; write _default.yaml or <namespace>.yaml"]),
        "a name that is none": (DEFAULT | {"a.yml": "a"}, ["a.yml: policy files end in .yaml; rename it to a.yaml"]),
        "a mode that the default said, in the same change": (
            {"team.yaml": policy_text("team", "gpuLimits: {}")},
            [
                "team.yaml:6: spec.rules.gpuLimits.mode: missing, here and in _default.yaml; write one of enforce, "
                "warn, audit, disabled"
            ],
        ),
        "quotas": (
            DEFAULT
            | {"_quotas.yaml": "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nspec: {quotas: [7]}\n"},
            [
                "_quotas.yaml:1: metadata: missing; write a map",
                "_quotas.yaml:3: spec.quotas[0]: 7 is a number; write a map",
            ],
        ),
    },
)
def test_where_nothing_else_is_mounted_every_mistake_is_certain(new: Texts, expected: list[str]) -> None:
    found = checked(new, old=DEFAULT, mounted=DEFAULT)
    assert ([str(error) for error in found.errors], found.doubts) == (expected, ())


def test_what_does_nothing_is_said_as_policy_check_says_it() -> None:
    idle = DEFAULT | {"team.yaml": policy_text("team", "sharedMemory: {mode: audit}\npriorityClass: {mode: enforce}")}
    (notice,) = checked(idle, old=DEFAULT, mounted=DEFAULT).notices
    assert notice.startswith("team.yaml:7: spec.rules.priorityClass: does nothing in mode enforce; ")


@each(
    "new, expected",
    {
        "no default": (TEAM | {"team.yaml": policy_text("team")}, "_default.yaml: the file is gone"),
        "names of GPUs": (
            {
                "_default.yaml": DEFAULT["_default.yaml"]
                + "  accelerators: {extra: [{name: example.com/vgpu, vendor: nvidia}]}\n"
            },
            "_default.yaml: spec.accelerators.extra: differs from the names of GPUs with w",
        ),
    },
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


@each(
    "new, mounted",
    {
        "the default of another ConfigMap has the mode": (TEAM, DEFAULT),
        "the file of another inherits from this default": (DEFAULT, TEAM | DEFAULT),
        "no file yet": ({}, DEFAULT),
    },
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
                "_quotas.yaml": "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"
                "spec:\n  quotas:\n  - {name: a, namespaces: [a], byModel: {Z9000: 1}}\n"
            },
            DEFAULT,
            "_quotas.yaml:6: spec.quotas[0].byModel.Z9000",
            id="a model of a shared quota",
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

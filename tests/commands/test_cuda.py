"""`gpu-policy cuda check`: answers that programs rely on, one for each question whatever it holds."""

import json
from pathlib import Path

import pytest

from tests.cuda_command import A100, CUDA_12, CUDA_13, V100, answer, batch, run
from tests.golden import each


@each(
    "args, verdict, gate, status",
    {
        "native": ((CUDA_12, "--driver", "550.54.15", *A100), "compatible", "pass", 0),
        "GPU too old": ((CUDA_13, "--driver", "580.65.06", *V100), "incompatible", "pass", 1),
        "by cuda-compat": ((CUDA_13, "--driver", "535.183.01", *A100), "forward-compat-only", "pass", 0),
        "nothing said of the node": ((CUDA_12,), "unknown", "unknown", 0),
        "no CUDA": (("python:3.12-slim",), "compatible", "n/a", 0),
    },
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_the_exit_status_says_whether_anything_is_incompatible(args, verdict, gate, status, output) -> None:
    found = run("check", *args, "--output", output)
    assert status == found.exit_code
    assert verdict in found.stdout
    told = answer(*args)
    assert (told["image"], told["verdict"], told["legacyGate"]) == (args[0], verdict, gate)


def test_people_are_told_need_evidence_reason_and_remedy() -> None:
    found = run("check", CUDA_13, "--driver", "580.65.06", *V100).stdout
    assert found.splitlines()[:2] == [
        f"incompatible         {CUDA_13}",
        "    needs CUDA 13.0.0: tag 13.0.0-base-ubuntu24.04 of nvidia/cuda",
    ]
    assert "Tesla-V100-SXM2-32GB" in found
    assert "12.9" in found.splitlines()[-1]


@each(
    "image, is_told",
    {
        "an image that says nothing": ("registry.corp/team/app:1", True),
        "an image on a node of which nothing is known": (CUDA_12, False),
    },
)
def test_people_are_told_how_to_say_what_an_unknown_image_needs(image: str, is_told: bool) -> None:
    found = run("check", image).stdout
    assert all((word in found) == is_told for word in ("--resolve", "images:", "--env CUDA_VERSION="))
    assert "own check" not in found


@each(
    "image, is_told",
    {
        "nobody knows": ("nvcr.io/nvidia/pytorch:24.09-py3", True),
        "known by the release": ("ollama/ollama:0.9.0", False),
        "without CUDA": ("python:3.12", False),
    },
)
def test_people_are_told_if_the_processors_of_an_image_are_not_known(image: str, is_told: bool) -> None:
    found = run("check", image, "--driver", "580.95.05", "--product", "NVIDIA-L4", "--arch", "arm64").stdout
    assert ("CPU architecture not known" in found) == is_told


def test_the_environment_of_the_container_counts_and_a_later_variable_beats_an_earlier_one() -> None:
    told = answer("registry.corp/app:1", "--env", "CUDA_VERSION=11.8.0", "--env", "CUDA_VERSION=12.4.1")
    assert (told["cuda"], told["evidence"]) == ("12.4.1", "env CUDA_VERSION=12.4.1")


def test_what_is_said_of_cuda_compat_beats_what_is_known_of_the_image() -> None:
    node_of = (CUDA_13, "--driver", "535.183.01", *A100)
    verdicts = [answer(*node_of, "--cuda-compat", word)["verdict"] for word in ("yes", "unknown", "no")]
    assert verdicts == ["forward-compat-only", "forward-compat-only", "incompatible"]


@each(
    "args, text",
    {
        "driver": ((CUDA_12, "--driver", "abc", *A100), '"abc"'),
        "compute capability": ((CUDA_12, "--driver", "550.54.15", "--compute-capability", "new"), '"new"'),
        "image": (("Not//An:Image:", "--driver", "550.54.15"), "Not//An:Image:"),
        "variable": (("registry.corp/app:1", "--env", "CUDA_VERSION=$V", *A100), "$V"),
    },
)
def test_what_cannot_be_read_makes_a_verdict_unknown_that_needs_it_and_stands_in_the_reason(args, text) -> None:
    told = answer(*args)
    assert (told["verdict"], text in told["reason"]) == ("compatible" if text == '"new"' else "unknown", True)


@each(
    "args",
    {
        "no image": ("check",),
        "an image and a batch": ("check", CUDA_12, "--batch", "-"),
        "a batch and a node": ("check", "--batch", "-", "--driver", "550.54.15"),
        "a batch and a variable": ("check", "--batch", "-", "--env", "A=b"),
        "no such file": ("check", "--batch", "nowhere.jsonl"),
        "two kinds of nodes": ("check", CUDA_12, "--inventory", "a.yaml", "--driver", "550.54.15"),
        "no such inventory": ("check", CUDA_12, "--inventory", "nowhere.yaml"),
        "a variable without a value": ("check", CUDA_12, "--env", "CUDA_VERSION"),
        "no word for cuda-compat": ("check", CUDA_12, "--cuda-compat", "maybe"),
        "no such policies": ("check", CUDA_12, "--policies", "nowhere"),
        "registries that are not to be asked": ("check", CUDA_12, "--registries", "a.yaml"),
        "no such list of registries": ("check", CUDA_12, "--resolve", "--registries", "nowhere.yaml"),
        "results of whose registries": ("check", CUDA_12, "--resolve", "--image-results", "a/b"),
        "nodes of no cluster": ("nodes",),
    },
)
def test_options_that_make_no_sense_are_told_with_status_2(args) -> None:
    found = run(*args)
    assert found.exit_code == 2
    assert found.stderr
    assert not found.stdout


def test_a_batch_is_answered_line_by_line_in_order() -> None:
    answers, status = batch(
        {"image": CUDA_13, "driver": "580.65.06", "product": "Tesla-V100-SXM2-32GB", "compute-capability": "7.0"},
        {"image": "python:3.12-slim"},
        {"image": CUDA_13, "driver": "535.183.01", "product": "NVIDIA-A100-SXM4-80GB", "cuda-compat": "no"},
        {"image": "registry.corp/app:1", "env": {"CUDA_VERSION": "12.4.1"}, "driver": "550.54.15", "arch": "amd64"},
        {"image": CUDA_12, "env": None, "driver": None, "product": None, "compute-capability": None},
    )
    assert [(each["image"], each["cuda"], each["verdict"]) for each in answers] == [
        (CUDA_13, "13.0.0", "incompatible"),
        ("python:3.12-slim", "none", "compatible"),
        (CUDA_13, "13.0.0", "incompatible"),
        ("registry.corp/app:1", "12.4.1", "compatible"),
        (CUDA_12, "12.4.1", "unknown"),
    ]
    assert status == 1


def test_a_batch_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "images.jsonl").write_text(json.dumps({"image": "python:3.12"}))
    found = run("check", "--batch", tmp_path / "images.jsonl")
    assert (json.loads(found.stdout)["cuda"], found.exit_code) == ("none", 0)


@each(
    "line, image, text",
    {
        "no JSON": ("nonsense", "", "line 2: not JSON"),
        "half of an object": ('{"image": "a"', "", "line 2: not JSON"),
        "a list": ("[]", "", "line 2: found a list"),
        "null": ("null", "", "line 2: found null"),
        "no image": ("{}", "", "line 2: no image"),
        "an empty image": ('{"image": ""}', "", "line 2: no image"),
        "an image that is no text": ('{"image": ["a"]}', "", "line 2: image: found a list"),
        "an environment that is a list": ('{"image": "a", "env": []}', "a", "line 2: env: found a list"),
        "a value that is none": ('{"image": "a", "env": {"B": {}}}', "a", "line 2: env.B: found a map"),
        "a driver that is true": ('{"image": "a", "driver": true}', "a", "line 2: driver: found true"),
        "no UTF-8": (b'{"image": "\xff"}', "", "line 2: not UTF-8"),
        "deeper than anybody reads": ("[" * 100_000, "", "line 2: not JSON"),
    },
)
def test_a_broken_line_is_answered_in_its_place_and_stops_nothing(line, image, text) -> None:
    answers, status = batch({"image": "python:3.12"}, line, {"image": "python:3.13"})
    assert [each["image"] for each in answers] == ["python:3.12", image, "python:3.13"]
    assert answers[1]["reason"].startswith(text)
    assert (answers[1]["cuda"], answers[1]["evidence"]) == ("unknown", "none")
    assert (answers[1]["verdict"], answers[1]["legacyGate"]) == ("unknown", "unknown")
    assert status == 2


def test_what_windows_adds_to_files_and_empty_lines_at_the_end_say_nothing() -> None:
    answers, status = batch(b'\xef\xbb\xbf{"image": "python:3.12"}\r', "", " \r", "")
    assert [each["image"] for each in answers] == ["python:3.12"]
    assert status == 0


def test_numbers_in_a_batch_keep_every_digit() -> None:
    (told,), _ = batch(
        '{"image": "a/b:1", "env": {"CUDA_VERSION": 12.10}, "driver": 550.100, "compute-capability": 8.0}'
    )
    assert told["cuda"] == "12.10"
    assert "550.100" in told["reason"]


def test_what_a_batch_says_beyond_the_question_is_passed_over_and_named() -> None:
    (told,), status = batch({"image": "python:3.12", "id": 7, "cuda-compat": "perhaps"})
    assert (told["verdict"], status) == ("compatible", 0)
    assert 'ignored "id"' in told["reason"]
    assert 'cuda-compat is "perhaps"' in told["reason"]


def test_what_yaml_made_a_boolean_counts_as_the_word_that_was_meant() -> None:
    """`yes` in a YAML file that somebody turned into JSON lines, and a variable that is true."""
    node = {"driver": "535.183.01", "product": "Tesla-T4"}
    answers, status = batch(
        {"image": CUDA_13, **node, "cuda-compat": True},
        {"image": CUDA_13, **node, "cuda-compat": False},
        {"image": "registry.corp/app:1", **node, "env": {"CUDA_VERSION": "13.0", "NVIDIA_DISABLE_REQUIRE": True}},
    )
    assert [each["verdict"] for each in answers] == ["forward-compat-only", "incompatible", "unknown"]
    assert answers[2]["legacyGate"] == "pass"
    assert status == 1

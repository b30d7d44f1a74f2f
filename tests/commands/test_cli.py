"""Commands: exit statuses that scripts rely on, the same whatever the format, and errors without tracebacks."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.command_line import INVENTORY, POLICY, gpu_policy, with_sample_files
from tests.reviews import pod, requests_only

ROOT = Path(__file__).parents[2]
OUTPUTS = ["text", "json", "diff"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with policies and manifests, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return with_sample_files(tmp_path)


def serve(*args: object) -> Result:
    """`gpu-policy serve` as a real process, which checks what it is given in another one; it must end by itself."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBERNETES_SERVICE_HOST"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "webhook", "serve", *map(str, args)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)
    return Result(CliRunner(), done.stdout, done.stderr, b"", None, done.returncode, None)


def review_json(*args: object, **kwargs: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gpu_policy("review", *args, "--output", "json", **kwargs).stdout)
    assert (document["apiVersion"], document["kind"]) == ("gpupolicy.dev/v1alpha1", "ReviewList")
    return document


@pytest.mark.parametrize("output", OUTPUTS)
def test_review_judges_the_last_value_of_a_key_that_stands_twice_and_names_both_lines(here: Path, output: str) -> None:
    (here / "twice.yaml").write_text("kind: Gone\n" + yaml.safe_dump(pod(9)))
    result = gpu_policy("review", "twice.yaml", "--output", output)
    line = (here / "twice.yaml").read_text().splitlines().index("kind: Pod") + 1
    assert result.exit_code == 1
    told = f"warning: twice.yaml:{line}: the key 'kind' is set twice in one map, in line 1 and in line {line}; kubectl"
    assert result.stderr.startswith(told)
    assert gpu_policy("review", "twice.yaml", "--strict", "--output", output).exit_code == 2


def test_an_inventory_is_the_file_that_is_there_when_the_command_runs(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same relative path another directory has another file, and what was written anew is read anew."""
    other = here / "other"
    other.mkdir()
    told = []
    for place, text in ((here, INVENTORY), (other, "kind: Node\nmetadata: {}\n"), (other, "kind: PriorityClass\n")):
        monkeypatch.chdir(place)
        Path("facts.yaml").write_text(text)
        told.append(
            gpu_policy(
                "review", here / "good.yaml", "--policies", here / "policies", "--inventory", "facts.yaml"
            ).stderr
        )
    start = "warning: facts.yaml: 1 of 1 objects of kind"
    assert told == [
        "",
        f"{start} Node has no name and is left out\n",
        f"{start} PriorityClass has no name and is left out\n",
    ]


UIDS = {"a": "7", "b": None, "c": "0b2c4d3e-0000-4000-8000-000000000001"}


@pytest.mark.parametrize("command", ["review", "audit"])
def test_what_of_an_inventory_could_not_be_used_is_told_once(here: Path, command: str) -> None:
    nameless = {"apiVersion": "v1", "kind": "Node", "metadata": {}}
    items = [nameless, *({"kind": "Pod", **pod(1, name=name, uid=uid)} for name, uid in UIDS.items())]
    file = here / "odd.yaml"
    file.write_text(yaml.safe_dump({"kind": "List", "items": items}))
    result = gpu_policy(command, "good.yaml", "--inventory", file)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"warning: {file}: 1 of 1 objects of kind Node has no name and is left out",
        f"warning: {file}: pod team/a does not count against quotas: metadata.uid '7' is no UUID",
    ]


STATUSES = [
    pytest.param(["good.yaml"], 0, id="allowed"),
    pytest.param(["bad.yaml"], 1, id="refused"),
    pytest.param(["good.yaml", "bad.yaml", "good.yaml"], 1, id="one refused of three"),
    pytest.param(["broken.yaml"], 2, id="unreadable"),
    pytest.param(["bad.yaml", "broken.yaml"], 2, id="refused, then unreadable"),
    pytest.param(["broken.yaml", "bad.yaml", "good.yaml"], 2, id="unreadable, then refused"),
    pytest.param(["missing.yaml", "good.yaml"], 2, id="missing file"),
    pytest.param(["empty.yaml"], 2, id="empty file"),
    pytest.param(["."], 2, id="directory with all of them"),
    pytest.param(["good.yaml", "--policies", "nowhere"], 2, id="no policies"),
    pytest.param(["good.yaml", "--inventory", "nowhere"], 2, id="no inventory"),
    pytest.param(["good.yaml", "--inventory", "broken.yaml"], 2, id="broken inventory"),
    pytest.param(["good.yaml", "--kubeconfig", "nowhere"], 2, id="no kubeconfig"),
    pytest.param(["good.yaml", "--kubeconfig", "a", "--inventory", "b"], 2, id="two sources of facts"),
    pytest.param([], 2, id="nothing to review"),
    pytest.param(["good.yaml", "--bogus"], 2, id="unknown option"),
]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(("args", "status"), STATUSES)
def test_the_exit_status_of_review_is_the_same_whatever_the_format(
    here: Path, args: list[str], status: int, output: str
) -> None:
    result = gpu_policy("review", *args, "--output", output)
    assert result.exit_code == status, result.output


@pytest.mark.parametrize(("args", "status"), [(["good.yaml"], 0), (["bad.yaml"], 1), (["bad.yaml", "broken.yaml"], 2)])
def test_the_process_ends_with_that_status(here: Path, args: list[str], status: int) -> None:
    command = [sys.executable, "-m", "webhook", "review", *args]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, "")
    assert " reviewed, " in done.stdout


def test_a_process_whose_output_knows_no_unicode_still_ends_with_its_status(here: Path) -> None:
    (here / "good.yaml").write_text(yaml.safe_dump(pod(9, name="é\u2028"), allow_unicode=True), encoding="utf-8")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX"}
    command = [sys.executable, "-m", "webhook", "review", "good.yaml"]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    for output in OUTPUTS:
        result = gpu_policy("review", "good.yaml", "--output", output, charset="ascii")
        assert (result.exit_code, result.stderr) == (1, "")


def test_standard_input_is_reviewed(here: Path) -> None:
    both = f"{yaml.safe_dump(pod(1))}---\n{yaml.safe_dump(pod(9))}"
    document = review_json("-", stdin=both)
    assert [(item["source"], item["document"], item["allowed"]) for item in document["items"]] == [
        ("-", 1, True),
        ("-", 2, False),
    ]


def test_standard_input_of_any_bytes_is_an_error_with_its_line(here: Path) -> None:
    (error,) = review_json("-", stdin=b"a: 1\n\xff\xfe")["errors"]
    assert (error["source"], error["line"]) == ("-", 2)


def test_a_broken_file_is_named_with_its_line_and_the_rest_is_reviewed(here: Path) -> None:
    document = review_json("broken.yaml", "missing.yaml", "good.yaml", "bad.yaml")
    assert document["errors"] == [
        {
            "source": "broken.yaml",
            "document": 1,
            "line": 3,
            "message": "a git conflict marker; resolve the conflict",
        },
        {
            "source": "missing.yaml",
            "document": 0,
            "line": None,
            "message": "cannot be read: No such file or directory",
        },
    ]
    assert [item["allowed"] for item in document["items"]] == [True, False]


@pytest.mark.parametrize("output", ["text", "diff"])
def test_people_get_the_same_facts(here: Path, output: str) -> None:
    shown = gpu_policy("review", "broken.yaml", "good.yaml", "bad.yaml", "--output", output).stdout
    assert "broken.yaml:3: a git conflict marker; resolve the conflict" in shown
    assert "gpuLimits: spec: requests 9 GPUs; the policy allows at most 4 per pod. Request 4 or fewer." in shown
    assert "nvidia.com/gpu" in shown


def test_the_namespace_given_is_that_of_objects_that_name_none(here: Path) -> None:
    (here / "policies" / "lax.yaml").write_text(
        POLICY.replace("_default", "lax").replace("maxPerPod: 4", "maxPerPod: 16")
    )
    raw = pod(9)
    del raw["metadata"]["namespace"]
    (here / "none.yaml").write_text(yaml.safe_dump(raw))
    assert gpu_policy("review", "none.yaml").exit_code == 1
    (item,) = review_json("none.yaml", "--namespace", "lax")["items"]
    assert (item["object"]["namespace"], item["policy"], item["allowed"]) == ("lax", "lax", True)
    assert gpu_policy("review", "bad.yaml", "-n", "lax").exit_code == 1


def test_the_inventory_says_what_the_cluster_has(here: Path) -> None:
    def paths(*args: str) -> list[str]:
        return [operation["path"] for operation in review_json("good.yaml", *args)["items"][0]["patch"]]

    assert "/spec/runtimeClassName" not in paths()
    assert "/spec/runtimeClassName" in paths("--inventory", "inventory.yaml")


def test_options_can_come_from_the_environment(here: Path) -> None:
    (here / "policies").rename(here / "elsewhere")
    assert gpu_policy("review", "good.yaml", env={"GPU_POLICY_REVIEW_POLICIES": "elsewhere"}).exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        "review good.yaml",
        "audit good.yaml",
        "audit good.yaml --against policies",
        "policy check",
        "policy show team",
        "serve --cert c --key k",
    ],
)
def test_a_bad_policy_is_told_with_file_line_and_key_and_status_2(here: Path, command: str) -> None:
    (here / "policies" / "_default.yaml").write_text(POLICY.replace("maxPerPod", "maxPerPot"))
    (here / "policies" / "team.yaml").write_text("7")
    result = serve(*command.split()[1:]) if command.startswith("serve") else gpu_policy(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "policies/_default.yaml:8: spec.rules.gpuLimits.maxPerPot: unknown key" in result.stderr
    assert "policies/team.yaml:1: " in result.stderr


@pytest.mark.parametrize("command", ["review good.yaml", "policy check", "serve --cert c --key k"])
def test_an_empty_directory_of_policies_is_an_error_with_status_2(here: Path, command: str) -> None:
    (here / "policies" / "_default.yaml").unlink()
    result = serve(*command.split()[1:]) if command.startswith("serve") else gpu_policy(*command.split())
    assert result.exit_code == 2
    assert "policies" in result.stderr


def test_certs_makes_files_and_leaves_good_ones_alone(tmp_path: Path) -> None:
    assert gpu_policy("certs", tmp_path / "c", "--name", "localhost").exit_code == 0
    before = (tmp_path / "c" / "tls.crt").read_bytes()
    assert gpu_policy("certs", tmp_path / "c", "--name", "localhost").exit_code == 0
    assert (tmp_path / "c" / "tls.crt").read_bytes() == before


def test_certs_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file")
    result = gpu_policy("certs", tmp_path / "c", "--name", "localhost")
    assert result.exit_code == 2
    assert result.stderr


def test_serve_without_a_certificate_says_how_to_get_one(here: Path) -> None:
    result = serve("--cert", "c", "--key", "k", "--inventory", "inventory.yaml")
    assert (result.exit_code, result.stderr) == (
        2,
        "c: no such file; `gpu-policy certs` makes a certificate and its key\n",
    )


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        pytest.param(
            [],
            "no source of facts about the cluster: this process does not run in a pod; give --inventory or --kub",
            id="none",
        ),
        pytest.param(["--inventory", "inventory.yaml", "--kubeconfig", "k"], "exclude each other", id="two"),
        pytest.param(["--kubeconfig", "nowhere"], "nowhere: no such file", id="no kubeconfig"),
        pytest.param(["--inventory", "nowhere"], "nowhere: the file cannot be read", id="no inventory"),
    ],
)
def test_serve_without_a_usable_source_of_facts_says_so_at_once(here: Path, args: list[str], reason: str) -> None:
    (here / "c").touch()
    result = serve("--cert", "c", "--key", "c", *args)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("command", ["", "review", "serve", "policy", "policy check", "certs", "audit", "test"])
def test_help_is_help(command: str) -> None:
    assert "Usage:" in gpu_policy(*command.split(), "--help").stdout


def test_the_version_is_told() -> None:
    assert gpu_policy("--version").stdout.startswith("gpu-policy, version ")


def test_what_the_webhook_would_refuse_review_explains(here: Path) -> None:
    (here / "r.yaml").write_text(yaml.safe_dump(requests_only(4)))
    (violation,) = review_json("r.yaml")["items"][0]["violations"]
    assert violation == {
        "rule": "gpuLimits",
        "mode": "enforce",
        "field": "spec.containers[c0].resources",
        "message": "nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits. "
        "Move the 4 to resources.limits.",
    }

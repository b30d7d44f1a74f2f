"""Commands as people use them: examples of the help, colours and widths of terminals, and input that cannot be used."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import ROOT, gpu_policy
from tests.commands.test_main import COMMANDS
from tests.facts.fake_api_server import always, fake_api_server
from tests.facts.served_kinds import aggregated
from tests.golden import each, golden
from webhook.admission import logs
from webhook.commands.inputs import console

REVIEW = ["review", "examples/9-steered.yaml", "--inventory", "examples/inventory.yaml"]
SOON = f"{datetime.now(UTC) + timedelta(days=7):%Y-%m-%d}"
SHORT_NAMES = {"cj": "CronJob", "deploy": "Deployment", "ds": "DaemonSet", "rs": "ReplicaSet", "sts": "StatefulSet"}
CLUSTER = ["--inventory", "examples/cluster.yaml"]


@pytest.fixture(autouse=True)
def at_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_each_help_has_examples_that_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "configure", lambda _: None)
    monkeypatch.setattr("webhook.commands.serve.run_apart", lambda check: check())
    monkeypatch.setattr("webhook.server.process.serve", lambda *_: None)
    lines: dict[str, None] = {"gpu-policy certs /tmp/tls --name localhost": None}  # before what serves them
    for path in COMMANDS:
        help_, _, below = gpu_policy(*path, "--help").stdout.partition("\n  Examples:\n")
        assert help_.startswith("Usage:")
        assert below, path
        lines |= dict.fromkeys(map(str.strip, below.splitlines()))
    with fake_api_server() as server:
        server.instead["/api"] = server.instead["/apis"] = aggregated({"": [("v1", {"Pod": "pods"})]})
        server.under["/api/v1/namespaces"] = server.under["/apis/"] = always(404, {"message": "not found"})
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        for line in lines:
            name, *words = shlex.split(line.replace("/tmp/", f"{tmp_path}/"))
            done = gpu_policy(*words)
            assert name == "gpu-policy"
            assert done.exit_code in (0, 1) or "--cluster" in words, (line, done.output)


def at_a_terminal(*words: str, columns: int = 80, **env: str) -> str:
    """What a command, or else a review, prints at a terminal."""
    master, slave = pty.openpty()
    variables = {"PATH": "", "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": str(columns), **env}
    command = [sys.executable, "-m", "webhook", *(words or REVIEW)]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=variables, cwd=ROOT) as process:
        os.close(slave)
        said = b""
        try:
            while part := os.read(master, 65_536):
                said += part
        except OSError:  # the other end is closed
            pass
        process.wait(60)
    os.close(master)
    return said.decode()


@each(
    "env, has_colours",
    {
        "a terminal": ({}, True),
        "NO_COLOR": ({"NO_COLOR": "1"}, False),
        "an empty NO_COLOR says nothing": ({"NO_COLOR": ""}, True),
        "a dumb terminal": ({"TERM": "dumb"}, False),
        "in ASCII": ({"LANG": "C", "LC_ALL": "C"}, True),
    },
)
def test_a_terminal_gets_colours_if_it_wants_them_and_a_diff(env: dict[str, str], has_colours: bool) -> None:
    said = at_a_terminal(**env)
    assert bool(re.search(r"\x1b\[[\d;]+m", said)) is has_colours
    assert re.search(r"^(\x1b\[\d+m)?\+  tolerations:", said, re.MULTILINE)


def test_a_narrow_terminal_wraps_between_words_and_a_pipe_cuts_nothing() -> None:
    last = "1 reviewed, 0 refused, 1 completed, 0 unreadable"
    assert last in gpu_policy(*REVIEW, env={"COLUMNS": "20"}).stdout.splitlines()
    assert "unreadable" in at_a_terminal(columns=40, NO_COLOR="1").splitlines()[-1].split()
    said = at_a_terminal("nodes", "--inventory", "examples/inventory.yaml", columns=40, NO_COLOR="1")
    assert "DRIVER 580.95.05, NEWEST CUDA" in " ".join(said.split())


def test_a_locale_of_ascii_gets_no_other_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python itself writes UTF-8 there."""
    assert not console().options.ascii_only
    monkeypatch.setattr("locale.getencoding", lambda: "ANSI_X3.4-1968")
    assert console().options.ascii_only


def test_help_fits_into_a_narrow_terminal() -> None:
    text, _, _ = gpu_policy("top", "--help", env={"COLUMNS": "40"}).stdout.partition("Examples:")
    assert [line for line in text.splitlines() if len(line) > 40] == []


def test_a_table_that_is_piped_is_as_wide_as_its_content(tmp_path: Path) -> None:
    product = "NVIDIA-" + "A" * 56
    text = Path("examples/inventory.yaml").read_text().replace("NVIDIA-A100-SXM4-80GB", product)
    (tmp_path / "inventory.yaml").write_text(text)
    assert f"{product}  580.95.05 " in gpu_policy("nodes", "--inventory", tmp_path / "inventory.yaml").stdout


@golden
def test_json_and_yaml_are_one_document_in_all_commands(command: str) -> None:
    def without_times(text: str) -> str:
        return re.sub(r"20\d\d-\d\d-\d\d.\d\d:\d\d:\d\d[^\s'\"]*", "", text)

    as_json, as_yaml = (gpu_policy(*command.split(), "-o", form).stdout for form in ("json", "yaml"))
    found = json.loads(without_times(as_json))
    assert found
    assert yaml.safe_load(without_times(as_yaml)) == found


def test_an_output_that_is_no_format_is_a_file(tmp_path: Path) -> None:
    report = tmp_path / "json"
    gpu_policy("audit", "examples/5-cpu-only.yaml", "--format", "json", "-o", report)
    assert json.loads(report.read_text())["kind"] == "AuditReport"


@golden
def test_what_cannot_be_used_is_answered_with_what_to_do(command: str, said: str) -> None:
    done = gpu_policy(*shlex.split(command))
    assert (done.exit_code, said in done.output) == (2, True), done.output


# explain, policy


@each("written", {"its name": "gpuLimits", "in other letters": "gpu-limits", "and more": "GPU_LIMITS"})
def test_a_rule_is_explained_as_on_the_page_of_rules(written: str) -> None:
    said = gpu_policy("explain", written).stdout.strip()
    assert said.startswith("### `gpuLimits`")
    assert said in Path("docs/rules.md").read_text()


def test_all_rules_are_listed_where_none_is_named() -> None:
    assert "- `gpuLimits`: Containers request" in gpu_policy("explain").stdout


def test_only_changes_are_shown_each_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "_default.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\nspec:\n"
        "  contact: '#gpu'\n  rules:\n    runtimeClass: {mode: disabled}\n"
        "    sharedMemory: {mode: warn, minGpus: 1}\n    ncclEnv: {mode: enforce, env: {A: '1', B: '2'}}\n"
    )
    (tmp_path / "team.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: team}\nspec:\n  contact: '#team'\n"
        "  rules:\n    ncclEnv: {env: {B: '3'}}\n    gpuQuota: {mode: enforce, gpus: 2}\n"
    )
    done = gpu_policy("policy", "show", "team", "--changed", "--policies", tmp_path)
    lines = [re.sub(r" +#", " #", line.replace(f"{tmp_path}/", "")) for line in done.stdout.splitlines()]
    assert lines[1:-2] == [
        "contact: '#team' # team.yaml:5",
        "rules.sharedMemory.mode: warn # _default.yaml:8",
        "rules.ncclEnv.mode: enforce # _default.yaml:9",
        "rules.ncclEnv.env.A: '1' # _default.yaml:9",
        "rules.ncclEnv.env.B: '3' # team.yaml:7",
        "rules.gpuQuota.mode: enforce # team.yaml:8",
        "rules.gpuQuota.gpus: 2 # team.yaml:8",
    ]
    rows = json.loads(gpu_policy("policy", "show", "team", "--changed", "--policies", tmp_path, "-o", "json").stdout)
    assert rows[0] == {"key": "contact", "value": "#team", "file": f"{tmp_path}/team.yaml", "line": 5}


def test_a_first_policy_is_written_from_options_or_answers_and_never_over_another(tmp_path: Path) -> None:
    done = gpu_policy("policy", "init", "--output", tmp_path / "a", "--yes", "--quota", "16", "--mode", "enforce")
    assert done.exit_code == 0
    assert "1 policy" in gpu_policy("policy", "check", tmp_path / "a").stdout
    answers = gpu_policy("policy", "init", "-o", tmp_path / "b", stdin="enforce\n\n\n16\n\n")
    assert answers.exit_code == 0, answers.output
    written = (tmp_path / "b" / "_default.yaml").read_text()
    assert written == (tmp_path / "a" / "_default.yaml").read_text()
    assert yaml.safe_load(written)["spec"]["rules"]["gpuQuota"] == {"mode": "enforce", "gpus": 16}
    assert gpu_policy("policy", "init", "-o", tmp_path / "a", "--yes").exit_code == 2
    assert (tmp_path / "a" / "_default.yaml").read_text() == written
    assert gpu_policy("policy", "init", "-o", tmp_path / "c", stdin="").exit_code == 2
    assert not (tmp_path / "c").exists()


OF_A_KEY = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
OF_A_VALUE = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


@each(
    "taint, toleration",
    {
        "any value": ("dedicated", OF_A_KEY),
        "one value": ("dedicated=gpu", OF_A_VALUE),
        "all three parts": ("dedicated=gpu:NoSchedule", OF_A_VALUE),
        "an effect": ("dedicated:NoExecute", {**OF_A_KEY, "effect": "NoExecute"}),
    },
)
def test_a_taint_is_written_as_for_kubectl(tmp_path: Path, taint: str, toleration: dict[str, str]) -> None:
    assert gpu_policy("policy", "init", "-o", tmp_path, "--yes", "--taint", taint).exit_code == 0
    written = yaml.safe_load((tmp_path / "_default.yaml").read_text())
    assert written["spec"]["rules"]["tolerations"]["add"] == [toleration]


# why and top, of a file and of a cluster


@golden
def test_pods_and_workloads_of_a_file_are_explained(target: str, namespace: str, code: str) -> None:
    done = gpu_policy("why", target, "-n", namespace, *CLUSTER, "--policies", "policies", "-o", "json")
    found = json.loads(done.stdout)
    assert (found["reason"], found["missing"]) == (code, [])


def test_a_file_without_nodes_and_events_says_nothing_of_them(tmp_path: Path) -> None:
    (pod,) = (
        one for one in yaml.safe_load(Path(CLUSTER[1]).read_text())["items"] if one["metadata"]["name"] == "waiting"
    )
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    said = gpu_policy("why", "waiting", "-n", "team-vision", "--inventory", tmp_path / "pod.yaml").stdout
    assert "the file has no events" in said
    assert "the file has no nodes" in said


@each("name, kind", {name: (name, kind) for name, kind in SHORT_NAMES.items()})
def test_kinds_in_a_file_have_the_short_names_of_kubectl(tmp_path: Path, name: str, kind: str) -> None:
    made = {"apiVersion": "batch/v1" if kind == "CronJob" else "apps/v1", "kind": kind, "metadata": {"name": "x"}}
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(made))
    said = gpu_policy("why", f"{name}/x", "--inventory", tmp_path / "file.yaml").stdout
    assert said.startswith(f"{kind} default/x: ")
    assert "is not known: no policies were given; --policies adds them" in said


def test_top_shows_gpus_in_use_and_what_waits_for_them(tmp_path: Path) -> None:
    (tmp_path / "_default.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
        "spec: {rules: {gpuQuota: {mode: enforce, gpus: 12}}}\n"
    )
    (tmp_path / "_exceptions.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicyExceptions\nmetadata: {name: _exceptions}\nspec:\n"
        "  exceptions:\n  - {name: late, namespaces: [team-vision], rules: [gpuQuota], match: {all: true}, "
        f"until: {SOON}, reason: a paper}}\n"
    )
    done = gpu_policy("top", *CLUSTER, "--policies", tmp_path, "-o", "json")
    found = json.loads(done.stdout)
    shown = {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "quotas", "namespaces")}
    assert shown == {
        "used": "6",
        "gated": "1",
        "waiting": "4",
        "onNodes": "8",
        "free": "2",
        "refused": 1,
        "exceptions": 1,
        "missing": [],
    }
    notebooks, vision = found["namespaces"]
    assert notebooks["refused"] == ["Job refused"]
    assert [one["name"] for one in vision["exceptions"]] == ["late"]
    assert {one["quota"]: one["gpus"]["used"] for one in found["quotas"]}["team-vision"] == "10"
    text = gpu_policy("top", *CLUSTER, "--policies", tmp_path).stdout
    assert text.startswith("8 GPUs on nodes, 6 used, 2 free, 1 gated, 4 waiting, 1 refused, 1 exception\n")
    assert f"late until {SOON}" in text


def test_top_leaves_out_what_nobody_may_know_and_says_so(tmp_path: Path) -> None:
    with fake_api_server() as server:
        server.instead["/api"] = server.instead["/apis"] = aggregated({"": [("v1", {"Pod": "pods"})]})
        server.under["/api/v1/"] = always(403, {"kind": "Status", "message": "forbidden"})
        done = gpu_policy("top", "-o", "json", "--kubeconfig", server.kubeconfig(tmp_path))
    found = json.loads(done.stdout)
    assert done.exit_code == 2
    assert found.keys() == {"apiVersion", "kind", "quotas", "namespaces", "missing"}
    assert any("you need `list pods` in the cluster" in one["message"] for one in found["missing"])


def test_top_of_a_namespace_reads_no_other(tmp_path: Path) -> None:
    found: dict[str, Any] = json.loads(gpu_policy("top", "-n", "team-vision", *CLUSTER, "-o", "json").stdout)
    assert [one["namespace"] for one in found["namespaces"]] == ["team-vision"]
    assert "onNodes" not in found
    said = gpu_policy("top", "-n", "nosuch", *CLUSTER).stdout
    assert "Namespace nosuch has no GPU pods, quotas, refusals or exceptions; check --namespace" in said

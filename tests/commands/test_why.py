"""`gpu-policy why`: what it says of input that cannot be used, and how kubectl calls it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import ROOT, gpu_policy
from tests.facts.fake_api_server import always, fake_api_server
from tests.facts.served_kinds import aggregated
from tests.golden import each
from tests.why.samples import printed
from webhook.audit.report import ObjectReference
from webhook.kubernetes.kubeconfig import namespace_of
from webhook.why.explanation import Answer, Clue, Explanation, MissingAnswer, ReasonCode

POD = "/api/v1/namespaces/default/pods/train-0"
SERVED = {
    "": [("v1", {"Pod": "pods"})],
    "batch": [("v1", {"Job": "jobs"})],
    "batch.volcano.sh": [("v1alpha1", {"Job": "jobs"})],
}


def why(server: Any, directory: Path, *arguments: str) -> Any:
    return gpu_policy("why", *arguments, "--kubeconfig", server.kubeconfig(directory))


@pytest.fixture
def server() -> Any:
    """An API server that serves pods and two kinds of Jobs, and has none."""
    with fake_api_server() as server:
        server.instead["/version"] = always(200, {})
        server.instead["/api"] = server.instead["/apis"] = aggregated(SERVED)
        server.under["/apis/batch"] = server.under["/api/v1/namespaces"] = always(404, {"message": "not found"})
        server.under["/apis/apps"] = always(403, {"message": "deployments.apps is forbidden"})
        yield server


def test_a_server_that_does_not_answer_ends_with_status_2(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    done = gpu_policy("why", "train-0", "--kubeconfig", tmp_path / "absent")
    assert done.exit_code == 2
    assert done.stdout == ""


def test_a_server_that_breaks_later_ends_with_status_2_and_its_words(server: Any, tmp_path: Path) -> None:
    server.instead[POD] = always(500, {"message": "etcdserver: no leader"})
    done = why(server, tmp_path, "train-0")
    assert done.exit_code == 2
    assert "etcdserver: no leader" in done.stderr


def test_two_kinds_of_one_word_are_told_apart_by_their_group(server: Any, tmp_path: Path) -> None:
    """Only where both have an object of the name."""
    job = {"metadata": {"name": "train", "namespace": "default", "uid": "u"}, "spec": {"suspend": True, "template": {}}}
    server.instead["/apis/batch/v1/namespaces/default/jobs/train"] = always(200, job)
    done = why(server, tmp_path, "job/train", "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["apiVersion"]) == (0, "batch/v1")
    server.instead["/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/train"] = always(200, job)
    done = why(server, tmp_path, "job/train")
    assert done.exit_code == 2
    assert "write jobs.batch/train and jobs.batch.volcano.sh/train" in done.stderr


@pytest.mark.parametrize("written", ["gpu-policy", "a/b/c", "/x", "x/"])
def test_an_installation_is_a_namespace_and_a_name(written: str) -> None:
    done = gpu_policy("why", "train-0", "--installation", written)
    assert done.exit_code == 2
    assert f"--installation is {written}; write NAMESPACE/NAME" in done.stderr


def test_kubectl_finds_the_command_by_the_name_of_its_executable() -> None:
    """What pip installs calls this function; `kubectl gpu-policy` runs `kubectl-gpu_policy`."""
    script = "import sys; sys.argv[0] = '/bin/kubectl-gpu_policy'; from webhook.commands.main import kubectl; kubectl()"
    done = subprocess.run(
        [sys.executable, "-c", script, "why", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("Usage: kubectl gpu-policy why")
    assert 'kubectl-gpu_policy = "webhook.commands.main:kubectl"' in (ROOT / "pyproject.toml").read_text()


@each(
    "context, namespace",
    {
        "the current context": (None, "team-a"),
        "a context without a namespace": ("b", "default"),
        "no such context": ("c", "default"),
    },
)
def test_the_namespace_is_that_of_the_context(tmp_path: Path, context: str | None, namespace: str) -> None:
    file = tmp_path / "config"
    contexts = [{"name": "a", "context": {"namespace": "team-a"}}, {"name": "b", "context": {}}, None]
    file.write_text(yaml.safe_dump({"current-context": "a", "contexts": contexts}))
    assert namespace_of(str(file), context) == namespace


def test_texts_of_tenants_do_not_control_the_terminal() -> None:
    found = Explanation(ReasonCode.UNSCHEDULABLE, "a\x1b[2Jb\n[bold]c", "d\x07", (Clue("e\x1b", "f"),))
    answer = Answer(ObjectReference("team", "Pod", "p\x1b", "v1"), found, (MissingAnswer("list", "nodes", "", "x"),))
    text = printed(answer)
    assert "\x1b" not in text
    assert "[bold]c" in text
    assert "Not known: to know x, you need `list nodes` in the cluster" in text

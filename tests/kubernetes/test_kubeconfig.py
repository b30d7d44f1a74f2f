"""The cluster is found as kubectl finds it; where it cannot be looked at, status 2 and a sentence say why."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.command_line import gpu_policy
from tests.e2e.control_plane import BINARIES, ControlPlane
from webhook.kubernetes.api_errors import ClusterConfigError
from webhook.kubernetes.kubeconfig import find_server, first_context


def written(folder: Path, name: str, plane: ControlPlane, **changes: str) -> Path:
    """A kubeconfig of the administrator, with another server or token."""
    content = yaml.safe_load(plane.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = changes.get("server", plane.url)
    content["users"][0]["user"]["token"] = changes.get("token", plane.token)
    content["contexts"][0]["name"] = content["current-context"] = changes.get("context", "test")
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content))
    return file


def test_without_a_kubeconfig_that_of_the_home_directory_is_taken(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, ".kube/config", control_plane)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_server(None)


def test_several_kubeconfigs_are_merged_and_a_context_chosen(control_plane: ControlPlane, tmp_path: Path) -> None:
    other = written(tmp_path, "other", control_plane, server="https://127.0.0.1:1", context="other")
    right = written(tmp_path, "right", control_plane, context="right")
    right.write_text(right.read_text().replace("name: test", "name: right").replace(": test", ": right"))
    assert find_server(f"{other}:{right}", "right")
    assert find_server(f"{right}:{tmp_path / 'missing'}:{other}")
    with pytest.raises(ClusterConfigError, match="cannot be reached"):
        find_server(f"{other}:{right}")


def test_of_several_kubeconfigs_the_first_that_names_a_context_decides_as_with_kubectl(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Looking at another cluster than kubectl would be worse than not looking."""
    files = [str(written(tmp_path, name, control_plane, context=name)) for name in ("one", "two")]
    environment = {"KUBECONFIG": ":".join(files), "HOME": str(tmp_path)}
    command = [str(BINARIES / "kubectl"), "config", "current-context"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (first_context(":".join(files)), done.stdout.strip()) == ("one", "one")


def said(*arguments: str, **environment: str) -> tuple[int, str]:
    nothing = {"KUBECONFIG": None, "HOME": "/nonexistent", "KUBERNETES_SERVICE_HOST": None}
    result = gpu_policy("doctor", *arguments, env={**nothing, **environment})
    return result.exit_code, result.output


def test_without_any_cluster_nothing_can_be_looked_at() -> None:
    status, text = said()
    assert status == 2
    assert "no ~/.kube/config, and not in a cluster" in text
    assert "name a kubeconfig file" in text


def test_an_unknown_context_is_named(control_plane: ControlPlane) -> None:
    status, text = said(f"--kubeconfig={control_plane.kubeconfig}", "--context=other")
    assert (status, "other" in text) == (2, True)


def test_an_api_server_that_does_not_answer_ends_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    file = written(tmp_path, "config", control_plane, server="https://127.0.0.1:1")
    status, text = said(f"--kubeconfig={file}")
    assert status == 2
    assert "the API server cannot be reached" in text
    assert "try kubectl version with the same kubeconfig" in text


def test_a_stranger_is_told_to_log_in(control_plane: ControlPlane, tmp_path: Path) -> None:
    file = written(tmp_path, "config", control_plane, token="forgotten")
    status, text = said(f"--kubeconfig={file}")
    assert status == 2
    assert "answered 401" in text
    assert "log in again, or name another --context" in text

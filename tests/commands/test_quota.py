"""`gpu-policy quota`: exact numbers from a file and from a cluster, readable without colours in 80 columns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
import yaml
from click.testing import Result

from tests.command_line import gpu_policy
from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server
from tests.golden import each

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
GROUP = "/apis/gpupolicy.dev/v1alpha1"

DEFAULT = {
    "apiVersion": "gpupolicy.dev/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "_default"},
    "spec": {"rules": {}},
}
VISION = {
    **DEFAULT,
    "metadata": {"name": "team-vision"},
    "spec": {
        "rules": {
            "gpuQuota": {
                "mode": "enforce",
                "gpus": 8,
                "byModel": {"H100": 4, "T4": 16},
                "byResource": {"nvidia.com/mig-1g.10gb": 14},
            }
        }
    },
}
SHARED_QUOTAS = {
    **DEFAULT,
    "kind": "GPUSharedQuotas",
    "metadata": {"name": "_quotas"},
    "spec": {"quotas": [{"name": "research", "namespaces": ["research-a", "research-*"], "gpus": 4, "mode": "warn"}]},
}


def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return gpu_policy("quota", *arguments, env={"HOME": "/nonexistent", "KUBECONFIG": "", **(env or {})})


def pod(namespace: str, name: str, gpus: dict[str, str], **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/trainer:1", "resources": {"limits": gpus, "requests": gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": str(uuid5(NAMESPACE_URL, f"{namespace}/{name}"))},
        "spec": {"containers": [container], "nodeSelector": more.get("selector", {})},
        "status": {"phase": more.get("phase", "Running")},
    }


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir()
    for document in (DEFAULT, VISION, SHARED_QUOTAS):
        name = document["metadata"]["name"]  # type: ignore[index]  # a map
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(document))
    return directory


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    pods = [
        pod("team-vision", "train", {"nvidia.com/gpu": "4"}, selector=H100),
        pod("team-vision", "slices", {"nvidia.com/mig-1g.10gb": "3"}, selector=H100),
        pod("team-vision", "done", {"nvidia.com/gpu": "8"}, phase="Succeeded"),
        pod("research-b", "sweep", {"nvidia.com/gpu": "5"}),
        pod("elsewhere", "other", {"nvidia.com/gpu": "64"}),
        pod("team-vision", "cpu", {"cpu": "1"}),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    return file


TABLE = """\
namespace team-vision (enforce)
  GPUs                    4 3/7 of 8  [##########---------]  3 4/7 free, 7 units
  H100                    4 3/7 of 4  [###################]  3/7 over
  T4                         0 of 16  [-------------------]  16 free
  nvidia.com/mig-1g.10gb     3 of 14  [####---------------]  11 free
shared quota research (warn)
  in research-a and research-b
  GPUs                        5 of 4  [###################]  1 over
"""


def test_the_pods_of_a_file_are_counted_by_the_quotas_of_policies(policies: Path, inventory: Path) -> None:
    found = run("--policies", policies, "--inventory", inventory)
    assert (found.exit_code, found.stdout) == (0, TABLE)


def test_a_namespace_sees_its_own_quotas_and_no_other_namespace(policies: Path, inventory: Path) -> None:
    found = run("research-b", "--policies", policies, "--inventory", inventory)
    title, amount = found.stdout.splitlines()
    assert title == "shared quota research (warn)"
    assert amount.split() == ["GPUs", "5", "of", "4", "[########################]", "1", "over"]


def test_programs_get_the_same_as_exact_texts(policies: Path, inventory: Path) -> None:
    found = run("team-vision", "--policies", policies, "--inventory", inventory, "--output", "json")
    assert json.loads(found.stdout) == [
        {
            "quota": "team-vision",
            "scope": "namespace",
            "mode": "enforce",
            "namespaces": ["team-vision"],
            "gpus": {"hard": "8", "used": "4 3/7", "units": "7"},
            "byModel": [{"name": "H100", "hard": "4", "used": "4 3/7"}, {"name": "T4", "hard": "16", "used": "0"}],
            "byResource": [{"name": "nvidia.com/mig-1g.10gb", "hard": "14", "used": "3"}],
        }
    ]


def test_where_nothing_is_limited_it_says_what_would_limit_it(policies: Path, inventory: Path) -> None:
    found = run("elsewhere", "--policies", policies, "--inventory", inventory)
    assert found.exit_code == 0
    assert "No quota of GPUs limits namespace elsewhere" in found.stdout
    assert "gpuQuota" in found.stdout
    assert run("elsewhere", "--policies", policies, "--inventory", inventory, "-o", "json").stdout == "[]\n"


def test_pods_that_have_one_fault_are_told_of_in_one_line(policies: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    broken = [{"kind": "Pod", "metadata": {"name": f"p{number}", "uid": f"7{number}"}} for number in range(23)]
    odd = pod("team-vision", "odd", {"nvidia.com/gpu": "1"})
    odd["spec"]["nodeSelector"] = [1]
    file.write_text(json.dumps({"kind": "List", "items": [*broken, odd]}))
    of_uids, of_selector = run("--policies", policies, "--inventory", file).stderr.splitlines()
    named = "23 pods (default/p0, default/p1, default/p2 and 20 more)"
    fault = "metadata.uid '70' is no UUID in the first of them"
    assert of_uids == f"warning: {file}: {named} do not count against quotas: {fault}"
    assert "pod team-vision/odd does not count against quotas: spec.nodeSelector" in of_selector


@each(
    "arguments, said",
    {
        "two sources": (["--inventory", "a", "--kubeconfig", "b"], "exclude each other"),
        "no inventory": (["--inventory", "nowhere.yaml"], "nowhere.yaml"),
        "no kubeconfig": (["--kubeconfig", "/nonexistent/config"], "/nonexistent/config"),
    },
)
def test_what_cannot_be_used_is_said_with_exit_status_2(arguments: list[str], said: str) -> None:
    found = run(*arguments)
    assert (found.exit_code, said in found.stderr) == (2, True), found.output


# From a cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[FakeApiServer, Path]]:
    """A server that knows quotas, and a kubeconfig that leads to it."""
    with fake_api_server() as server:
        server.objects[f"{GROUP}/gpuquotas"] = []
        yield server, server.kubeconfig(tmp_path)


def shown(namespace: str, name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "status": status}


FULL = {"quota": "research", "scope": "shared", "mode": "enforce", "gpus": {"hard": "4", "used": "4"}}


def test_objects_of_a_cluster_are_shown_a_shared_quota_once_with_its_namespaces(
    cluster: tuple[FakeApiServer, Path],
) -> None:
    server, kubeconfig = cluster
    server.objects[f"{GROUP}/gpuquotas"] = [
        shown("b", "shared.research", **FULL, updated="2026-01-02T00:00:00Z"),
        shown("a", "shared.research", **{**FULL, "gpus": {"hard": "4", "used": "3"}}, updated="2026-01-01T00:00:00Z"),
        shown("a", "namespace.a", quota="a", scope="namespace", mode="audit", gpus={"hard": "7/2", "used": "1/3"}),
    ]
    assert run("--kubeconfig", kubeconfig).stdout == (
        "namespace a (audit)\n"
        "  GPUs  1/3 of 7/2  [##----------------------]  3 1/6 free\n"
        "shared quota research (enforce)\n"
        "  in a and b\n"
        "  GPUs      4 of 4  [########################]  full\n"
    )


def test_the_cluster_is_that_of_the_environment_and_the_namespace_the_one_that_is_named(
    cluster: tuple[FakeApiServer, Path],
) -> None:
    server, kubeconfig = cluster
    server.objects[f"{GROUP}/namespaces/a/gpuquotas"] = [shown("a", "shared.research", **FULL)]
    found = run("a", env={"KUBECONFIG": str(kubeconfig)})
    assert found.stdout.splitlines()[0] == "shared quota research (enforce)"


@each(
    "status",
    {
        "nothing": {},
        "other types": {"gpus": 7, "byModel": {"H100": 4}, "byResource": [3]},
        "no numbers": {"gpus": {"hard": "many", "used": "1/0"}},
        "a number beyond all bounds": {"gpus": {"hard": "9" * 5000, "used": "1"}},
        "control characters": {"quota": "\x1b[31mred", "mode": "\n", "byModel": [{"name": "\x07"}]},
    },
)
def test_an_object_that_somebody_else_wrote_is_shown_as_far_as_it_can_be(
    cluster: tuple[FakeApiServer, Path], status: dict[str, Any]
) -> None:
    server, kubeconfig = cluster
    server.objects[f"{GROUP}/gpuquotas"] = [shown("a", "shared.mine", **status)]
    found = run("--kubeconfig", kubeconfig)
    assert found.exit_code == 0
    assert found.stdout.replace("\n", "").isprintable()


def test_an_empty_cluster_says_what_to_look_at(cluster: tuple[FakeApiServer, Path]) -> None:
    found = run("--kubeconfig", cluster[1])
    assert found.stdout == (
        "No quota of GPUs is shown in any namespace. Run gpu-policy doctor to see whether something is wrong.\n"
    )


@each(
    "path, status, said",
    {
        "not installed": (GROUP, 404, "no objects of kind GPUQuota; install gpu-policy there"),
        "not everywhere": (f"{GROUP}/gpuquotas", 403, "name a NAMESPACE that you may look at"),
    },
)
def test_a_cluster_that_does_not_tell_is_explained(
    cluster: tuple[FakeApiServer, Path], path: str, status: int, said: str
) -> None:
    server, kubeconfig = cluster
    server.instead[path] = always(status, {"message": "no"})
    found = run("--kubeconfig", kubeconfig)
    assert (found.exit_code, said in found.stderr) == (2, True), found.output


def test_a_line_fits_into_80_columns(cluster: tuple[FakeApiServer, Path]) -> None:
    server, kubeconfig = cluster
    parts = [{"name": "nvidia.com/mig-1c.3g.71gb.me", "hard": "100000", "used": "12345"}]
    namespaces = [f"research-team-{number}" for number in range(40)]
    server.objects[f"{GROUP}/gpuquotas"] = [
        shown(name, "shared.research", **FULL, byResource=parts) for name in namespaces
    ]
    lines = run("--kubeconfig", kubeconfig).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith(" and 37 more")

"""`gpu-policy review`: exit statuses that scripts rely on, equal in every format, and errors without tracebacks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.audit.audits import stored
from tests.build import pod, policy_file
from tests.command_line import POLICY, gpu_policy
from tests.facts.fake_api_server import PODS, always, fake_api_server
from tests.facts.served_kinds import aggregated
from tests.golden import each
from tests.upgrades.test_changes import CUDA_12, V100, nodes
from tests.upgrades.test_driver_changes import cluster_policy, nvidia_driver
from tests.upgrades.test_owners_and_pools import deployed

ROOT = Path(__file__).parents[2]


OUTPUTS = ["text", "json", "diff"]


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


def test_a_broken_file_is_named_with_its_line_and_the_rest_is_reviewed(here: Path) -> None:
    document = review_json("broken.yaml", "missing.yaml", "good.yaml", "bad.yaml")
    assert document["errors"] == [
        {"source": "broken.yaml", "document": 1, "line": 3, "message": "a git conflict marker; resolve the conflict"},
        {
            "source": "missing.yaml",
            "document": 0,
            "line": None,
            "message": "cannot be read: No such file or directory; name a file that you can read",
        },
    ]
    assert [item["allowed"] for item in document["items"]] == [True, False]


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


GROUP = "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups/ga"
FORBIDDEN = always(403, {"kind": "Status", "message": "forbidden"})


@each(
    "stored_pods, path, told",
    {
        "new": (0, "", "PodGroup ga needs 8 GPUs for 2 pods together; GPU quota 'team' allows 6 GPUs"),
        "one of it is stored": (1, "", "requested 4, used 4 of 6 (2 free)"),
        "it must not be read": (0, GROUP, ""),
        "nor its pods": (0, "/api/v1/namespaces/team/pods", "the ledger of GPU quota 'team' cannot be"),
    },
)
def test_pods_are_judged_with_the_group_that_the_cluster_has(
    here: Path, caplog: pytest.LogCaptureFixture, stored_pods: int, path: str, told: str
) -> None:
    quota = POLICY.replace("_default", "team").partition("rules:")[0] + "rules: {gpuQuota: {mode: enforce, gpus: 6}}\n"
    (here / "policies" / "team.yaml").write_text(quota)
    member = pod(4, spec={"schedulingGroup": {"podGroupName": "ga"}})
    (here / "member.yaml").write_text(yaml.safe_dump(member))
    with fake_api_server() as server:
        server.instead["/api"] = server.instead["/apis"] = aggregated({"": [("v1", {"Pod": "pods"})]})
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        server.instead[GROUP] = always(200, {"metadata": {"name": "ga", "uid": "1"}, "spec": spec})
        server.objects[PODS] = [stored(member, number) for number in range(stored_pods)]
        if path:
            server.instead[path] = FORBIDDEN
        result = gpu_policy("review", "member.yaml", "--kubeconfig", server.kubeconfig(here))
    assert told in " ".join(result.output.split())
    assert result.exit_code == bool(told)
    assert ("pods of a PodGroup are counted one by one" in caplog.text) == (path == GROUP)


def test_whether_a_model_fits_is_for_reports_and_not_for_the_webhook(here: Path) -> None:
    raw = pod(2)
    raw["spec"]["containers"][0]["command"] = ["vllm", "serve", "meta-llama/Llama-3.3-70B-Instruct", "-tp", "2"]
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034"}
    status = {"capacity": {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}}
    (here / "llm.yaml").write_text(yaml.safe_dump(raw))
    (here / "nodes.json").write_text(
        json.dumps(
            {
                "kind": "List",
                "items": [
                    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "l4", "labels": labels}, "status": status}
                ],
            }
        )
    )
    inventory = ["llm.yaml", "--inventory", "nodes.json", "--policies", ROOT / "policies"]
    said = "needs about 140 GB in 16 bits for its weights alone, and 2 L4 have 48 GB"
    assert said in gpu_policy("review", *inventory, "-v").stdout
    assert said in gpu_policy("audit", *inventory).stdout
    assert said not in gpu_policy("review", *inventory).stdout


def test_the_inventory_says_what_the_cluster_has(here: Path) -> None:
    def paths(*args: str) -> list[str]:
        return [operation["path"] for operation in review_json("good.yaml", *args)["items"][0]["patch"]]

    assert "/spec/runtimeClassName" not in paths()
    assert "/spec/runtimeClassName" in paths("--inventory", "inventory.yaml")


@pytest.mark.parametrize(("mode", "status"), [("warn", 0), ("enforce", 1), ("disabled", 0)])
def test_review_answers_for_a_driver_object_as_the_webhook_does(tmp_path: Path, mode: str, status: int) -> None:
    """By the workloads of the inventory, templates included."""
    (tmp_path / "policies").mkdir()
    text = policy_file({"tolerations": {}, "cudaDriver": {}}, drivers={"mode": mode})
    (tmp_path / "policies" / "_default.yaml").write_text(text)
    objects = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [*nodes(2, V100, "535.183.01", "v"), *deployed(CUDA_12, pods=2, gpus=2)],
    }
    (tmp_path / "inventory.json").write_text(json.dumps(objects))
    (tmp_path / "driver.yaml").write_text(yaml.safe_dump(cluster_policy("590.44.01")))
    arguments = (
        tmp_path / "driver.yaml",
        "--policies",
        tmp_path / "policies",
        "--inventory",
        tmp_path / "inventory.json",
    )
    assert gpu_policy("review", *arguments).exit_code == status
    (item,) = review_json(*arguments)["items"]
    said = [f"spec.driver.version: 535.183.01 -> 590.44.01 on 2 nodes: 1 workload of team breaks, {V100} is no longer"]
    told = [f"{one['field']}: {one['message'].partition(' driven. ')[0]}" for one in item["violations"][:1]]
    assert told == ([] if mode == "disabled" else said)
    assert item["allowed"] is (mode != "enforce")
    assert bool(item["warnings"]) is (mode == "warn")


def test_two_driver_objects_of_one_file_know_of_each_other(tmp_path: Path) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": nodes(2, V100, "535.183.01", "v")}
    (tmp_path / "inventory.json").write_text(json.dumps(objects))
    both = [nvidia_driver("535.183.01", name, nodeSelector={"pool": "v"}) for name in ("a", "b")]
    (tmp_path / "driver.yaml").write_text(yaml.safe_dump_all(both))
    items = review_json(tmp_path / "driver.yaml", "--inventory", tmp_path / "inventory.json")["items"]
    assert ["both select 2 nodes, such as v0" in str(one["warnings"]) for one in items] == [True, True]


def test_a_workload_whose_template_is_no_map_cannot_be_read(here: Path) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": "x"}}
    (here / "job.yaml").write_text(yaml.safe_dump(job))
    done = gpu_policy("review", "job.yaml")
    assert (done.exit_code, "found a string, expected a map" in done.stdout) == (2, True)

"""Tests of policies as files, and what `gpu-policy test` says of them."""

from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from webhook.commands.test import test
from webhook.policy_tests.files import PolicyTestInputs
from webhook.policy_tests.running import CaseResult, Results, run

POLICY = {
    "_default.yaml": {
        "spec": {
            "rules": {
                "tolerations": {
                    "mode": "enforce",
                    "add": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                },
                "gpuLimits": {"mode": "enforce", "maxPerPod": 8, "maxPerContainer": 6},
                "ncclEnv": {"mode": "enforce", "minGpus": 2, "env": {"NCCL_DEBUG": "WARN"}},
                "visibleDevices": {"mode": "warn"},
                "gpuQuota": {"mode": "enforce", "gpus": 10},
            }
        }
    }
}
"""Rules that inject, refuse, warn and count."""

SEES_ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
"""What `visibleDevices` warns of."""


def pod(gpus: int = 1, name: str = "train", **container: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    main = {"name": "main", "image": "registry.example/train:1", "resources": limits, **container}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [main]}}


def deployment(gpus: int = 1, replicas: int = 2) -> dict[str, Any]:
    template = {"metadata": {}, "spec": pod(gpus)["spec"]}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serve"}}
    return {**head, "spec": {"replicas": replicas, "template": template}}


def case(resources: Any, expect: Any, name: str = "one", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources, "expect": expect, **more}


def suite(*cases: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "GPUPolicyTest",
        "metadata": {"name": "sample"},
        "spec": {"policies": POLICY, **spec, "cases": list(cases)},
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        path.write_text(text, encoding="utf-8")
    return path


def results(path: Path) -> Results:
    return run(path, PolicyTestInputs(), lambda _: True)


def result(directory: Path, resources: Any, expect: Any, **more: Any) -> CaseResult:
    """What became of one case."""
    (only,) = results(write(directory / "sample.yaml", suite(case(resources, expect, **more)))).cases
    return only


def gpu_policy_test(*arguments: object) -> Result:
    """The command, which never ends in a traceback."""
    done = CliRunner(env={"COLUMNS": "80"}).invoke(test, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done

"""`_cuda.yaml`: what its rows change, and every mistake in it with file, line, key and remedy."""

import json

import jsonschema

from tests.quick_yaml import load_all
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.drivers import Toolkit
from webhook.model.versions import parse_version
from webhook.policy.cuda_file import KEYS, cuda_schema

NEW = """
toolkits:
- {cuda: "14.0.0", driver: "650.10.02", source: release notes of CUDA 14.0, date: "2027-03"}
drivers:
- {branch: 650, cuda: "14.0", source: nvidia-smi on gpu-17, date: "2027-03-14"}
"""
WHO = "source: me, date: unknown"


def test_rows_are_added_to_the_tables_of_the_release(policies) -> None:
    policies.policy("_default")
    policies.cuda(NEW)
    tables = policies.load().cuda.tables
    assert str(tables.toolkits.newest) == "14.0.0"
    assert len(tables.toolkits.rows) == len(SHIPPED.toolkits.rows) + 1
    assert tables.drivers.newest == 650
    assert str(tables.drivers.reported_by(parse_version("650.10.02"))) == "14.0"


def test_a_row_with_the_key_of_a_shipped_one_replaces_it(policies) -> None:
    policies.policy("_default")
    policies.cuda(f'toolkits: [{{cuda: "13.5.0", driver: "620.20.01", {WHO}}}]')
    rows = policies.load().cuda.tables.toolkits.rows
    assert len(rows) == len(SHIPPED.toolkits.rows)
    assert rows[-1] == Toolkit(parse_version("13.5.0"), parse_version("620.20.01"))


def test_every_policy_is_judged_by_the_rows(policies) -> None:
    policies.policy("_default", "cudaDriver: {mode: enforce}")
    policies.policy("team-a", "cudaDriver: {mode: warn}")
    policies.cuda(NEW)
    loaded = policies.load()
    tables = {policy.rules[0].settings.tables for policy in loaded.policies}
    assert tables == {loaded.cuda.tables}


def test_a_pool_has_the_family_of_a_gpu_that_only_the_platform_knows(policies) -> None:
    """The labels that nodes of a declared pool will have follow from the same tables."""
    policies.write(
        "_default.yaml",
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
        "spec:\n  nodePools: [{name: a, product: NVIDIA-B200}]\n  rules: {}\n",
    )
    row = f'compute: "10.0", family: blackwell-ultra, firstCuda: "12.8", firstBranch: 570, {WHO}'
    policies.cuda(f"computeCapabilities: [{{{row}}}]")
    (pool,) = policies.load().default.node_pools
    assert dict(pool.labels)["nvidia.com/gpu.family"] == "blackwell-ultra"


ROW = '{cuda: "14.0.0", driver: "650.10.02", source: me, date: unknown}'


def test_the_last_row_with_a_key_counts(policies) -> None:
    policies.policy("_default")
    rows = [
        ROW.replace("650", branch).replace("14.0.0", cuda) for branch, cuda in (("650", "14.0.0"), ("660", "14.00.0"))
    ]
    images = [f'{{image: team/*, cuda: "{cuda}", {WHO}}}' for cuda in ("12.4", "12.6")]
    policies.cuda(f"toolkits: [{', '.join(rows)}]\nimages: [{', '.join(images)}]")
    tables = policies.load().cuda.tables
    assert str(tables.toolkits.rows[-1].driver) == "660.10.02"
    assert str(tables.images["team/*"].needs) == "12.6"


def test_the_schema_for_editors_takes_what_the_loader_takes(policies) -> None:
    policies.policy("_default")
    policies.cuda(NEW)
    policies.load()
    (document,) = load_all((policies.path / "_cuda.yaml").read_text())
    jsonschema.validate(document, json.loads(json.dumps(cuda_schema())))
    assert set(cuda_schema()["properties"]["spec"]["properties"]) == set(KEYS)

"""`_cuda.yaml`: what its rows change, and every mistake in it with file, line, key and remedy."""

import json

import jsonschema
import pytest

from tests.quick_yaml import load_all
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.drivers import Toolkit
from webhook.model.versions import parse_version
from webhook.policy.cuda_file import KEYS, cuda_schema
from webhook.policy.policy_store import PolicyStore

NEW = """
toolkits:
- {cuda: "14.0.0", driver: "650.10.02", source: release notes of CUDA 14.0, date: "2027-03"}
drivers:
- {branch: 650, cuda: "14.0", source: nvidia-smi on gpu-17, date: "2027-03-14"}
"""
WHO = "source: me, date: unknown"


def test_without_the_file_the_tables_are_those_of_the_release(policies) -> None:
    policies.policy("_default")
    assert policies.load().cuda.tables is SHIPPED


def test_a_file_without_rows_changes_nothing_and_not_the_hash(policies) -> None:
    policies.policy("_default")
    before = policies.load()
    policies.cuda()
    after = policies.load()
    assert (after.cuda.tables, after.hash) == (SHIPPED, before.hash)


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


def test_rows_are_a_part_of_every_hash(policies) -> None:
    """What was decided under other rows is not taken for a decision under these."""
    policies.policy("_default")
    policies.policy("team-a")
    before = policies.load()
    policies.cuda(NEW)
    after = policies.load()
    assert after.hash != before.hash
    assert not {policy.hash for policy in before.policies} & {policy.hash for policy in after.policies}


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


@pytest.mark.parametrize(
    ("lists", "errors"),
    [
        pytest.param(
            f'toolkits:\n- {{cuda: "14.0", driver: "650.10", {WHO}}}',
            ['6: spec.toolkits[0].cuda: "14.0" is not a release of CUDA; write its three numbers, such as 13.5.0'],
            id="a release of two numbers",
        ),
        pytest.param(
            f'toolkits:\n- {{cuda: "14.0.0", driver: "14.0", {WHO}}}',
            [
                '6: spec.toolkits[0].driver: "14.0" is not a driver version; write one such as 650.10.02, or its '
                "branch, "
                "650"
            ],
            id="CUDA where a driver belongs",
        ),
        pytest.param(
            'toolkits:\n- {cuda: "14.0.0", driver: "650.10"}',
            [
                "6: spec.toolkits[0].date: missing; write a string such as 2027-03",
                "6: spec.toolkits[0].source: missing; write a string such as release notes of CUDA 13.5",
            ],
            id="nobody says so",
        ),
        pytest.param(
            'toolkits:\n- {cuda: "14.0.0", driver: "650.10", source: me, date: yesterday}',
            [
                '6: spec.toolkits[0].date: "yesterday" is not a date; write a month such as "2027-03", a day such as '
                '"2027-03-01", or unknown'
            ],
            id="a date that is none",
        ),
        pytest.param(
            f"toolkit:\n- {ROW}",
            [
                "5: spec.toolkit: unknown key; known keys are computeCapabilities, drivers, floors, gpus, images, "
                "toolkits; did you mean toolkits?"
            ],
            id="a list with another name",
        ),
        pytest.param("toolkits:", ["5: spec.toolkits: is empty; write a list, or remove the line"], id="an empty list"),
        pytest.param(
            f'floors:\n- {{major: 14, driver: "650", reported: "13.0", {WHO}}}',
            ["6: spec.floors[0]: reported is 13.0, and major is 14; write two of one major version"],
            id="a floor of two major versions",
        ),
        pytest.param(
            f'computeCapabilities:\n- {{compute: "14.0", family: x, firstCuda: "14.0", firstBranch: 650, '
            f"lastBranch: 640, {WHO}}}",
            ["6: spec.computeCapabilities[0]: lastBranch 640 is older than firstBranch 650; swap them"],
            id="a range that is none",
        ),
        pytest.param(
            f"images:\n- {{image: team/*, {WHO}}}",
            ["6: spec.images[0]: says nothing of the images; write at least one of cuda, cpuOnly, compat and ptx"],
            id="images of which nothing is said",
        ),
        pytest.param(
            f'images:\n- {{image: team/*, cuda: "12.4", cpuOnly: true, {WHO}}}',
            ["6: spec.images[0]: cpuOnly is true, and cuda speaks of CUDA; keep one of them"],
            id="images with and without CUDA",
        ),
        pytest.param(
            f"images:\n- {{image: team x/*, compat: no, {WHO}}}",
            [
                '6: spec.images[0].image: "team x/*" cannot name images; write no spaces, such as '
                "registry.example.com/llm/*"
            ],
            id="a glob with a space",
        ),
        pytest.param(
            f'images:\n- {{image: team/*, cuda: "124", {WHO}}}',
            ['6: spec.images[0].cuda: "124" is no version of CUDA; write numbers with dots, such as 12.4'],
            id="a version without its dot",
        ),
    ],
)
def test_a_mistake_is_told_with_line_key_and_remedy(policies, lists, errors) -> None:
    policies.policy("_default")
    policies.cuda(lists)
    assert policies.errors() == [f"_cuda.yaml:{error}" for error in errors]


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


def test_all_mistakes_are_told_at_once_with_those_of_other_files(policies) -> None:
    policies.policy("_default", "cudaDriver: {mod: enforce, mode: enforce}")
    policies.cuda(f"toolkits:\n- {{cuda: 12, {WHO}}}\ndrivers:\n- {{branch: 1, cuda: x, {WHO}}}")
    assert [error.partition(": ")[2].partition(":")[0] for error in policies.errors()] == [
        "spec.toolkits[0].cuda",
        "spec.toolkits[0].driver",
        "spec.drivers[0].branch",
        "spec.drivers[0].cuda",
        "spec.rules.cudaDriver.mod",
    ]


def test_rows_in_a_policy_file_are_sent_to_their_own(policies) -> None:
    policies.policy("_default")
    policies.write("team-a.yaml", "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUCudaTables\nspec: {}\n")
    assert policies.errors() == ["team-a.yaml:2: kind: GPUCudaTables stand in _cuda.yaml only; move them there"]


def test_new_rows_are_taken_up_and_faulty_ones_leave_the_last_good_ones(policies) -> None:
    policies.policy("_default", "cudaDriver: {mode: enforce}")
    store = PolicyStore(policies.path)
    policies.cuda(NEW)
    assert store.check()
    assert str(store.current.cuda.tables.toolkits.newest) == "14.0.0"
    good = store.current
    policies.cuda(NEW.replace("14.0.0", "14.0"))
    assert not store.check()
    assert store.current is good
    assert "spec.toolkits[0].cuda" in store.status.last_error


def test_a_file_that_is_gone_is_no_order_to_forget_its_rows(policies) -> None:
    """A lost file never turns a refusal into a doubt."""
    policies.policy("_default")
    policies.cuda(NEW)
    store = PolicyStore(policies.path)
    (policies.path / "_cuda.yaml").unlink()
    assert not store.check()
    assert "write `spec: {}` in it to run with the tables of this release alone" in store.status.last_error
    policies.cuda()
    assert store.check()
    assert store.current.cuda.tables is SHIPPED


def test_the_schema_for_editors_takes_what_the_loader_takes(policies) -> None:
    policies.policy("_default")
    policies.cuda(NEW)
    policies.load()
    (document,) = load_all((policies.path / "_cuda.yaml").read_text())
    jsonschema.validate(document, json.loads(json.dumps(cuda_schema())))
    assert set(cuda_schema()["properties"]["spec"]["properties"]) == set(KEYS)

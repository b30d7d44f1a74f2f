"""The policies and examples that people begin with load, and do what their comments say."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.build import against
from webhook.audit.documents import read_all
from webhook.audit.review_objects import ReviewedObject, review
from webhook.ledger.inventory import load_inventory
from webhook.policy.loader import load
from webhook.rules import RULES

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
POLICIES = load(ROOT / "policies")
FACTS = load_inventory(EXAMPLES / "inventory.yaml")
FILES = sorted(EXAMPLES.glob("[0-9]*.yaml"))


def example(number: int) -> ReviewedObject:
    (file,) = [file for file in FILES if file.name.startswith(f"{number}-")]
    with Path("/dev/null").open("rb") as nothing:
        (item,) = review(list(read_all([str(file)], nothing)), "default", against(POLICIES, FACTS)).items
    return item


def test_the_default_names_every_rule_in_the_order_of_the_documents() -> None:
    written = yaml.safe_load((ROOT / "policies" / "_default.yaml").read_text())["spec"]["rules"]
    assert list(written) == [rule.key for rule in RULES]


def test_replicas_that_do_not_know_workloads_yet_can_read_what_the_chart_brings() -> None:
    """During an upgrade they get the new files, and refuse a set with a key that they do not know."""
    files = sorted((ROOT / "deploy" / "chart" / "files" / "policies").glob("*.yaml"))
    documents = [yaml.safe_load(file.read_text()) for file in files]
    specs = [document["spec"] for document in documents if document["kind"] == "GPUPolicy"]
    assert specs
    assert set().union(*specs) <= {"namespaces", "nodePools", "rules"}


WRITTEN = [file for file in sorted((ROOT / "policies").rglob("*.yaml")) if file.name != "cluster.yaml"]


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=str(file.relative_to(ROOT))) for file in WRITTEN if not file.is_symlink()]
)
def test_every_file_tells_editors_its_schema(file: Path) -> None:
    kind = "policy-test" if file.parent.name == "tests" else "quotas" if file.name == "_quotas.yaml" else "policy"
    first, *_ = file.read_text().splitlines()
    assert first.startswith("# yaml-language-server: $schema=../")
    assert (file.parent / first.partition("=")[2]).resolve() == ROOT / "docs" / f"{kind}-schema.json"


def test_the_example_of_shared_quotas_holds_once_its_marks_of_comment_are_gone(tmp_path: Path) -> None:
    text = (ROOT / "policies" / "_quotas.yaml").read_text()
    (tmp_path / "_quotas.yaml").write_text(text.replace("  quotas: []\n", "").replace("\n  # ", "\n  "))
    (shared_quota,) = load(tmp_path).shared_quotas
    assert (shared_quota.quota.name, shared_quota.quota.patterns) == ("research", ("physics", "research-*"))
    assert {limit.name: int(limit.hard) for limit in shared_quota.quota.limits} == {
        "": 16,
        "H100": 4,
        "T4": 16,
        "nvidia.com/mig-1g.10gb": 14,
    }


# The examples: what the first line of each file claims.


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_example_says_what_it_shows(file: Path) -> None:
    assert file.read_text().startswith("# ")
    assert int(file.name[0]) in CLAIMS


CLAIMS = {
    1: ("A GPU pod whose author has written all that it needs.", True),
    2: (
        "What people write: two GPUs and nothing else. Toleration, node affinity, runtime class, /dev/shm and NCCL are "
        "added.",
        True,
    ),
    3: ("GPUs in requests only: Kubernetes refuses the pod, and the webhook says why.", False),
    4: ("More GPUs in one pod than the namespace allows.", False),
    5: ("No GPU: the pod is not changed.", True),
    6: ("The mistake of example 3, in a namespace whose policy repairs it.", True),
    7: ("The pods of this Deployment would be refused, which its author learns at kubectl apply.", False),
    8: ("The image needs a newer driver than the nodes have on which the pod may run.", False),
    9: ("The image of example 8 on any node: the pod is kept off the nodes where it would fail.", True),
}


@pytest.mark.parametrize("number", CLAIMS)
def test_an_example_is_allowed_or_refused_as_it_claims(number: int) -> None:
    claim, allowed = CLAIMS[number]
    item = example(number)
    first = Path(item.document.source).read_text().splitlines()[0]
    assert (first, item.is_allowed) == (f"# {claim}", allowed)


@pytest.mark.parametrize("number", [1, 5])
def test_an_example_that_needs_nothing_gets_nothing_and_hears_nothing(number: int) -> None:
    item = example(number)
    assert (item.result["spec"], item.findings) == (item.document.object["spec"], ())


def test_example_2_gets_all_five_injections() -> None:
    item = example(2)
    annotations = item.result["metadata"]["annotations"]
    assert annotations["gpupolicy.dev/injected"] == "tolerations,nodeAffinity,runtimeClass,sharedMemory,ncclEnv"
    assert annotations["gpupolicy.dev/policy"].startswith("team-vision@")


def test_the_completed_pod_of_example_2_can_land_on_a_node_of_the_inventory() -> None:
    from webhook.model.pod_reader import pod_from_raw

    assert sum(nodes.count for nodes in FACTS.matching_nodes(pod_from_raw(example(2).result))) == 1


@pytest.mark.parametrize(
    ("number", "rule", "field"),
    [
        (3, "gpuLimits", "spec.containers[trainer].resources"),
        (4, "gpuLimits", "spec"),
        (7, "gpuLimits", "spec.template.spec"),
        (8, "cudaDriver", "spec.containers[trainer].image"),
    ],
)
def test_a_refused_example_is_refused_for_one_reason(number: int, rule: str, field: str) -> None:
    refusals = [finding for finding in example(number).findings if finding.refuses]
    assert [(finding.rule, finding.field) for finding in refusals] == [(rule, field)]


@pytest.mark.parametrize("number", [number for number in CLAIMS if number != 7])
def test_nobody_is_warned_about_an_example_that_shows_something_else(number: int) -> None:
    assert example(number).warnings == ()


def test_example_7_hears_the_advice_of_the_default_policy_as_well_but_not_what_is_only_recorded() -> None:
    rules = {finding.rule: finding.warns for finding in example(7).findings if not finding.refuses}
    assert rules == {"schedulable": True, "replicaSpread": False}


def test_example_6_gets_the_limit_it_forgot() -> None:
    (notebook,) = example(6).result["spec"]["containers"]
    assert notebook["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 1},
        "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"},
    }


def test_example_9_is_kept_off_the_node_that_example_8_insists_on() -> None:
    (term,) = example(9).result["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {
        "matchExpressions": [{"key": "nvidia.com/cuda.driver-version.major", "operator": "NotIn", "values": ["535"]}]
    }


def test_the_inventory_is_as_kubectl_prints_it() -> None:
    document = yaml.safe_load((EXAMPLES / "inventory.yaml").read_text())
    assert document["kind"] == "List"
    cluster = FACTS.cluster
    assert (len(cluster.nodes), list(cluster.runtime_classes), cluster.unreadable) == (3, ["nvidia"], 0)


def test_the_demo_shows_every_example_and_ends_by_itself() -> None:
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [file.name for file in FILES if f"kubectl apply -f examples/{file.name} " not in done.stdout] == []
    became = [line for line in done.stdout.splitlines() if line.startswith(("Pod ", "Deployment "))]
    assert became == [
        "Pod research/needs-nothing created, unchanged but for its annotation",
        "Pod team-vision/finetune created, completed:",
        "Pod research/requests-only refused",
        "Pod team-notebooks/too-many refused",
        "Pod research/web created, unchanged",
        "Pod team-notebooks/repaired created, completed:",
        "Deployment research/inference created, unchanged",
        "Pod research/newer-cuda refused",
        "Pod research/steered created, completed:",
    ]

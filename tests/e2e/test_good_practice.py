"""Good practice, rule by rule, as people meet it at `kubectl apply`: told or refused, completed, or left in peace."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.applying import apply
from tests.e2e.eventually import eventually
from tests.e2e.good_practice_cases import CASES, CLASSES, NODES, Case, Raw, trainer, web
from tests.e2e.gpu_nodes import add_node, remove_node
from tests.e2e.installation import Installation

Namespaces = Callable[[str], str]

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SILENT = (0, "")
"""Taken without a word."""
ENTRIES = {"Pod": "validate", "Deployment": "workloads"}


@pytest.fixture(scope="module")
def nodes(installation: Installation) -> Iterator[set[str]]:
    """Two kinds of GPU nodes and one for the web, and priority classes; tests add what the webhook knows of already."""
    plane = installation.plane
    for name, value in CLASSES.items():
        assert plane.raw("POST", PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})[0] == 201
    for name, (found, resource, gpus) in NODES.items():
        add_node(plane, name, found, resource=resource, gpus=gpus)
    for prefix in ("advised", "practised"):
        plane.namespace(f"{prefix}-probe")
    yield set()
    for name in NODES:
        remove_node(plane, name)
    for name in CLASSES:
        plane.raw("DELETE", f"{PRIORITY_CLASSES}/{name}")


@pytest.fixture
def advising(nodes: set[str], webhook: Installation) -> Installation:
    """The webhook, which knows the nodes by now."""

    def said(manifest: Raw) -> str:
        return apply(webhook.plane, "advised-probe", manifest, dry_run=True)[1]

    if "nodes" not in nodes:
        eventually(lambda: "onto 2 GPU nodes" in said(web()) and said(trainer()) == "")
        nodes.add("nodes")
    return webhook


@pytest.mark.parametrize("case", [one for one in CASES if one.values[0].warned])
def test_what_breaks_a_rule_is_taken_with_a_warning(
    advising: Installation, make_namespace: Namespaces, case: Case
) -> None:
    """And nothing else is said."""
    status, said = apply(advising.plane, make_namespace(case.warned), case.wrong)
    assert (status, said.count("\n")) == (0, 1), said
    assert said.startswith(f"Warning: {case.rule}: {case.said}")


@pytest.mark.parametrize("case", CASES)
def test_what_breaks_an_enforced_rule_is_refused(
    advising: Installation, make_namespace: Namespaces, case: Case
) -> None:
    status, said = apply(advising.plane, make_namespace(case.refused), case.wrong)
    entry = ENTRIES[case.wrong["kind"]]
    assert (status, said.count("\n")) == (1, 1)
    assert f'admission webhook "{entry}.gpupolicy.dev" denied the request: {case.rule}: {case.said}' in said


@pytest.mark.parametrize("case", CASES)
def test_what_keeps_a_rule_is_taken_without_a_word(
    advising: Installation, make_namespace: Namespaces, case: Case
) -> None:
    for prefix in {case.warned, case.refused} - {""}:
        assert apply(advising.plane, make_namespace(prefix), case.right) == SILENT


# What is completed

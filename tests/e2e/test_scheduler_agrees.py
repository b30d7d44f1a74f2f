"""The real scheduler agrees with `schedulable`: what it calls impossible stays Pending, and what it allows is bound.

Nodes are empty for every pod, because the rule looks at what they are and not at what is in use.
"""

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.scheduling_cases import BOUND, PENDING, each
from tests.e2e.scheduling_nodes import asking, nodes_and_class, random_spec
from tests.rules.samples import violations
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.schedulable import RULE

Raw = dict[str, Any]
Namespaces = Callable[[str], str]


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Installation]:
    """The webhook, registered, which knows the nodes, and a scheduler."""
    plane = installation.plane
    plane.start_scheduler()
    with nodes_and_class(plane):
        installation.register()
        eventually(installation.is_asked)
        probe = plane.namespace("placed-probe")
        probes = {
            "too many GPUs": "largest node has 8",
            "too much memory": "has 1000Gi",
            "one taint of several": "team",
        }
        eventually(
            lambda: all(text in said(plane, probe, PENDING[name][0], dry_run=True) for name, text in probes.items())
        )
        yield installation
        installation.unregister()


def said(plane: ControlPlane, namespace: str, spec: Raw, *, dry_run: bool = False) -> str:
    """What is said of the rule to whoever creates a pod of this spec, which is called `p`."""
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    status, printed = apply(plane, namespace, manifest, dry_run=dry_run)
    assert status == 0, printed
    return "\n".join(line for line in printed.splitlines() if line.startswith("Warning: schedulable: "))


def bound_to(plane: ControlPlane, namespace: str) -> str:
    """The node of the pod, empty where it has none."""
    return str(plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods/p")[1]["spec"].get("nodeName", ""))


def why_pending(plane: ControlPlane, namespace: str) -> str:
    """What the scheduler says of the pod that it found no node for; empty before it has tried."""
    status = plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods/p")[1].get("status", {})
    for condition in status.get("conditions", []):
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            assert condition["reason"] in {"Unschedulable", "SchedulerError"}  # the latter of a claim that is too large
            return str(condition["message"])
    return ""


def remove(plane: ControlPlane, namespace: str) -> None:
    """Delete the pod, so that the nodes are empty again."""
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
    eventually(lambda: plane.raw("GET", path)[0] == 404)


@pytest.fixture
def namespace(site: Installation, make_namespace: Namespaces) -> Iterator[str]:
    """A namespace of the policy whose pod is gone afterwards."""
    name = make_namespace("placed")
    yield name
    remove(site.plane, name)


@pytest.mark.parametrize("spec", each(BOUND))
def test_a_pod_of_which_nothing_is_said_is_bound(site: Installation, namespace: str, spec: Raw) -> None:
    assert said(site.plane, namespace, spec) == ""
    assert eventually(lambda: bound_to(site.plane, namespace))


@pytest.mark.parametrize("case", each(PENDING))
def test_a_pod_that_is_called_impossible_stays_pending(
    site: Installation, namespace: str, case: tuple[Raw, str]
) -> None:
    spec, why = case
    assert said(site.plane, namespace, spec)
    assert re.search(why, eventually(lambda: why_pending(site.plane, namespace)))
    assert bound_to(site.plane, namespace) == ""


def test_a_pod_is_bound_once_the_remedy_is_followed(site: Installation, namespace: str) -> None:
    """The value and the toleration that the messages name, one after the other."""
    spec = asking(1, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM-80GB"}, tolerations=[])
    meant = re.search(r"Did you mean (\S+)\? Correct the value", said(site.plane, namespace, spec, dry_run=True))
    assert meant
    spec["nodeSelector"] = {"nvidia.com/gpu.product": meant[1]}
    warned = said(site.plane, namespace, spec, dry_run=True)
    for taint in ("agrees=only:NoSchedule", "nvidia.com/gpu=present:NoSchedule"):
        assert taint in warned
    spec["tolerations"] = [{"key": "agrees", "operator": "Exists"}]
    warned = said(site.plane, namespace, spec, dry_run=True)
    add = re.search(r"Add the toleration \{key: (\S+), operator: Equal, value: (\S+), effect: (\S+)\}", warned)
    assert add
    spec["tolerations"] += [{"key": add[1], "operator": "Equal", "value": add[2], "effect": add[3]}]
    assert said(site.plane, namespace, spec) == ""
    assert eventually(lambda: bound_to(site.plane, namespace)) == "a100"


def test_a_hundred_pods_are_bound_exactly_where_they_have_homes(site: Installation, make_namespace: Namespaces) -> None:
    """Each alone on the nodes, read as the webhook reads them; the rule has something to say of all others."""
    plane, namespace = site.plane, make_namespace("placed")
    facts = ClusterFacts.of(
        plane.raw("GET", "/api/v1/nodes")[1]["items"],
        plane.raw("GET", "/apis/node.k8s.io/v1/runtimeclasses")[1]["items"],
    )
    chance, bound = random.Random(7), 0
    for number in range(100):
        manifest = {"metadata": {"name": "p"}, "spec": random_spec(chance)}
        status, stored = plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)
        assert status == 201, stored
        has_home = bool(facts.feasible_nodes(pod_from_raw(stored)))
        assert has_home != bool(violations(RULE, stored, {}, facts)), (number, stored["spec"])
        message = "" if has_home else eventually(lambda: why_pending(plane, namespace))
        node = eventually(lambda: bound_to(plane, namespace)) if has_home else bound_to(plane, namespace)
        assert bool(node) == has_home, (number, message, stored["spec"])
        bound += has_home
        remove(plane, namespace)
    assert 25 < bound < 75

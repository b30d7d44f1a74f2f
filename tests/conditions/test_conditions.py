"""The matchConditions that are shipped, judged by the evaluator of an API server, against the engine."""

import os
from typing import Any

import pytest

from deploy.match_conditions import pod_conditions, workload_conditions
from tests.conditions import agreement, pods, signals
from tests.conditions.evaluator import Evaluator, MissingError, built
from tests.deploy.manifests import needs_helm, rendered
from tests.golden import golden
from tests.lab.fuzz.world import World
from tests.strategies import examples
from webhook.model.accelerators import GPU_PATTERNS

SEED, REQUESTS = int(os.environ.get("FUZZ_SEED", "1")), int(os.environ.get("CONDITIONS_REQUESTS", "1500"))


@pytest.fixture(scope="module")
def conditions() -> Evaluator:
    try:
        return agreement.evaluator()
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def test_what_the_engine_would_change_or_refuse_is_sent_and_what_is_about_no_gpu_is_kept_away(
    conditions: Evaluator, world: World
) -> None:
    """And no condition errs, by the rules and the limits of cost of an API server."""
    found = next(agreement.faults(conditions, world, SEED, range(examples(REQUESTS))), None)
    assert found is None, found


@golden
def test_conditions_that_send_too_little_or_too_much_are_noticed(
    conditions: Evaluator, world: World, wrong: dict[str, Any], fault: str
) -> None:
    patterns = [pattern for *_, pattern in GPU_PATTERNS]
    made = pod_conditions(**{"gpu_patterns": patterns, "watches_nodes": True, **wrong})
    pods_only = [{"name": name, "expression": one} for name, one in made.items()]
    made = workload_conditions(wrong.get("gpu_patterns", patterns))
    others = [{"name": name, "expression": one} for name, one in made.items()]
    broken = Evaluator(built(), {"mutate": pods_only, "validate": pods_only, "workloads": others})
    assert any(fault in found for found in agreement.faults(broken, world, SEED, range(REQUESTS)))


EVERYTHING = {"operator": "Exists"}
NAMED = {"key": "nvidia.com/gpu", "operator": "Exists"}


@needs_helm
@pytest.mark.parametrize("is_default_runtime", [False, True])
def test_pods_that_tolerate_everything_are_sent_on_demand(conditions: Evaluator, *, is_default_runtime: bool) -> None:
    """For validation alone, when they are created and when their tolerations change."""
    asked = rendered({"webhook": {"sendTolerateAll": True, "nvidiaIsDefaultRuntime": is_default_runtime}}).entries
    shared = agreement.evaluator(asked)
    rows = (
        ([EVERYTHING], "", True),
        ([NAMED, EVERYTHING], "", True),
        ([{**EVERYTHING, "effect": "NoSchedule"}], "", True),
        ([{"key": "a", "operator": "Exists"}], "", False),
        ([], "", False),
        ([EVERYTHING], "DaemonSet", False),
        ([EVERYTHING], "ReplicaSet", True),
    )
    questions, widened = [], []
    for tolerations, owner, _ in rows:
        pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
        if owner:
            pod["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "controller": True}]
        wide = {**pod, "spec": {**pod["spec"], "tolerations": tolerations}}
        same = {**wide, "spec": {**wide["spec"], "a": 1}}
        widened.append(agreement.pod_request(wide, pod))
        questions += [agreement.pod_request(wide), widened[-1], agreement.pod_request(same, wide)]
    answers = list(shared.ask((agreement.OF_PODS, one) for one in questions))
    found = [{phase: one.matches for phase, one in said.items()} for said in answers]
    for number, (*row, sent) in enumerate(rows):
        expected = [{"mutate": False, "validate": validated} for validated in (sent, sent, False)]
        assert found[3 * number :][:3] == expected, row
    by_default = conditions.ask((agreement.OF_PODS, one) for one in widened)
    assert not any(one.matches for said in by_default for one in said.values())
    assert not any(one.error for said in answers for one in said.values())


@needs_helm
def test_templates_that_tolerate_everything_are_sent_on_demand_but_for_daemon_sets(conditions: Evaluator) -> None:
    asked = rendered({"webhook": {"sendTolerateAll": True}}).entries
    shared = agreement.evaluator(asked)
    spec = {"tolerations": [EVERYTHING], "containers": [{"name": "c"}]}
    requests = [(["workloads"], agreement.workload_request(kind, spec)) for kind in ("Deployment", "DaemonSet")]
    assert [one["workloads"].matches for one in shared.ask(requests)] == [True, False]
    assert [one["workloads"].matches for one in conditions.ask(requests)] == [False, False]


def test_every_name_and_path_is_in_the_requests() -> None:
    text = "".join(str(agreement.question(SEED, number)) for number in range(REQUESTS))
    names = (*signals.RESOURCES, *signals.PATHS, *signals.MOUNT_PATHS, *signals.VARIABLES, *signals.ANNOTATIONS)
    assert [name for name in names if f'"{name}"' not in text] == []
    assert len(pods.SIGNALS) > 5


@golden
def test_a_pod_is_sent_when_its_part_of_a_gpu_changes(conditions: Evaluator, before, after, sent) -> None:
    old, new = (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "annotations": {"gpu-fraction": value} if value else {"a": "b"}},
            "spec": {"containers": [{"name": "c"}]},
        }
        for value in (before, after)
    )
    questions = [(agreement.OF_PODS, agreement.pod_request(new, old)), (agreement.OF_PODS, agreement.pod_request(new))]
    updated, created = conditions.ask(questions)
    assert [(one.matches, one.error) for one in updated.values()] == [(sent, "")] * 2
    assert [one.matches for one in created.values()] == [bool(after)] * 2


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_of_config_maps_those_of_policies_are_sent_and_nothing_that_replicas_write(
    conditions: Evaluator, operation: str
) -> None:
    names = ["gpu-policy-policies", "gpu-quota.namespace.team", "gpu-policy-images", "kube-root-ca.crt", "policies"]
    asked = [(("policies",), agreement.config_map_request(name, operation)) for name in names]
    said = [answer["policies"] for answer in conditions.ask(asked)]
    assert [name for name, one in zip(names, said, strict=True) if one.matches] == ["gpu-policy-policies"]
    assert {one.error for one in said} == {""}


GPU, NETWORK = "gpu.nvidia.com", "mrdma.google.com"


ADMIN = {"deviceClassName": NETWORK, "adminAccess": True}
CLAIMS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "a GPU": ([{"exactly": {"deviceClassName": GPU}}], True),
    "a class that nobody knows": ([{"exactly": {"deviceClassName": "later.example.com"}}], True),
    "a network device": ([{"exactly": {"deviceClassName": NETWORK}}], False),
    "no adminAccess": ([{"exactly": {"deviceClassName": NETWORK, "adminAccess": False}}], False),
    "adminAccess": ([{"exactly": ADMIN}], True),
    "one of two": ([{"exactly": {"deviceClassName": one}} for one in (NETWORK, GPU)], True),
    "either": ([{"firstAvailable": [{"deviceClassName": one} for one in (NETWORK, GPU)]}], True),
    "a network device alone": ([{"firstAvailable": [{"deviceClassName": NETWORK}]}], False),
    "a GPU in v1beta1": ([{"deviceClassName": GPU}], True),
    "a network device in v1beta1": ([{"deviceClassName": NETWORK}], False),
    "adminAccess in v1beta1": ([ADMIN], True),
    "a shape of later versions": ([{"later": {"deviceClassName": GPU}}], True),
    "no devices": ([], False),
}


def test_claims_of_known_other_devices_are_kept_away_unless_they_have_administrative_access(
    conditions: Evaluator,
) -> None:
    asked = []
    for requests, _ in CLAIMS.values():
        version = "v1beta1" if any("deviceClassName" in one for one in requests) else "v1"
        named = [{"name": f"r{number}", **one} for number, one in enumerate(requests)]
        asked.append((("claims",), agreement.claim_request(version, named)))
    said = [one["claims"] for one in conditions.ask(asked)]
    found = dict(zip(CLAIMS, [(one.matches, one.error) for one in said], strict=True))
    assert found == {name: (is_sent, "") for name, (_, is_sent) in CLAIMS.items()}

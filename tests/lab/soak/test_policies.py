"""Policies change while pods are created, and every replica takes them up when its own kubelet gets there."""

from typing import Any

import pytest

from tests.e2e.eventually import eventually
from tests.lab.soak.rollout import RELOADS, Change, Rollout
from tests.lab.soak.site import SECONDS, Site


def switched(version: int) -> str:
    """Injections that only every second version makes."""
    mode = "disabled" if version % 2 else "enforce"
    return f"""\
    nodeAffinity: {{mode: {mode}, required: [{{key: example.com/pool, operator: In, values: [gpu]}}]}}
    sharedMemory: {{mode: {mode}, size: 1Gi}}
"""


def is_switched(spec: dict[str, Any], version: int) -> bool:
    return ("affinity" in spec, "volumes" in spec) == (version % 2 == 0,) * 2


def renamed(version: int) -> str:
    """Injections whose values change, the pool of nodes that pods are bound to among them, and the maximum of GPUs."""
    return f"""\
    nodeAffinity: {{required: [{{key: example.com/pool, operator: In, values: [pool-{version}]}}]}}
    sharedMemory: {{size: {version + 100}Mi}}
    ncclEnv: {{env: {{NCCL_SOCKET_IFNAME: eth{version}}}}}
    gpuLimits: {{maxPerPod: {version + 2}}}
"""


def is_renamed(spec: dict[str, Any], version: int) -> bool:
    values = (f"['pool-{version}']", f"'{version + 100}Mi'", f"'eth{version}'")
    return all(value in str(spec) for value in values)


CHANGES = {
    "injections are switched on and off": Change(switched, is_switched),
    "injected values and limits change": Change(renamed, is_renamed),
}


def roll_out(site: Site, event: str, change: Change) -> None:
    """Bring all versions to all replicas under load and demand that nobody notices."""
    rollout = Rollout(site, change)
    with site.under_load(f"10 reloads, 20 s out of step: {event}", rollout.missing) as account:
        rollout.run()
    eventually(site.agreed_policy)
    reloads = [replica.log.read_text().count("policies reloaded") for replica in site.replicas.running]
    assert reloads == [RELOADS + 1] * len(reloads)
    account.demand_no_gap()


@pytest.mark.parametrize("event", CHANGES)
def test_replicas_that_take_up_policies_20_s_apart_lose_no_create(site: Site, event: str) -> None:
    """Each pod has all that one of the versions in force injects, whichever replicas complete and judge it."""
    roll_out(site, event, CHANGES[event])


def test_a_config_map_that_becomes_invalid_changes_nothing(site: Site) -> None:
    """Whatever is mounted, the last good set goes on completing and judging, and every replica says what is wrong."""
    mistakes = {
        "a mistake": {**site.policies, "team-vision.yaml": "spec: {rules: {sharedMemory: {sise: 1Gi}}}\n"},
        "no YAML": {**site.policies, "_default.yaml": "{"},
        "no default": {name: text for name, text in site.policies.items() if name != "_default.yaml"},
        "nothing at all": {},
    }
    decided_by = site.agreed_policy()
    with site.under_load("the ConfigMap is invalid, in four ways one after the other") as account:
        for number, mounted in enumerate(mistakes.values(), 1):
            account.load.go_on_for(SECONDS * number / (len(mistakes) + 2))
            mount(site, mounted)
            eventually(lambda: reload_ok(site) == [0, 0, 0])
            assert site.agreed_policy() == decided_by
            assert all("REFUSED, last good set kept" in replica.get("/readyz")[1] for replica in site.replicas.running)
        account.load.go_on_for(SECONDS * 5 / 6)
        mount(site, site.policies)
        eventually(lambda: reload_ok(site) == [1, 1, 1])
    account.demand_no_gap()


def mount(site: Site, files: dict[str, str]) -> None:
    for replica in site.replicas.running:
        replica.policies.replace(files)


def reload_ok(site: Site) -> list[float]:
    return [replica.metric("gpu_policy_policy_reload_ok") for replica in site.replicas.running]

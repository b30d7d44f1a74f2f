"""Policies change while pods are created, and every replica takes them up when its own kubelet gets there."""

from typing import Any

from tests.e2e.eventually import eventually
from tests.lab.soak.rollout import RELOADS, Change, Rollout
from tests.lab.soak.site import SECONDS, Site


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


def test_replicas_that_take_up_policies_20_s_apart_lose_no_create(site: Site) -> None:
    """Each pod has all that one of the versions in force injects, whichever replicas complete and judge it."""
    rollout = Rollout(site, Change(renamed, is_renamed))
    with site.under_load("10 reloads, 20 s out of step", rollout.missing) as account:
        rollout.run()
    eventually(site.agreed_policy)
    reloads = [replica.log.read_text().count("policies reloaded") for replica in site.replicas.running]
    assert reloads == [RELOADS + 1] * len(reloads)
    account.demand_no_gap()


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

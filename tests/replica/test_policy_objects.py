"""Objects that show policies, on a real API server: who gets one, what it says, and that replicas do not argue."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import review
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import ROOT
from tests.replica.quota_cluster import AT_ONCE, DEFINITIONS, GROUP, Clock
from webhook.admission.admission_review import parse
from webhook.admission.phases import decide
from webhook.outcome import Outcome
from webhook.policy.policy_set import NO_POLICY
from webhook.policy.policy_store import PolicyStore
from webhook.replica.status_objects import MOST_HEARD, NAME, PolicyObjects

UNUSED = itertools.count()
HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: %s}\n"
DEFAULT = (
    HEAD % "_default"
    + "spec:\n  rules:\n    gpuLimits: {mode: enforce, maxPerPod: 4}\n    sharedMemory: {mode: warn}\n"
)


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The session's API server with the custom resources, in the end without objects."""
    control_plane.kubectl("apply", "-f", "-", input=DEFINITIONS)
    eventually(lambda: control_plane.raw("GET", f"{GROUP}/gpupolicies")[0] == 200)
    yield control_plane
    control_plane.kubectl("delete", "gpupolicies", "--all", "--all-namespaces")


class Site:
    """A directory of policies, namespaces, and replicas that show them."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane, self.directory = plane, directory
        self.write("_default", DEFAULT)
        self._started: list[PolicyObjects] = []

    def write(self, name: str, text: str) -> None:
        """Write a policy file."""
        (self.directory / f"{name}.yaml").write_text(text)

    def namespace(self, policy: str = "") -> str:
        """A new namespace, perhaps with a policy of its own: the rules in YAML."""
        name = self.plane.namespace(f"shown-{next(UNUSED)}-{id(self) % 10**6}")
        if policy:
            self.write(name, HEAD % name + f"spec:\n  rules:\n    {policy}\n")
        return name

    def replica(self, installation: str = "gpu-policy") -> tuple[PolicyObjects, PolicyStore]:
        """One replica that follows the API server; its rounds are made by the test."""
        timing, store = replace(AT_ONCE, settle=3600.0), PolicyStore(self.directory)
        one = PolicyObjects(installation, self.plane.kubeconfig, clock=Clock(), timing=timing)
        one.follow(store)
        one.start(None)  # type: ignore[arg-type]  # it has no metrics
        self._started.append(one)
        eventually(lambda: one.known is not None)
        return one, store

    def close(self) -> None:
        """End the replicas."""
        for one in self._started:
            one.close()

    def shown(self) -> dict[str, Any]:
        """Namespace -> status, of all objects."""
        items = self.plane.raw("GET", f"{GROUP}/gpupolicies")[1]["items"]
        return {one["metadata"]["namespace"]: one["status"] for one in items if one["metadata"]["name"] == NAME}

    def versions(self) -> dict[str, str]:
        """Namespace -> resourceVersion, of all objects."""
        items = self.plane.raw("GET", f"{GROUP}/gpupolicies")[1]["items"]
        return {one["metadata"]["namespace"]: one["metadata"]["resourceVersion"] for one in items}


@pytest.fixture
def site(plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    """A site with the default policy."""
    site = Site(plane, tmp_path)
    yield site
    site.close()


def written(one: PolicyObjects, is_done: Callable[[], bool]) -> None:
    """Make rounds until it is done."""

    def write() -> bool:
        one.write_some()
        return is_done()

    eventually(write)


def loaded_later(store: PolicyStore, seconds: float = 3600) -> None:
    """Have the policies loaded so much later than they were, or earlier."""
    store.status = replace(store.status, loaded_at_monotonic=store.status.loaded_at_monotonic + seconds)


def heard(one: PolicyObjects, namespace: str, **request: Any) -> None:
    """A pod that is admitted in a namespace."""
    asked = parse(json.dumps(review({"metadata": {"name": "a"}}, **{"namespace": namespace, **request})).encode())
    one.hear(asked, decide(Outcome(NO_POLICY, {})))


def test_a_namespace_is_shown_its_modes_limits_and_quotas(site: Site) -> None:
    team = site.namespace("gpuQuota: {mode: enforce, gpus: 8}\n    gpuLimits: {maxPerPod: 2}")
    one, store = site.replica()
    written(one, lambda: team in site.shown())
    status = site.shown()[team]
    assert (status["policy"], status["file"], status["files"]) == (
        team,
        f"{team}.yaml",
        ["_default.yaml", f"{team}.yaml"],
    )
    assert (status["enforced"], status["warned"], status["audited"], status["maxPerPod"]) == (2, 1, 0, 2)
    assert status["hash"] == store.current.for_namespace(team).short_hash
    assert status["quotas"] == [{"quota": team, "scope": "namespace", "mode": "enforce", "limits": "8"}]
    rules = {rule["name"]: rule for rule in status["rules"]}
    assert (rules["sharedMemory"]["mode"], rules["sharedMemory"]["file"]) == ("warn", "_default.yaml")
    assert rules["gpuLimits"]["settings"] | {"maxPerPod": 2, "requestsOnly": "deny"} == rules["gpuLimits"]["settings"]
    assert "mode" not in rules["gpuLimits"]["settings"]
    heads, row = site.plane.kubectl("get", "gpupolicies", namespace=team).stdout.splitlines()
    assert heads.split() == ["NAME", "FILE", "HASH", "ENFORCED", "WARNED", "MAX", "PER", "POD", "QUOTA", "AGE"]
    assert row.split()[:7] == [NAME, f"{team}.yaml", status["hash"], "2", "1", "2", "8"]


def test_the_api_server_drops_nothing_of_what_is_written(site: Site) -> None:
    """So nothing is written twice: whatever it dropped would be missing when the objects are compared."""
    site.write("_default", (ROOT / "policies" / "_default.yaml").read_text())
    team = site.namespace("gpuQuota: {mode: enforce, gpus: 8}")
    one, _ = site.replica()
    written(one, lambda: team in site.shown())
    eventually(lambda: one.has((team, NAME)))
    before = site.versions()
    for _ in range(3):
        one.write_some()
    assert site.versions() == before


def test_under_the_default_a_namespace_is_shown_once_a_pod_was_admitted_there(site: Site) -> None:
    quiet, busy = site.namespace(), site.namespace()
    one, _ = site.replica()
    heard(one, quiet, dryRun=True)
    heard(one, busy)
    written(one, lambda: busy in site.shown())
    assert site.shown()[busy]["file"] == "_default.yaml"
    assert quiet not in site.shown()


def test_a_changed_policy_is_shown_and_one_without_a_file_falls_to_the_default(site: Site) -> None:
    team = site.namespace("gpuLimits: {maxPerPod: 2}")
    one, store = site.replica()
    written(one, lambda: site.shown().get(team, {}).get("maxPerPod") == 2)
    for text, most in (("gpuLimits: {maxPerPod: 3}", 3), ("", 4)):
        if text:
            site.write(team, HEAD % team + f"spec:\n  rules:\n    {text}\n")
        else:
            (site.directory / f"{team}.yaml").unlink()
        assert store.check()
        loaded_later(store)
        written(one, lambda most=most: site.shown()[team].get("maxPerPod") == most)  # type: ignore[misc]


def test_a_replica_with_older_policies_leaves_alone_what_another_has_written_since(site: Site) -> None:
    team = site.namespace("gpuLimits: {maxPerPod: 2}")
    older, old_store = site.replica()
    loaded_later(old_store, -60)
    site.write(team, HEAD % team + "spec:\n  rules:\n    gpuLimits: {maxPerPod: 3}\n")
    newer, _ = site.replica()
    written(newer, lambda: site.shown().get(team, {}).get("maxPerPod") == 3)
    eventually(lambda: older.has((team, NAME)))
    before = site.versions()
    for _ in range(3):
        older.write_some()
    assert site.versions() == before


def test_what_somebody_changes_is_written_over(site: Site) -> None:
    team = site.namespace("gpuLimits: {maxPerPod: 2}")
    one, store = site.replica()
    written(one, lambda: team in site.shown())
    loaded_later(store)
    path = f"{GROUP}/namespaces/{team}/gpupolicies/{NAME}"
    assert site.plane.raw("PATCH", path, {"status": {"maxPerPod": 99}})[0] == 200
    written(one, lambda: site.shown()[team]["maxPerPod"] == 2)


def test_made_up_namespaces_are_bounded_and_soon_forgotten(site: Site) -> None:
    one, _ = site.replica()
    for number in range(10 * MOST_HEARD):
        heard(one, f"made-up-{number}")
    assert len(one._heard) == MOST_HEARD
    one._clock.now += 301  # type: ignore[attr-defined]  # the clock of the test
    one._wanted()
    assert one._heard == {}

"""Groups and single pods that race for a quota over replicas that are killed."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from http.client import HTTPException
from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.kinds import defined_kinds
from tests.e2e.neighbour import LABEL, registered
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import PATIENCE, create, pods
from tests.e2e.quota_observer import Observer
from tests.e2e.quota_site import QuotaSite
from tests.e2e.test_groups import API, MOST, groups, held
from tests.lab.soak.site import SECONDS

__all__ = ["groups"]

SEED = os.environ.get("SOAK_SEED", "39")
"""What the choices of all threads follow from. When their requests meet is up to the machine."""
THREADS = 64
GRACE = 30.0
"""Seconds in which a pod gets in for which room is held. The entry of a create that was lost may stand in its place for
six of them.
"""
LOST = {0, 429, 500, 503, 504}
"""Answers where a replica was killed, a ledger is written by too many, or another webhook took too long."""
LWS = "leaderworkerset.sigs.k8s.io/"
GROUPS = {
    "PodGroup": (f"{API}/{{}}/podgroups", "scheduling.k8s.io/v1beta1"),
    "LeaderWorkerSet": (
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets",
        "leaderworkerset.x-k8s.io/v1",
    ),
}
"""Kind -> the path of its objects in a namespace, and its version. The second has two parts."""
GATES = [{"name": "example.com/queue"}]
PODS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE", "UPDATE"]}]


class NoRoomError(Exception):
    """The quota has no room."""


class Team:
    """Makes groups and single pods one after the other, and takes all but the last one away again.

    `halves` are the groups that began and did not get in as a whole. `counts` has what became of groups.
    """

    def __init__(self, site: QuotaSite, namespace: str, number: int, ends: float) -> None:
        self.plane, self.namespace, self.ends = site.plane, namespace, ends
        self.random = random.Random(f"{SEED} {number}")
        self.names = (f"{number}-{count}" for count in range(10**6))
        self.halves: list[str] = []
        self.counts: Counter[str] = Counter()
        self.lost_at = 0.0

    def work(self) -> None:
        while time.monotonic() < self.ends:
            try:
                self.random.choice([self.single, self.group, self.group])()
            except NoRoomError:
                time.sleep(self.random.uniform(0, 1))

    def single(self) -> None:
        name = f"one-{next(self.names)}"
        try:
            self.enter(gpu_pod(name, self.random.randint(1, 4)))
            time.sleep(self.random.uniform(0, 3))
        finally:
            self.delete(name)

    def group(self) -> None:
        """A group whose object may change its size meanwhile, and one of whose pods may be made anew."""
        kind, name = self.random.choice(list(GROUPS)), f"g-{next(self.names)}"
        promised = size = self.random.randint(2, 5)
        gpus, members, since = self.random.randint(1, 3), list[str](), time.monotonic()
        self.change(kind, name, size, gpus)
        try:
            while len(members) < size:
                member = f"{name}-{next(self.names)}"
                try:
                    self.enter(as_member(gpu_pod(member, gpus), kind, name, len(members)))
                except NoRoomError:
                    self.delete(member)
                    if not members:
                        raise
                    if size > promised:
                        size = max(promised, len(members))
                        self.change(kind, name, size, gpus)
                    elif time.monotonic() > max(since, self.lost_at) + GRACE:
                        self.halves.append(f"{kind} {name}: {len(members)} of {size} pods with {gpus} GPUs each")
                        return
                    time.sleep(0.3)
                    continue
                members.append(member)
                since = time.monotonic()
                if self.random.random() < 0.2:
                    size = max(size + self.random.choice([-1, 1]), len(members), 2)
                    promised = min(promised, size)
                    self.change(kind, name, size, gpus)
            self.counts[kind] += 1
            time.sleep(self.random.uniform(0, 2))
            if self.random.random() < 0.3:
                self.delete(members.pop())
                members.append(f"{name}-again")
                self.enter(as_member(gpu_pod(members[-1], gpus), kind, name, len(members) - 1))
            if time.monotonic() > self.ends:
                return
        except NoRoomError:
            self.counts[f"{kind} refused"] += not members
        for member in self.random.sample(members, len(members)):
            self.delete(member)
        path = f"{GROUPS[kind][0].format(self.namespace)}/{name}"
        self.send("PATCH", path, {"metadata": {"finalizers": None}})
        self.send("DELETE", path)

    def change(self, kind: str, name: str, size: int, gpus: int) -> None:
        """Make the object of a group, or have it ask for so many pods."""
        path, version = GROUPS[kind]
        template = {"spec": gpu_pod("", gpus)["spec"]}
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}}
        if kind != "PodGroup":
            spec = {"leaderWorkerTemplate": {"size": size, "leaderTemplate": template, "workerTemplate": template}}
        manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        if self.send("POST", path := path.format(self.namespace), manifest) == 409:
            assert self.send("PATCH", f"{path}/{name}", {"spec": spec}) == 200

    def enter(self, raw: dict[str, Any]) -> None:
        """Have a pod created, perhaps with a gate that goes then. Raises NoRoomError."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        place = f"{path}/{raw['metadata']['name']}"
        if self.random.random() < 0.3:
            raw["metadata"].setdefault("labels", {})[LABEL] = "yes"
        if self.random.random() < 0.5:
            raw["spec"]["schedulingGates"] = GATES
        status = self.send("POST", path, raw)
        if "schedulingGates" in raw["spec"]:
            assert status in {201, 409}
            status = self.send("PATCH", place, {"spec": {"schedulingGates": None}})
        if status == 403:
            found = self.plane.raw("GET", place)[1].get("spec", {"schedulingGates": GATES})
            if "schedulingGates" in found:  # else an attempt without an answer was stored
                raise NoRoomError
        assert status in {200, 201, 403, 409}, status

    def send(self, method: str, path: str, body: Any = None) -> int:
        """Try until there is an answer, as controllers do; its status."""
        for _ in range(200):
            try:
                status, answer = self.plane.raw(method, f"{path}?timeout={PATIENCE}s", body)
            except (OSError, HTTPException):
                status, answer = 0, {}
            if status not in LOST and "not yet" not in str(answer):
                return status
            self.lost_at = time.monotonic()
            time.sleep(self.random.uniform(0.05, 0.5))
        raise AssertionError(f"{method} {path}: {status} {answer}")

    def delete(self, name: str) -> None:
        self.send("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{name}", {"gracePeriodSeconds": 0})


def as_member(raw: dict[str, Any], kind: str, group: str, place: int) -> dict[str, Any]:
    """A pod as one of a group."""
    if kind == "PodGroup":
        raw["spec"]["schedulingGroup"] = {"podGroupName": group}
    else:
        raw["metadata"]["labels"] = {LWS + "name": group, LWS + "group-index": "0", LWS + "worker-index": str(place)}
    return raw


def refuse_some(_request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Another webhook takes up to a second, and refuses one of ten, so that what was entered is not stored."""
    time.sleep(random.uniform(0, 1))
    is_allowed = random.random() > 0.1
    return {"allowed": is_allowed} | ({} if is_allowed else {"status": {"code": 403, "message": "not yet"}})


def started(site: QuotaSite, namespace: str) -> list[dict[str, Any]]:
    return [raw["metadata"] for raw in pods(site.plane, namespace) if not raw["spec"].get("schedulingGates")]


def halves(site: QuotaSite, namespace: str) -> Iterator[str]:
    """The groups of which some pods have started and not as many as the object asks for."""
    names = [one["name"] for one in started(site, namespace)]
    for path, _ in GROUPS.values():
        for raw in site.plane.raw("GET", path.format(namespace))[1]["items"]:
            asked = raw["spec"].get("leaderWorkerTemplate") or raw["spec"]["schedulingPolicy"]["gang"]
            size, group = asked.get("size") or asked["minCount"], f"{raw['metadata']['name']}-"
            if 0 < (there := sum(name.startswith(group) for name in names)) < size:
                yield f"{group}: {there} of {size}"


def test_groups_and_single_pods_race_over_replicas_that_are_killed(
    groups: QuotaSite, make_namespace: Callable[[str], str]
) -> None:
    """Never more than the quota at any instant, no group that began stays half, and nothing is held in the end."""
    namespace, plane, source = make_namespace("many"), groups.plane, random.Random(SEED)

    def counted(raw: Mapping[str, Any]) -> Fraction:
        if raw["metadata"]["namespace"] != namespace or raw["spec"].get("schedulingGates"):
            return Fraction(0)
        return Fraction(raw["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])

    def entered() -> set[str]:
        return groups.entered(f"namespace.{namespace}")

    with (
        defined_kinds(plane),
        registered(groups.installation, "validating", refuse_some, "neighbour", rules=PODS),
        Observer(plane, {"used": counted}) as observer,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        gauge, ends = observer.gauges["used"], time.monotonic() + SECONDS
        teams = [Team(groups, namespace, number, ends) for number in range(THREADS)]
        working = [threads.submit(team.work) for team in teams]
        while time.monotonic() < ends and gauge.peak <= MOST:
            time.sleep(source.uniform(0.5, 3))
            victim = source.choice(groups.replicas.running)
            victim.kill()
            time.sleep(source.uniform(0, 1))
            victim.start()
        for one in working:
            one.result()
        observer.catch_up()
        counts = sum((team.counts for team in teams), Counter[str]())
        found = [*(half for team in teams for half in team.halves), *halves(groups, namespace)]
        where = f"SOAK_SEED={SEED}: at most {gauge.peak} GPUs, at {gauge.peak_at}; {counts}"
        print(where)
        assert (gauge.peak <= MOST, found) == (True, []), where
        assert counts.keys() == {*GROUPS, *(f"{kind} refused" for kind in GROUPS)}, where
        assert gauge.peak > MOST / 2, where
        eventually(lambda: entered() == {one["uid"] for one in started(groups, namespace)})
        eventually(lambda: held(groups, namespace) == [])
        plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
        eventually(lambda: create(groups, namespace, gpu_pod("all", MOST))[0] == 201)
        assert (len(entered()), held(groups, namespace)) == (1, [])

"""What storms are about: quotas of each kind, pods of every sort that counts against them, and sums done by hand."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product
from typing import Any

from tests.e2e.neighbour import LABEL
from tests.e2e.objects import pod
from tests.e2e.quota_observer import Observer, PodAmount
from tests.e2e.quota_site import QuotaSite, quota_policy, shared_quotas_text
from tests.e2e.quota_storm import Wish

Raw = Mapping[str, Any]

GPU, SEVENTH, QUARTER = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.20gb"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
T4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
SIZE = {GPU: Fraction(1), SEVENTH: Fraction(1, 7), QUARTER: Fraction(1, 4)}
"""Of an H100 with 80 GB there are 7 slices of the one profile, or 4 of the other."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Pods that are alike: `count` of a resource, wherever the node selector lets them go."""

    resource: str = GPU
    count: int = 1
    selector: Mapping[str, str] = field(default_factory=dict)

    def pod(self, name: str) -> dict[str, Any]:
        """The manifest of one of them."""
        return pod(name, {"limits": {self.resource: str(self.count)}}, nodeSelector=dict(self.selector))


def gpus(raw: Raw) -> Fraction:
    """GPUs of a pod, in parts of whole ones."""
    (container,) = raw["spec"]["containers"]
    return sum((SIZE.get(name, 0) * int(text) for name, text in container["resources"]["limits"].items()), Fraction(0))


def of_model(selector: Mapping[str, str]) -> PodAmount:
    """GPUs of the pods that may land on the nodes with this label: all but those that select other ones."""
    return lambda raw: gpus(raw) if raw["spec"].get("nodeSelector", selector) == selector else Fraction(0)


def units(resource: str) -> PodAmount:
    """How many of a resource a pod has."""
    return lambda raw: gpus(raw) / SIZE[resource] if resource in str(raw["spec"]["containers"]) else Fraction(0)


@dataclass(frozen=True, slots=True)
class Case:
    """One quota. `prefix` begins the names of its namespaces, `hard` and `amounts` are its limits, by any name."""

    prefix: str
    policy: str
    sorts: Sequence[Sort]
    hard: Mapping[str, Fraction]
    amounts: Mapping[str, PodAmount]
    namespaces: int = 1
    shared_quota: str = ""


WHOLE = {"gpus": Fraction(37)}
PARTS = {"gpus": Fraction(37, 7)}

CASES = [
    Case("ones", "{mode: enforce, gpus: 37}", [Sort()], WHOLE, {"gpus": gpus}),
    Case("sizes", "{mode: enforce, gpus: 37}", [Sort(count=n) for n in (1, 1, 2, 3, 4, 8)], WHOLE, {"gpus": gpus}),
    Case("potted", "{}", [Sort(), Sort(count=2)], WHOLE, {"gpus": gpus}, namespaces=3, shared_quota="potted"),
    Case(
        "models",
        "{mode: enforce, byModel: {H100: 19, T4: 18}}",
        [Sort(), Sort(selector=H100), Sort(selector=T4), Sort(count=2, selector=H100)],
        {"H100": Fraction(19), "T4": Fraction(18)},
        {"H100": of_model(H100), "T4": of_model(T4)},
    ),
    Case(
        "sevenths",
        f'{{mode: enforce, gpus: "37/7", byResource: {{"{SEVENTH}": 37}}}}',
        [Sort(SEVENTH, selector=H100)],
        PARTS | {"units": Fraction(37)},
        {"gpus": gpus, "units": units(SEVENTH)},
    ),
    Case(
        "slices",
        '{mode: enforce, gpus: "37/7"}',
        [Sort(SEVENTH, selector=H100), Sort(SEVENTH, 3, H100), Sort(QUARTER, selector=H100), Sort(selector=H100)],
        PARTS,
        {"gpus": gpus},
    ),
]

POLICIES = {f"{case.prefix}.yaml": quota_policy(case.prefix, case.policy) for case in CASES} | {
    "_quotas.yaml": shared_quotas_text({"name": "potted", "namespaces": ["potted-*"], "gpus": 37})
}


class Contest:
    """A case in namespaces of its own."""

    def __init__(self, case: Case, make_namespace: Callable[[str], str]) -> None:
        self.case = case
        self.namespaces = [make_namespace(case.prefix) for _ in range(case.namespaces)]
        self.key = f"shared.{case.shared_quota}" if case.shared_quota else f"namespace.{self.namespaces[0]}"
        self._round = 0

    @property
    def amounts(self) -> dict[str, PodAmount]:
        """What an observer has to add up, for each limit."""
        return {f"{self.key} {name}": self._here(amount) for name, amount in self.case.amounts.items()}

    def wishes(self, count: int) -> list[Wish]:
        """So many pods, of each sort as many and in each namespace as many; no name comes twice.

        Another webhook is asked about one in twenty. AssertionError if they are too few to fill the quota in any event.
        """
        self._round += 1
        every = list(islice(product(range(count), self.case.sorts, self.namespaces), count))
        self._assert_enough([sort for _, sort, _ in every])
        wishes = [
            Wish(namespace, sort.pod(f"r{self._round}-{number}")) for number, (_, sort, namespace) in enumerate(every)
        ]
        for wish in random.sample(wishes, count // 20):
            wish.manifest["metadata"]["labels"] = {LABEL: "yes"}
        return wishes

    def excesses(self, observer: Observer) -> list[str]:
        """Where more was in use than allowed, at any instant."""
        gauges = {name: observer.gauges[f"{self.key} {name}"] for name in self.case.hard}
        return [
            f"{self.key} {name}: {gauge.peak} of {self.case.hard[name]} at resourceVersion {gauge.peak_at}"
            for name, gauge in gauges.items()
            if gauge.peak > self.case.hard[name]
        ]

    def is_full(self, observer: Observer) -> bool:
        """Whether not even the smallest pod fits any more: of whole GPUs, whether exactly as many are in use as may."""
        pods = [sort.pod("any") for sort in self.case.sorts]
        smallest = {name: min(filter(None, map(amount, pods))) for name, amount in self.case.amounts.items()}
        now = {name: observer.gauges[f"{self.key} {name}"].now for name in smallest}
        return all(self.case.hard[name] - now[name] < smallest[name] for name in smallest)

    def is_balanced(self, site: QuotaSite, observer: Observer) -> bool:
        """Whether exactly those pods have an entry in the ledger that the API server has."""
        return site.entered(self.key) == {uid for name in self.amounts for uid in observer.uids(name)}

    def _assert_enough(self, sorts: Sequence[Sort]) -> None:
        """For each limit there are as many of the pods that count least as would fill it without any others.

        With fewer, a quota can come to an end where nothing fits that is still wanted, and yet it is not full.
        """
        for name, amount in self.case.amounts.items():
            least = min(
                (sort for sort in self.case.sorts if amount(sort.pod("any"))),
                key=lambda sort: sum(each(sort.pod("any")) for each in self.case.amounts.values()),
            )
            there = sorts.count(least) * amount(least.pod("any"))
            assert there >= self.case.hard[name], f"the pods of {self.key} cannot fill {name}: {there} of {least}"

    def _here(self, amount: PodAmount) -> PodAmount:
        return lambda raw: amount(raw) if raw["metadata"]["namespace"] in self.namespaces else Fraction(0)

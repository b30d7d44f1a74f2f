"""The command `gpu-policy top`: GPUs in use, and what waits for them, on one screen."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from webhook.commands.inputs import (
    console,
    load_policies,
    print_document,
    refuse_two_sources,
    server_of,
    server_of_file,
)
from webhook.commands.options import Cluster, InventoryFile, Policies, Printed, option, takes

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.audit.quota_report import ReportedQuota
    from webhook.kubernetes.paged_list import Gets
    from webhook.ledger.ledger_store import GpuPod
    from webhook.model.accelerators import Accelerators

_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class TopOptions(Cluster, InventoryFile, Policies, Printed):
    namespace: str | None = option("Only this namespace [default: all].", None, "-n")
    watch: bool = option("Show it again every five seconds, until Ctrl-C.", None, "-w")


@click.command()
@takes(TopOptions)
def top(asked: TopOptions) -> None:
    """Show which GPUs are used and free, and what is gated, waiting, refused or excepted.

    Used is what pods on nodes have, gated what a queue holds back, waiting what has no node yet. Refused are objects
    whose pods the webhook refused within the last hour, as events say. What you may not read is left out, and named.
    With --inventory, the pods of that file are counted against the quotas of --policies, and no cluster is read.

    Exit status: 0, or 2 if the input cannot be used or the cluster does not answer.
    """
    from webhook.model.accelerators import BUILT_IN

    refuse_two_sources(asked.inventory, is_cluster_named=bool(asked.kubeconfig or asked.context))
    server: Gets
    if asked.inventory is None:
        server, accelerators = server_of(asked.kubeconfig, asked.context), BUILT_IN
    else:
        known = load_policies(asked.policies)
        server, accelerators = server_of_file(asked.inventory, known), known.accelerators
    while True:
        found, quotas = _look(server, asked.namespace or "", accelerators)
        if asked.output != "text":
            print_document(found, asked.output)
        else:
            screen = console()
            if asked.watch:
                screen.clear()
            _print(found, quotas, screen, names_namespaces=asked.namespace is None)
        if not asked.watch:
            return
        try:
            time.sleep(_PAUSE_SECONDS)
        except KeyboardInterrupt:
            return


_WAYS = ("used", "gated", "waiting")


def _look(server: "Gets", namespace: str, accelerators: "Accelerators") -> "tuple[dict[str, Any], list[ReportedQuota]]":
    """What is known, for programs, without the keys that nobody may know; and the quotas."""
    from webhook.audit.node_kinds import capacity_of
    from webhook.audit.object_sources import read_facts
    from webhook.audit.quota_report import quotas_of_objects
    from webhook.kubernetes.discovery import PODS
    from webhook.ledger.gpu_pods import COUNTING
    from webhook.ledger.static_pods import StaticPods
    from webhook.model.claims import CLAIM, GROUP
    from webhook.model.json_parts import listed, text
    from webhook.quota.quota_wording import number
    from webhook.why.reading import EVENTS, ClusterReader
    from webhook.why.workload_reasons import is_our_refusal

    reader = ClusterReader(server)
    facts, faults = read_facts(server, accelerators)
    claims = reader.items(reader.find(GROUP, CLAIM), namespace, "")
    raws = reader.items(PODS, namespace, "which pods use GPUs, or wait for them", selector=COUNTING)
    pods: defaultdict[tuple[str, str], list[GpuPod]] = defaultdict(list)
    for pod in StaticPods(raws, accelerators=accelerators, claims=claims, known=facts).seen():
        way = "used" if pod.node or pod.requests else "gated" if pod.is_gated else "waiting"
        pods[pod.namespace, way].append(pod)
    gpus = {key: _gpus(found, accelerators) for key, found in pods.items()}
    quota, effective = (reader.find("gpupolicy.dev", kind) for kind in ("GPUQuota", "EffectiveGPUPolicy"))
    quotas = quotas_of_objects(reader.items(quota, namespace, "how much of the GPU quotas is used"))
    policies = reader.items(effective, namespace, "which exceptions there are")
    excepted = {text(one, "metadata", "namespace"): listed(one, "status", "exceptions") for one in policies}
    refused: defaultdict[str, set[str]] = defaultdict(set)
    for event in reader.items(EVENTS, namespace, "whose pods were refused", selector="type=Warning"):
        if is_our_refusal(event):
            of = (text(event, "involvedObject", key) for key in ("kind", "name"))
            refused[text(event, "metadata", "namespace")].add(" ".join(of))
    knows = {
        **dict.fromkeys(_WAYS, not reader.is_missing("list", "pods", namespace)),
        "refused": not reader.is_missing("list", "events", namespace),
        "exceptions": effective is not None and not reader.is_missing("list", str(effective), namespace),
    }
    rows: list[dict[str, Any]] = []
    for name in sorted({one for one, _ in pods} | excepted.keys() | refused.keys()):
        row: dict[str, Any] = {way: number(gpus.get((name, way), Fraction(0))) for way in _WAYS}
        row |= {"refused": sorted(refused[name]), "exceptions": list(excepted.get(name, ()))}
        if any(one not in ("0", []) for one in row.values()):
            rows.append({"namespace": name, **{key: value for key, value in row.items() if knows[key]}})
    total = {way: sum((one for key, one in gpus.items() if key[1] == way), Fraction(0)) for way in _WAYS}
    found: dict[str, Any] = {way: number(one) for way, one in total.items() if knows[way]}
    if facts.knows_nodes() and not namespace and knows["used"]:
        on_nodes = sum((one.physical for one in capacity_of(facts.cluster, accelerators)), Fraction(0))
        found |= {"onNodes": number(on_nodes), "free": number(max(on_nodes - total["used"], Fraction(0)))}
    found |= {key: sum(len(one[key]) for one in rows) for key in ("refused", "exceptions") if knows[key]}
    missing = [{"message": str(one)} for one in (*reader.missing, *faults)]
    parts = {"quotas": [one.to_json() for one in quotas], "namespaces": rows, "missing": missing}
    return {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUTop", **found, **parts}, quotas


def _gpus(pods: "Iterable[GpuPod]", accelerators: "Accelerators") -> Fraction:
    """Whole GPUs, as a quota without other settings counts them."""
    from webhook.ledger.ledger_store import demand_of_stored
    from webhook.quota.amounts import used
    from webhook.quota.quotas import Counting, Limit, Measure, Quota, QuotaScope

    limit = Limit(Measure.GPUS, "", Fraction(0))
    every = Quota(QuotaScope.SHARED, "", ("*",), (limit,), Counting(accelerators=accelerators))
    demands = (demand_of_stored(pod, every.counting) for pod in pods)
    return used(Counter(one for one in demands if one is not None), every)[limit]


def _print(
    found: Mapping[str, Any], quotas: "list[ReportedQuota]", screen: "Console", *, names_namespaces: bool
) -> None:
    from rich.text import Text

    from webhook.audit import quota_report
    from webhook.audit.reports.as_text import table

    words = {"onNodes": "GPUs on nodes", "refused": "refused", "exceptions": "exceptions"}
    shown = ("onNodes", "used", "free", "gated", "waiting", "refused", "exceptions")
    head = ", ".join(f"{found[key]} {words.get(key, key)}" for key in shown if key in found)
    screen.print(Text(head or "nothing is known", style="bold"), soft_wrap=True)
    quota_report.render(quotas, screen, names_namespaces=names_namespaces)
    columns = [key for key in ("namespace", *shown) if any(one.get(key) for one in found["namespaces"])]
    rows = [[_cell(one.get(key, "")) for key in columns] for one in found["namespaces"]]
    if rows:
        screen.print(table([key.upper() for key in columns], rows))
    for one in found["missing"]:
        screen.print(Text(f"Not known: {one['message']}", style="dim"), soft_wrap=True)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return ", ".join(one if isinstance(one, str) else f"{one['name']} until {one['until']}" for one in value)

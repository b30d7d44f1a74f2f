"""The command `gpu-policy top`: GPUs in use, and what waits for them, on one screen."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from webhook.commands.inputs import (
    UNUSABLE,
    console,
    load_policies,
    print_line,
    refuse_two_sources,
    server_of,
    server_of_file,
)
from webhook.commands.options import InventoryFile, OneCluster, Policies, Printed, option, takes

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.audit.quota_report import ReportedQuota
    from webhook.kubernetes.paged_list import Gets
    from webhook.ledger.ledger_store import GpuPod
    from webhook.model.accelerators import Accelerators

_PAUSE_SECONDS = 5.0


class TopOptions(OneCluster, InventoryFile, Policies, Printed):
    namespace: str | None = option("Only this namespace [default: all].", None, "-n")
    watch: bool = option("Show it again every five seconds, until Ctrl-C.", None, "-w")


@click.command()
@takes(TopOptions)
def top(asked: TopOptions) -> None:
    """Show which GPUs are used and free, and what is gated, waiting, refused or excepted.

    Used is what pods on nodes have, gated what a queue holds back, waiting what has no node yet. Refused are objects
    whose pods the webhook refused, as events say, which a cluster keeps for an hour. What you may not read is named.
    With --inventory, the pods of that file are counted against the quotas of --policies, and no cluster is read.

    Exit status: 0, or 2 if the input cannot be used, the cluster does not answer, or you may read nothing of it.
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
        if asked.watch and asked.output == "text":
            console().clear()
        asked.show(found, partial(_print, found, quotas, namespace=asked.namespace))
        if not asked.watch:
            sys.exit(0 if quotas or "used" in found or "refused" in found else UNUSABLE)
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

    rows: dict[str, dict[str, Any]] = {}

    def row(name: str) -> dict[str, Any]:
        return rows.setdefault(name, {**dict.fromkeys(_WAYS, Fraction(0)), "refused": [], "exceptions": []})

    reader = ClusterReader(server)
    facts, faults = read_facts(server, accelerators)
    claims = reader.items(reader.find(GROUP, CLAIM), namespace, "")
    raws = reader.items(PODS, namespace, "which pods use GPUs, or wait for them", selector=COUNTING)
    pods: defaultdict[tuple[str, str], list[GpuPod]] = defaultdict(list)
    for pod in StaticPods(raws, accelerators=accelerators, claims=claims, known=facts).seen():
        way = "used" if pod.node or pod.requests else "gated" if pod.is_gated else "waiting"
        pods[pod.namespace, way].append(pod)
    for (name, way), found in pods.items():
        row(name)[way] = _gpus(found, accelerators)
    for event in reader.items(EVENTS, namespace, "whose pods were refused", selector="type=Warning"):
        about = " ".join(text(event, "involvedObject", key) for key in ("kind", "name"))
        if is_our_refusal(event) and about not in (refused := row(text(event, "metadata", "namespace"))["refused"]):
            refused.append(about)
    quota, effective = (reader.find("gpupolicy.dev", kind) for kind in ("GPUQuota", "EffectiveGPUPolicy"))
    quotas = quotas_of_objects(reader.items(quota, namespace, "how much of the GPU quotas is used"))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    for one in reader.items(effective, namespace, "which exceptions there are"):
        if held := [each for each in listed(one, "status", "exceptions") if text(each, "until") >= today]:
            row(text(one, "metadata", "namespace"))["exceptions"] += held
    known = {
        **dict.fromkeys(_WAYS, not reader.is_missing("list", "pods", namespace)),
        "refused": not reader.is_missing("list", "events", namespace),
        "exceptions": effective is not None and not reader.is_missing("list", str(effective), namespace),
    }
    keys = [key for key, is_known in known.items() if is_known]
    totals = {key: sum((one[key] if key in _WAYS else len(one[key]) for one in rows.values()), 0) for key in keys}
    if facts.knows_nodes() and not namespace and known["used"]:
        totals["onNodes"] = sum(one.physical for one in capacity_of(facts.cluster, accelerators))
        totals["free"] = max(totals["onNodes"] - totals["used"], 0)
    return {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "GPUTop",
        **{key: one if key in ("refused", "exceptions") else number(Fraction(one)) for key, one in totals.items()},
        "quotas": [one.to_json() for one in quotas],
        "namespaces": [
            {"namespace": name, **{key: number(one[key]) if key in _WAYS else one[key] for key in keys}}
            for name, one in sorted(rows.items())
        ],
        "missing": [{"message": str(one)} for one in (*reader.missing, *faults)],
    }, quotas


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
    found: Mapping[str, Any], quotas: "list[ReportedQuota]", screen: "Console", *, namespace: str | None
) -> None:
    from webhook.audit import quota_report
    from webhook.audit.reports.as_text import table

    keys = ("onNodes", "used", "free", "gated", "waiting", "refused", "exceptions")
    words = {"onNodes": "GPUs on nodes", "exceptions": "exception" if found.get("exceptions") == 1 else "exceptions"}
    head = ", ".join(f"{found[key]} {words.get(key, key)}" for key in keys if key in found)
    print_line((head or "nothing is known", "bold"))
    quota_report.render(quotas, screen, names_namespaces=namespace is None)
    columns = [key for key in ("namespace", *keys) if any(one.get(key) for one in found["namespaces"])]
    if rows := [[_cell(one[key]) for key in columns] for one in found["namespaces"]]:
        screen.print(table([key.upper() for key in columns], rows))
    elif namespace and not quotas and not found["missing"]:
        print_line(f"Namespace {namespace} has no GPU pods, quotas, refusals or exceptions; check --namespace")
    for one in found["missing"]:
        print_line((f"Not known: {one['message']}", "dim"))
    if found["missing"] and namespace is None:
        print_line(("Of one namespace you may read more: -n NAMESPACE", "dim"))


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return ", ".join(one if isinstance(one, str) else f"{one['name']} until {one['until']}" for one in value)

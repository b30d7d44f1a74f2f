"""Load on the running server over TLS, beside a minimal Flask application in the same run.

    python -m tests.lab.benchmarks.direct

Needs wrk. Bounded: SECONDS for each server, phase and kind of connection. Every answer has to be 200 and as long
as the first and the last, which are the same: of the product the patch that completes the pod as the engine does, or
permission without a warning. The product has to count as many such decisions, and nothing else. In the end it has to
have logged them all, and to have no more memory than before but what connections take.
"""

import base64
import json
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import jsonpatch

from tests.lab.benchmarks.answers import Answer, ask, counted, demand_alike, demand_counted
from tests.lab.benchmarks.cluster import PRIORITY_CLASS, nodes, write_policies
from tests.lab.benchmarks.runs import demand, head, need, row, sized
from tests.lab.benchmarks.served import Served, minimal, product, serve
from tests.lab.benchmarks.wrk import Load, Middle, Request, load, missing
from tests.rules.every_rule import COMPLETING_ENFORCED
from webhook import engine
from webhook.ledger.inventory import load_inventory
from webhook.policy.loader import load as load_policies

REVIEW = Path(__file__).with_name("review-create-pod.json")
ROUNDS, SECONDS = sized((3, 3), (1, 1))
CONNECTIONS = sized((1, 8, 32, 100), (8,))
GROWS_MIB = sized(48, 12)
"""The minimal application grows by 32 MiB: 100 connections have buffers for TLS."""
RESULTS = {"mutate": "patched", "validate": "allowed"}
INJECTED = ",".join(COMPLETING_ENFORCED)


def main() -> None:
    """Print a table of both servers, both phases, kept-alive and new connections; medians of interleaved rounds."""
    need(missing())
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        write_policies(directory / "policies", 100)
        inventory = directory / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [PRIORITY_CLASS, *nodes(100)]}))
        command = product(directory / "policies", f"--inventory={inventory}")
        servers = {
            "product": stack.enter_context(serve(directory, "product", command)),
            "minimal": stack.enter_context(serve(directory, "minimal", minimal)),
        }
        bodies = {"mutate": _alone(directory), "validate": _completed(directory, inventory)}
        _demand_decisions(servers["product"], bodies)
        print(f"RSS MiB (arbiter, worker): {_memory(servers)}\n")
        began, answers = servers["product"].rss_mib()[-1], 0
        head("Connections", "phase", "reviews/s", "minimal", "ratio", "p50 / p99, ms", "CPU ms per review")
        for connections in CONNECTIONS:
            for kept in (True, False):
                for phase, body in bodies.items():
                    answers += _compare(servers, connections, phase, body, kept=kept)
        print(f"\nRSS MiB (arbiter, worker): {_memory(servers)}")
        time.sleep(1)
        logged, grown = servers["product"].decisions(), servers["product"].rss_mib()[-1] - began
        demand(logged >= answers, f"{logged} of {answers} decisions are in the log")
        demand(grown < GROWS_MIB, f"the worker has {grown:.0f} MiB more than before {answers} reviews")


def _alone(directory: Path) -> Path:
    """The review of a pod that no controller made."""
    review = json.loads(REVIEW.read_text())
    del review["request"]["object"]["metadata"]["ownerReferences"]
    file = directory / "alone.json"
    file.write_text(json.dumps(review, separators=(",", ":")))
    return file


def _completed(directory: Path, inventory: Path) -> Path:
    """The review of the validating phase: the same pod, completed."""
    review = json.loads(_alone(directory).read_text())
    policy = load_policies(directory / "policies").for_namespace(review["request"]["namespace"])
    review["request"]["object"] = engine.mutate(review["request"]["object"], policy, load_inventory(inventory)).object
    file = directory / "completed.json"
    file.write_text(json.dumps(review, separators=(",", ":")))
    return file


def _demand_decisions(server: Served, bodies: Mapping[str, Path]) -> None:
    """The product completes the pod as the engine does, with all injections, and then has nothing to say."""
    reviews = {phase: json.loads(file.read_text())["request"] for phase, file in bodies.items()}
    found = {phase: ask(server, "POST", f"/{phase}", file.read_bytes()).response for phase, file in bodies.items()}
    patch = json.loads(base64.b64decode(found["mutate"].get("patch", "W10=")))
    patched = jsonpatch.apply_patch(reviews["mutate"]["object"], patch)
    demand(patched == reviews["validate"]["object"], f"/mutate did not complete the pod as the engine does: {found}")
    injected = patched["metadata"]["annotations"]["gpupolicy.dev/injected"]
    demand(injected == INJECTED, f"/mutate injected {injected}; expected is {INJECTED}")
    allowed = {"uid": reviews["validate"]["uid"], "allowed": True}
    judged = {key: value for key, value in found["validate"].items() if key != "auditAnnotations"}
    demand(judged == allowed, f"/validate answered {judged}; expected is {allowed}")


def _memory(servers: Mapping[str, Served]) -> str:
    return ", ".join(f"{name} {' + '.join(f'{mib:.0f}' for mib in s.rss_mib())}" for name, s in servers.items())


def _compare(servers: Mapping[str, Served], connections: int, phase: str, body: Path, *, kept: bool) -> int:
    """Print a row; how many reviews the product answered."""
    samples: dict[str, list[Load]] = {name: [] for name in servers}
    before = counted(servers["product"])
    for _ in range(ROUNDS):
        for name, server in servers.items():
            samples[name].append(_checked(server, connections, phase, body, kept=kept))
    answers = sum(one.answers for one in samples["product"])
    demand_counted(before, counted(servers["product"]), {phase: RESULTS[phase]}, answers)
    middle = {name: Middle.of(taken) for name, taken in samples.items()}
    taken, floor = middle["product"], middle["minimal"]
    row(
        f"{connections}, {'kept' if kept else 'new'}",
        phase,
        f"{taken.rate:,.0f}",
        f"{floor.rate:,.0f}",
        f"{taken.rate / floor.rate:.2f}",
        f"{taken.p50:.2f} / {taken.p99:.2f}",
        f"{taken.cpu:.2f}",
    )
    return answers


def _checked(server: Served, connections: int, phase: str, body: Path, *, kept: bool) -> Load:
    def once() -> Answer:
        return ask(server, "POST", f"/{phase}", body.read_bytes(), kept=kept)

    url = f"{server.url}/{phase}"
    before = once()
    taken = load(
        Request(url, body, headers={} if kept else {"Connection": "close"}), connections, SECONDS, server.cpu_seconds
    )
    demand_alike(taken, connections, before, once(), url)
    return taken


if __name__ == "__main__":
    main()

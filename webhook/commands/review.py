"""The command `gpu-policy review`: what the webhook would answer for manifests."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.commands.inputs import facts_of, inventory_of, load_policies, manifests_of, refuse_two_sources
from webhook.commands.options import INVENTORY, KUBECONFIG, POLICIES, STRICT

if TYPE_CHECKING:
    from webhook.facts.facts import ClusterFacts
    from webhook.facts.pod_source import PodsAndClaims
    from webhook.facts.static_pods import StaticPods
    from webhook.model.accelerators import Accelerators


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR|- ...")
@click.option("--namespace", "-n", default="default", help="Namespace of objects that name none.")
@POLICIES
@INVENTORY
@KUBECONFIG
@STRICT
@click.option(
    "--output", "-o", type=click.Choice(["text", "json", "diff"]), default="text", help="Format of standard output."
)
def review(
    paths: tuple[str, ...],
    namespace: str,
    policies: Path,
    inventory: Path | None,
    kubeconfig: Path | None,
    strict: bool,
    output: str,
) -> None:
    """Print what the webhook would answer for manifests.

    The answer says what would be injected or refused, and why.

    Exit status: 0 everything is allowed, 1 something is refused, 2 the input or a policy cannot be used.
    """
    from webhook.audit import review_formats, review_objects
    from webhook.ledger.context import LedgerContext
    from webhook.ledger.ledger_store import MemoryStore
    from webhook.ledger.ledgers import Ledgers

    policy_set = load_policies(policies)
    facts, pods = _facts_and_pods(inventory, kubeconfig, policy_set.accelerators)
    documents = manifests_of(paths, is_strict=strict)
    facts = review_objects.with_input_claims(facts, documents, namespace)
    ledgers = Ledgers(LedgerContext(MemoryStore(), pods))
    reviewed = review_objects.review(documents, namespace, review_objects.ReviewContext(policy_set, facts, ledgers))
    if output == "json":
        click.echo(review_formats.render_json(reviewed), nl=False)
    elif output == "diff":
        for line in review_formats.render_diff(reviewed):
            click.echo(line)
    else:
        from rich.console import Console

        console = Console(highlight=False)
        review_formats.render_text(reviewed, console)
        if inventory is None and kubeconfig is None:
            console.print("Without --inventory or --kubeconfig no node and no RuntimeClass is known.", soft_wrap=True)
    sys.exit(reviewed.exit_status)


def _facts_and_pods(
    inventory: Path | None, kubeconfig: Path | None, accelerators: "Accelerators"
) -> "tuple[ClusterFacts, StaticPods | PodsAndClaims]":
    """What a file or a cluster says; nothing without either."""
    from webhook.facts.static_pods import StaticPods

    refuse_two_sources(inventory, kubeconfig)
    if inventory is not None:
        found = inventory_of(inventory, accelerators)
        return found.facts, found.pods
    facts = facts_of(None, kubeconfig, accelerators)
    if kubeconfig is None:
        return facts, StaticPods()
    from webhook.facts.pod_source import PodsAndClaims
    from webhook.kubernetes.api_server import ApiServer

    return facts, PodsAndClaims(ApiServer(kubeconfig), accelerators=accelerators)

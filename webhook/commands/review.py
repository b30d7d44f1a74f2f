"""The command `gpu-policy review`: what the webhook would answer for manifests."""

import sys
from dataclasses import replace
from typing import Any

import click

from webhook.commands.inputs import background_of, console, load_policies, manifests_of, print_document, server_of
from webhook.commands.options import Facts, Policies, Strict, argument, option, takes


class ReviewOptions(Policies, Facts, Strict):
    paths: tuple[str, ...] = argument(nargs=-1, required=True, metavar="FILE|DIR|- ...")
    namespace: str = option("Namespace of objects that name none.", "default", "-n")
    verbose: bool = option("Also warn of models that do not fit into their GPUs.", None, "-v")
    output: str | None = option(
        "Format of standard output [default: text, at a terminal with diffs].",
        None,
        "-o",
        type=click.Choice(["text", "diff", "json", "yaml"]),
    )


@click.command()
@takes(ReviewOptions)
def review(asked: ReviewOptions) -> None:
    """Print what the webhook would answer for manifests.

    The answer says what would be injected or refused, and why.

    Exit status: 0 everything is allowed, 1 something is refused, 2 the input or a policy cannot be used.
    """
    from webhook.audit import review_formats, review_objects
    from webhook.audit.object_sources import of_files

    policy_set = load_policies(asked.policies)
    background = background_of(asked.inventory, asked.kubeconfig, policy_set.accelerators)
    source = of_files(manifests_of(asked.paths, is_strict=asked.strict), asked.namespace, background)

    def judged(raw: Any, policies: Any, facts: Any, now: float) -> Any:
        """A ClusterPolicy or NVIDIADriver, by the workloads of the inventory, or by the pods of the cluster."""
        from webhook.upgrades.driver_changes import judge_by

        workloads = server_of(str(asked.kubeconfig), None) if asked.kubeconfig is not None else asked.inventory
        old = background.facts.cluster.driver_object(raw)
        return judge_by(workloads, policies.accelerators).outcome(raw, old, policies, facts, now)

    context = source.context(policy_set, str(asked.policies))
    context = replace(context, facts=replace(context.facts, is_thorough=asked.verbose), drivers=judged)
    reviewed = review_objects.review(source.documents, asked.namespace, context)
    if asked.output in ("json", "yaml"):
        print_document(review_formats.to_json(reviewed), asked.output)
    elif asked.output == "diff":
        review_formats.print_diff(review_formats.render_diff(reviewed), console())
    else:
        screen = console()
        review_formats.render_text(reviewed, screen, shows_diff=asked.output is None and screen.is_terminal)
        if asked.inventory is None and asked.kubeconfig is None:
            screen.print("Without --inventory or --kubeconfig no node and no RuntimeClass is known.", soft_wrap=True)
    sys.exit(reviewed.exit_status)

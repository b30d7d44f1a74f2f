"""The command `gpu-policy why`: explains why a pod or workload does not run."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.commands.inputs import fail, load_policies, print_line, refuse_two_sources, server_of, server_of_file
from webhook.commands.options import InventoryFile, OneCluster, Printed, argument, option, takes

if TYPE_CHECKING:
    from webhook.kubernetes.api_server import ApiServer
    from webhook.policy.policy_set import PolicySet
    from webhook.why.explanation import Answer, MissingAnswer
    from webhook.why.reading import InventoryServer

_RULES = "which rules the policies of gpu-policy have for the namespace"


class WhyOptions(OneCluster, InventoryFile, Printed):
    target: str = argument(metavar="POD|WORKLOAD")
    namespace: str | None = option(
        "Namespace of the pod or workload [default: the namespace of the kubeconfig's context, or default].", None, "-n"
    )
    policies: Path | None = option("Directory of policy files [default: the policies of the installation].")
    installation: str = option(
        "Namespace and name of the webhook's Deployment, which says where the policies are.",
        "gpu-policy/gpu-policy",
        metavar="NAMESPACE/NAME",
    )


@click.command()
@takes(WhyOptions)
def why(asked: WhyOptions) -> None:
    """Explain why a pod or workload does not run: one reason, its evidence, and what to do.

    POD|WORKLOAD is a name, such as train-0, or kind/name, such as job/train, deploy/api or pytorchjob/train. The rights
    of the role `view` in the namespace suffice; the answer says what more could be known with which right. With
    --inventory the pods, workloads, nodes and events of a file are the cluster.

    Exit status: 0 whatever the reason is; 2 if there is no such pod or workload, or the cluster does not answer.
    """
    from webhook.kubernetes.api_errors import ApiServerError
    from webhook.kubernetes.kubeconfig import namespace_of
    from webhook.why.explanation import MissingAnswer
    from webhook.why.gathering import explain, policies_of_installation
    from webhook.why.targets import TargetError

    refuse_two_sources(asked.inventory, is_cluster_named=bool(asked.kubeconfig or asked.context))
    kubeconfig = asked.kubeconfig or os.environ.get("KUBECONFIG")
    place = asked.installation.partition("/")
    if not (place[0] and place[2]) or "/" in place[2]:
        fail(f"--installation is {asked.installation}; write NAMESPACE/NAME, such as gpu-policy/gpu-policy")
    known = None if asked.policies is None else load_policies(asked.policies)
    server: ApiServer | InventoryServer
    unknown: PolicySet | MissingAnswer
    if asked.inventory is not None:
        server, namespace = server_of_file(asked.inventory, known), asked.namespace or "default"
        unknown = MissingAnswer("", "", "", _RULES, "no policies were given; --policies adds them")
    else:
        server = cluster = server_of(kubeconfig, asked.context)
        namespace = asked.namespace or namespace_of(kubeconfig, asked.context)
        unknown = known or policies_of_installation(cluster, place[0], place[2])
    try:
        answer = explain(server, asked.target, namespace, known or unknown)
    except (TargetError, ApiServerError) as error:
        fail(str(error))
    asked.show(answer.to_json(), lambda _: print_answer(answer))


def print_answer(answer: "Answer") -> None:
    """The reason, the remedy, the evidence and what could not be read, in this order."""
    from webhook.model.wording import counted, ended
    from webhook.why.explanation import ReasonCode

    def line(text: str, style: str = "") -> None:
        print_line((f"  {text}", style))

    found = answer.explanation
    is_grave = found.code.rank <= ReasonCode.UNSCHEDULABLE.rank
    style = "green" if found.code.is_good else "bold red" if is_grave else "yellow"
    print_line((f"{answer.object.title}: ", "bold"), (found.code, style))
    for text in ended(found.message).splitlines():
        line(text)
    if found.remedy:
        what, *commands = found.remedy.splitlines()
        line(f"What to do: {what if commands else ended(what)}")
        for each in commands:
            print_line(f"    {each}", wraps=False)
    if len(answer.pods) > 1:
        line("Pods:")
        for one in answer.pods:
            names = f" ({', '.join(one.names)}{', ...' if one.count > len(one.names) else ''})" if one.names else ""
            line(f"  {one.explanation.code}: {counted(one.count, 'pod')}{names}: {one.explanation.message}")
    if found.evidence:
        line("Evidence:")
        for clue in found.evidence:
            line(f"  {clue.source}: {clue.message}")
    for unknown in _not_known(answer.missing):
        line(f"Not known: {unknown}", "dim")


def _not_known(missing: "Sequence[MissingAnswer]") -> Iterator[str]:
    """What could not be read: all missing rights in one line, then one line for each fault."""
    lacking = [one for one in missing if not one.fault]
    if len(lacking) == 1:
        yield str(lacking[0])
    elif lacking:
        yield "; ".join(f"{one.unknown} (you need {one.right})" for one in lacking)
    for fault in dict.fromkeys(one.fault for one in missing if one.fault):
        first, *others = [one for one in missing if one.fault == fault]
        also = f"; nor is known {'; nor '.join(one.unknown for one in others)}" if others else ""
        yield f"{first}{also}"

"""The commands of `gpu-policy cuda`: which CUDA an image needs, and which nodes run it."""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from webhook.commands.cuda_plan import plan
from webhook.commands.inputs import background_of, echo, fail, load_policies, print_document, print_line
from webhook.commands.options import (
    Facts,
    ImageResults,
    Options,
    PolicyOf,
    Printed,
    Registries,
    argument,
    option,
    takes,
)
from webhook.model.accelerators import BUILT_IN, Accelerators

if TYPE_CHECKING:
    from webhook.audit.node_kinds import NodeKind
    from webhook.audit.review_objects import Ask
    from webhook.cuda.cuda_tables import CudaTables
    from webhook.cuda.image_check import ImageFit, Knowledge, Question
    from webhook.cuda.need import Need
    from webhook.model.node import NodePool


class NodesOptions(Facts, PolicyOf, Printed):
    @property
    def known(self) -> "_OfPolicy":
        if self.policies is None:
            from webhook.cuda.cuda_tables import SHIPPED

            return _OfPolicy((), (), BUILT_IN, SHIPPED)
        from webhook.rules.cuda_driver import Settings

        loaded = load_policies(self.policies)
        policy = loaded.for_namespace(self.namespace).at(time.time())
        mappings = [bound.settings.mapping for bound in policy.rules if isinstance(bound.settings, Settings)]
        mapping = mappings[0] if mappings else ()
        return _OfPolicy(mapping, policy.node_pools, policy.accelerators, loaded.cuda.tables)

    def kinds(self, policy: "_OfPolicy") -> "list[NodeKind]":
        from webhook.audit.node_kinds import node_kinds
        from webhook.facts.made_pools import known_pools

        kubeconfig = self.kubeconfig or ("" if self.inventory is None else None)  # found as by the other commands
        cluster = background_of(self.inventory, kubeconfig, policy.accelerators).facts.cluster
        return node_kinds(
            cluster.nodes.values(), known_pools(policy.pools, cluster.made), policy.accelerators, policy.tables
        )


class CheckOptions(NodesOptions, Registries, ImageResults):
    image: str | None = argument(required=False)
    env: tuple[str, ...] = option("Environment variable of the container; repeatable.", metavar="NAME=VALUE")
    driver: str | None = option("NVIDIA driver of the node, such as 550.54.15.", metavar="VERSION")
    product: str | None = option("GPU of the node, as in the label nvidia.com/gpu.product.", metavar="NAME")
    compute_capability: str | None = option("Compute capability of the GPU.", metavar="X.Y")
    arch: str | None = option("CPU architecture of the node.", metavar="amd64|arm64")
    cuda_compat: str | None = option(
        "Whether the image has the cuda-compat package. yes and no override what is known about the image.",
        type=click.Choice(["yes", "no", "unknown"]),
    )
    batch: str | None = option(
        'Answer each JSON line of a file with a JSON line: {"image", "env": {}, "driver", "product", '
        '"compute-capability", "arch", "cuda-compat"}; all keys but image are optional.',
        metavar="FILE|-",
    )


class DocsOptions(Options):
    policies: Path | None = option(
        "Directory of policies; the rows of its _cuda.yaml are printed with the built-in ones."
    )


@click.group()
def cuda() -> None:
    """Say which CUDA an image needs, and which nodes run it."""


cuda.add_command(plan)


@cuda.command()
@takes(CheckOptions)
def check(asked: CheckOptions) -> None:
    """Say on which nodes IMAGE runs.

    The answer is about one node (--driver, --product, ...), or about each kind of node of a cluster, and says why.

    The verdict is compatible, incompatible, forward-compat-only or unknown. If a version or an image cannot be read,
    the verdict is unknown and the reason says so. A line of a batch that cannot be read is answered with an error in
    its place.

    Exit status: 0 nothing is incompatible, 1 something is, 2 some input cannot be used, such as a line of a batch.
    """
    from webhook.cuda.image_check import Knowledge, Question

    node = (asked.driver, asked.product, asked.compute_capability, asked.arch)
    has_node = any(value is not None for value in node)
    is_one_node = has_node or asked.batch is not None
    has_cluster = asked.inventory is not None or asked.kubeconfig is not None
    if (asked.image is None) == (asked.batch is None):
        fail("name either an IMAGE or a --batch file")
    if asked.batch is not None and (has_node or asked.env or asked.cuda_compat):
        fail("the lines of a --batch name node and environment themselves; leave out --driver and similar options")
    if is_one_node and has_cluster and (asked.inventory is not None or asked.image_results is None):
        fail("--inventory and --kubeconfig name the nodes; leave out --batch, --driver and similar options")
    ask = asked.ask(asked.image_results, asked.kubeconfig)
    known = asked.known
    if asked.batch is not None:
        sys.exit(_answer_batch(asked.batch, known, ask))
    variables = tuple(map(_variable, asked.env))
    question = Question(asked.image or "", variables, *node, asked.cuda_compat)
    knowledge = Knowledge(known.mapping, ask([question.image]) if ask is not None else {}, known.tables)
    kinds = asked.kinds(known) if has_cluster and not is_one_node else None
    sys.exit(_answer(question, knowledge, kinds, asked.output))


@cuda.command()
@takes(DocsOptions)
def docs(asked: DocsOptions) -> None:
    """Print how a verdict is reached, and the tables, in Markdown."""
    from webhook.cuda.cuda_tables import SHIPPED
    from webhook.cuda.reference import cuda_reference

    tables = SHIPPED if asked.policies is None else load_policies(asked.policies).cuda.tables
    echo(cuda_reference(tables))


@cuda.command()
@takes(NodesOptions)
def nodes(asked: NodesOptions) -> None:
    """Print the kinds of GPU nodes of a cluster.

    Each line has the product, what one unit of it is (a MIG slice, or a share by time-slicing or MPS), the driver, the
    newest CUDA that the driver runs, and the numbers of nodes and GPUs. Labels that cannot be read or contradict each
    other are named below.

    A node pool of the policy counts as 0 nodes. GPUs are counted by the label nvidia.com/gpu.count, else by the node's
    capacity; slices and shares count by how many of them one GPU has.
    """
    from webhook.audit.node_kinds import render_kinds

    kinds = asked.kinds(asked.known)
    asked.show([kind.to_json() for kind in kinds], partial(render_kinds, kinds))


def _answer(question: "Question", knowledge: "Knowledge", kinds: "list[NodeKind] | None", output: str) -> int:
    """Print the verdicts for kinds of nodes, or without them for the node of the question; returns the exit status."""
    from webhook.cuda.cuda_messages import remedy_for

    need, tables = knowledge.need(question), knowledge.tables
    offers = [question.offer(tables)] if kinds is None else [kind.offer for kind in kinds]
    answers = [knowledge.fit(question, need, offer) for offer in offers]
    status = max((answer.exit_status for answer in answers), default=0)
    if output != "text":
        of_kinds = [{**one.to_json(), **kind.to_json()} for one, kind in zip(answers, kinds or (), strict=False)]
        print_document(answers[0].to_json() if kinds is None else of_kinds, output)
        return status
    if kinds is None:
        _print_verdict(answers[0], question.image, _needs(need))
    else:
        print_line(f"{question.image} {_needs(need)}")
        for kind, answer in zip(kinds, answers, strict=True):
            _print_verdict(answer, str(kind))
        if not kinds:
            print_line("    no node with an NVIDIA GPU is known")
    if {answer.verdict for answer in answers} == {"incompatible"}:
        print_line(f"    {remedy_for(question.image, need, offers, tables)}.")
    elif need.kind == "unknown":
        print_line(f"    {_HINT}")
    return status


_STYLES = {"compatible": "green", "incompatible": "bold red", "forward-compat-only": "bold yellow", "unknown": "yellow"}
_WIDTH = max(map(len, _STYLES)) + 2
_GATES = {"pass": "lets it start", "fail": "refuses to start it (before version 1.18, or in legacy mode)"}
_HINT = "Say what it needs, under images: in a policy or by --env CUDA_VERSION=..., or ask its registry with --resolve."


def _print_verdict(answer: "ImageFit", title: str, *lines: str) -> None:
    print_line((f"{answer.verdict:<{_WIDTH}}", _STYLES[answer.verdict]), (title, "bold"))
    gate = (f"the container toolkit's own check: {_GATES[answer.gate]}",) if answer.gate in _GATES else ()
    for line in (*lines, answer.reason, *gate):
        print_line(f"    {line}")


def _needs(need: "Need") -> str:
    if need.cuda is not None:
        return f"needs CUDA {need.cuda}: {need.evidence}"
    if need.kind == "unknown":
        return "does not say which CUDA it needs"
    return f"needs {'CUDA of an unknown version' if need.kind == 'cuda' else 'no CUDA'}: {need.evidence}"


def _answer_batch(batch: str, policy: "_OfPolicy", ask: "Ask | None") -> int:
    """Answer each line of a file; returns the exit status. Without look-ups each line is answered at once."""
    from webhook.cuda.image_check import Knowledge, Question, read_questions

    status = 0
    try:
        file = click.open_file(batch, "rb")
    except OSError as error:
        fail(f"{batch}: cannot be read: {error.strerror}; name a file of JSON lines")
    with file as lines:
        questions = read_questions(lines)
        knowledge = Knowledge(policy.mapping, tables=policy.tables)
        if ask is not None:
            questions = iter(known := list(questions))
            infos = ask(q.image for q in known if isinstance(q, Question))
            knowledge = Knowledge(policy.mapping, infos, policy.tables)
        for question in questions:
            answer = knowledge.answer(question) if isinstance(question, Question) else question
            echo(json.dumps(answer.to_json()))
            status = max(status, answer.exit_status)
    return status


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        fail(f"--env {text}: write NAME=VALUE")
    return name, value


class _OfPolicy(NamedTuple):
    """What a policy says: CUDA versions of images, node pools, and names of GPUs; and the CUDA tables."""

    mapping: tuple[tuple[str, str], ...]
    pools: tuple["NodePool", ...]
    accelerators: Accelerators
    tables: "CudaTables"

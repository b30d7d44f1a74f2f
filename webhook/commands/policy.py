"""The commands of `gpu-policy policy`: policy files are checked, shown and documented."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from webhook.commands.inputs import echo, fail, load_policies, print_document
from webhook.commands.options import OUTPUT, PATH, POLICIES, examples


@click.group(epilog=examples("policy check policies", "policy show team-vision --changed"))
def policy() -> None:
    """Check, show and document policies."""


@policy.command(epilog=examples("policy check policies"))
@POLICIES
@click.argument("directory", type=PATH, required=False)
def check(policies: Path, directory: Path | None) -> None:
    """Check the policy files of a directory.

    Prints every mistake in them.

    Exit status: 0 no mistake, 2 a mistake.
    """
    from webhook.model.wording import counted

    policy_set = load_policies(directory or policies)
    for notice in policy_set.notices:
        echo(f"note: {notice}", is_error=True)
    parts = counted(len(policy_set.policies), "policy", "policies")
    if policy_set.shared_quotas:
        parts += f", {counted(len(policy_set.shared_quotas), 'shared quota')}"
    if exceptions := policy_set.exceptions.all:
        parts += f", {counted(len(exceptions), 'exception')}"
    if rows := policy_set.cuda.counts:
        parts += f", rows for the tables of CUDA ({rows})"
    echo(f"{directory or policies}: {parts}, hash {policy_set.hash}")


@policy.command(epilog=examples("policy show team-vision --changed", "policy show team-vision -o json"))
@POLICIES
@click.argument("namespace")
@click.option("--changed", is_flag=True, help="Only what differs from the built-in defaults, with file and line.")
@OUTPUT
def show(policies: Path, namespace: str, changed: bool, output: str) -> None:
    """Print the rules and quotas that apply to NAMESPACE.

    Each has the name of the file that it comes from.
    """
    from webhook.policy.show import changes, effective_policy, explain, explain_changes

    policy_set = load_policies(policies)
    if not changed:
        if output != "text":
            print_document(effective_policy(policy_set, namespace), output)
        else:
            echo(explain(policy_set, namespace))
        return
    found = changes(policy_set, namespace, policies)
    if output != "text":
        places = {key: {"file": one.file, "line": one.line} for key, one in found.items()}
        print_document([{"key": key, "value": found[key].plain(), **place} for key, place in places.items()], output)
    else:
        echo(explain_changes(policy_set, namespace, found))


_MODES = click.Choice(["enforce", "warn", "audit"])
_QUESTIONS: dict[str, tuple[str, Any, Any]] = {
    "mode": ("What happens to pods that break a rule?", "warn", _MODES),
    "taint": ("Which taint do GPU nodes have?", "nvidia.com/gpu", str),
    "max-per-pod": ("How many GPUs may one pod have?", 8, click.IntRange(1)),
    "quota": ("How many GPUs may one namespace have? (0: no quota)", 0, click.IntRange(0)),
    "contact": ("Whom should the authors of pods ask?", "the platform team", str),
}
"""Option of `policy init` -> what it asks, the default, and the type of answers."""


def _questions(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, (text, default, kind) in reversed(_QUESTIONS.items()):
        command = click.option(f"--{name}", type=kind, help=f"{text} [default: {default}]")(command)
    return command


@policy.command(epilog=examples("policy init --output /tmp/policies --yes --quota 16"))
@click.option("--output", "-o", type=PATH, default=Path("policies"), help="Directory of the file.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: take the defaults of what no option says.")
@_questions
def init(output: Path, yes: bool, **said: Any) -> None:
    """Write a small _default.yaml to begin with, after five questions.

    Exit status: 0 the file is written, 2 it cannot be written, or would have mistakes.
    """
    from webhook.audit.writing import write_file
    from webhook.policy.directory import contents_of
    from webhook.policy.loader import build
    from webhook.yaml_files.file_errors import FileErrors

    file = output / "_default.yaml"
    is_there = f"{file} exists already; change it, or name another --output"
    if os.path.exists(file) and not yes:  # Path.exists raises if it may not look at the path
        fail(is_there)
    answers = {}
    for name, (text, default, kind) in _QUESTIONS.items():
        answer = said[name.replace("-", "_")]
        try:
            answers[name] = answer if answer is not None else default if yes else click.prompt(text, default, type=kind)
        except click.Abort:
            fail("\nno answer, so nothing is written; add --yes to take the defaults")
    text = _first_policy(answers)
    try:
        build(contents_of(output, {file.name: text.encode()}))
        output.mkdir(parents=True, exist_ok=True)
        if os.path.exists(file) and file.read_bytes() != text.encode():
            fail(is_there)
        write_file(text, file)
    except FileErrors as errors:
        fail(str(errors))
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}; name another --output")
    echo(f"{file} is written. Try it: gpu-policy review MANIFEST --policies {output}")


def _first_policy(said: Mapping[str, Any]) -> str:
    from webhook.policy.show import in_one_line
    from webhook.rules import RULES

    mode, taint = said["mode"], {"key": said["taint"], "operator": "Exists", "effect": "NoSchedule"}
    settings: dict[str, dict[str, Any]] = {
        **({"tolerations": {"mode": "enforce", "add": [taint]}} if said["taint"] else {}),
        "sharedMemory": {"mode": "enforce"},
        "gpuLimits": {"mode": mode, "maxPerPod": said["max-per-pod"]},
        "visibleDevices": {"mode": mode},
        "schedulable": {"mode": "warn"},
        "cudaDriver": {"mode": mode},
        **({"gpuQuota": {"mode": mode, "gpus": said["quota"]}} if said["quota"] else {}),
    }
    lines = [
        "# Applies to every namespace. A file team-a.yaml beside it is merged over it for the namespace team-a.",
        "# enforce refuses or completes pods, warn says what it would do, audit only records it.",
        "# `gpu-policy explain RULE` says what a rule does, `gpu-policy policy check` finds mistakes in these files.",
        "apiVersion: gpupolicy.dev/v1alpha1",
        "kind: GPUPolicy",
        "metadata: {name: _default}",
        "spec:",
        f"  contact: {in_one_line(said['contact'])} # whom refusals and warnings name",
        "  rules:",
    ]
    for rule in (one for one in RULES if one.key in settings):
        lines += [f"    # {rule.promise}", f"    {rule.key}: {in_one_line(settings[rule.key])}"]
    return "\n".join(lines) + "\n"


@policy.command(epilog=examples("exceptions --policies policies/examples", "policy exceptions --expiring 14d"))
@POLICIES
@click.option(
    "--expiring",
    metavar="TIME",
    help="Only exceptions that end within this time, such as 14d or 12h, and have not ended yet.",
)
@OUTPUT
def exceptions(policies: Path, expiring: str | None, output: str) -> None:
    """Print the exceptions of _exceptions.yaml.

    The first to end comes first.
    """
    import time

    from webhook.policy.show import as_json, lines, listed

    now, within = time.time(), _seconds(expiring)
    found = listed(load_policies(policies, judges_ends=False).exceptions.all, now, within)
    if output != "text":
        items = [as_json(one, now) for one in found]
        head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicyExceptionList"}
        print_document({**head, "items": items}, output)
    elif not found:
        echo("no exceptions" if within is None else f"no exception ends within {expiring}")
    else:
        for one in found:
            echo("\n".join(lines(one, now)))


def _seconds(written: str | None) -> float | None:
    """A time such as 14d in seconds; exits with status 2 if it is none."""
    import re

    units = {"d": 86_400, "h": 3_600, "m": 60}
    found = re.fullmatch(r"([0-9]{1,4})([dhm])", written or "")
    if written is not None and found is None:
        fail(f"--expiring: {written} is no time; write days, hours or minutes such as 14d, 12h or 30m")
    return None if found is None else float(int(found[1]) * units[found[2]])


@policy.command(epilog=examples("policy schema --kind GPUPolicyExceptions"))
@click.option(
    "--kind",
    type=click.Choice(["GPUPolicy", "GPUSharedQuotas", "GPUCudaTables", "GPUPolicyExceptions", "GPUPolicyTest"]),
    default="GPUPolicy",
    help="Kind of the files that is printed.",
)
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    The kinds are policies (GPUPolicy), _quotas.yaml (GPUSharedQuotas), _cuda.yaml (GPUCudaTables), _exceptions.yaml
    (GPUPolicyExceptions) and tests of policies (GPUPolicyTest).
    """
    import json

    from webhook.policy.cuda_file import cuda_schema
    from webhook.policy.exception_format import exceptions_schema
    from webhook.policy.policy_quotas import quotas_schema
    from webhook.policy.schema import policy_schema
    from webhook.policy_tests.format import policy_test_schema

    schemas = {
        "GPUPolicy": policy_schema,
        "GPUSharedQuotas": quotas_schema,
        "GPUCudaTables": cuda_schema,
        "GPUPolicyExceptions": exceptions_schema,
        "GPUPolicyTest": policy_test_schema,
    }
    echo(json.dumps(schemas[kind](), indent=2, ensure_ascii=False))


@policy.command(epilog=examples("policy docs"))
def docs() -> None:
    """Print the reference of all rules and their settings, in Markdown."""
    from webhook.rules_page.page_of_rules import rules_reference

    echo(rules_reference())

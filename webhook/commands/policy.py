"""The commands of `gpu-policy policy`: policy files are checked, shown and documented."""

import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from webhook.commands.inputs import echo, fail, load_policies
from webhook.commands.options import Options, Policies, Printed, argument, option, takes


class CheckedDirectory(Policies):
    directory: Path | None = argument(required=False)


class ShowOptions(Policies, Printed):
    namespace: str = argument()
    changed: bool = option("Only what differs from the built-in defaults, with file and line.")


class ExceptionsOptions(Policies, Printed):
    expiring: str | None = option(
        "Only exceptions that end within this time, such as 14d or 12h, and have not ended yet.", metavar="TIME"
    )


class SchemaOptions(Options):
    kind: str = option(
        "Kind of the files that is printed.",
        "GPUPolicy",
        type=click.Choice(["GPUPolicy", "GPUSharedQuotas", "GPUCudaTables", "GPUPolicyExceptions", "GPUPolicyTest"]),
    )


class InitOptions(Options):
    """What may be asked has an answer `otherwise`, which --yes takes."""

    mode: str = option(
        "What happens to pods that break a rule?", otherwise="warn", type=click.Choice(["enforce", "warn", "audit"])
    )
    taint: str = option("Which taint do GPU nodes have, as key[=value][:effect]?", otherwise="nvidia.com/gpu")
    max_per_pod: int = option("How many GPUs may one pod have?", otherwise=8, type=click.IntRange(1))
    quota: int = option("How many GPUs may one namespace have (0: any number)?", otherwise=0, type=click.IntRange(0))
    contact: str = option("Whom should the authors of pods ask?", otherwise="the platform team")
    output: Path = option("Directory of the file.", Path("policies"), "-o")
    yes: bool = option("Ask nothing: take the defaults of what no option says.", None, "-y")

    def answered(self) -> "InitOptions":
        """With an answer to each question. Exits with status 2 if there is none."""
        answers: dict[str, Any] = {}
        try:
            for one in (one for one in fields(self) if getattr(self, one.name) is None):
                default, how = one.metadata["otherwise"], one.metadata
                answers[one.name] = default if self.yes else click.prompt(how["help"], default, type=how.get("type"))
        except click.Abort:
            fail("\nno answer, so nothing is written; add --yes to take the defaults")
        return replace(self, **answers)


@click.group()
def policy() -> None:
    """Check, show and document policies."""


@policy.command()
@takes(CheckedDirectory)
def check(asked: CheckedDirectory) -> None:
    """Check the policy files of a directory.

    Prints every mistake in them.

    Exit status: 0 no mistake, 2 a mistake.
    """
    from webhook.model.wording import counted

    directory = asked.directory or asked.policies
    policy_set = load_policies(directory)
    for notice in policy_set.notices:
        echo(f"note: {notice}", is_error=True)
    parts = counted(len(policy_set.policies), "policy", "policies")
    if policy_set.shared_quotas:
        parts += f", {counted(len(policy_set.shared_quotas), 'shared quota')}"
    if exceptions := policy_set.exceptions.all:
        parts += f", {counted(len(exceptions), 'exception')}"
    if rows := policy_set.cuda.counts:
        parts += f", rows for the tables of CUDA ({rows})"
    echo(f"{directory}: {parts}, hash {policy_set.hash}")


@policy.command()
@takes(ShowOptions)
def show(asked: ShowOptions) -> None:
    """Print the rules and quotas that apply to NAMESPACE.

    Each has the name of the file that it comes from.
    """
    from webhook.policy.show import changes, effective_policy, explain, explain_changes

    policies, namespace = load_policies(asked.policies), asked.namespace
    if not asked.changed:
        asked.show(effective_policy(policies, namespace), lambda _: echo(explain(policies, namespace)))
        return
    found = changes(policies, namespace, asked.policies)
    rows = ((key, one.plain(), {"file": one.file, "line": one.line}) for key, one in found.items())
    document = [{"key": key, "value": value, **place} for key, value, place in rows]
    asked.show(document, lambda _: echo(explain_changes(policies, namespace, found)))


@policy.command()
@takes(InitOptions)
def init(asked: InitOptions) -> None:
    """Write a small _default.yaml to begin with, after five questions.

    Exit status: 0 the file is written, 2 it cannot be written, or would have mistakes.
    """
    from webhook.audit.writing import write_file
    from webhook.policy.directory import contents_of
    from webhook.policy.loader import build
    from webhook.yaml_files.file_errors import FileErrors

    file = asked.output / "_default.yaml"
    is_there = f"{file} exists already; change it, or name another --output"
    if os.path.exists(file) and not asked.yes:  # Path.exists raises if it may not look at the path
        fail(is_there)
    text = _first_policy(asked.answered())
    try:
        build(contents_of(asked.output, {file.name: text.encode()}))
        asked.output.mkdir(parents=True, exist_ok=True)
        if os.path.exists(file) and file.read_bytes() != text.encode():
            fail(is_there)
        write_file(text, file)
    except FileErrors as errors:
        asked_by = {one: [said for part, said in _ASKED_BY.items() if f".{part}" in one.key] for one in errors.errors}
        fail("\n".join(": ".join([*said, one.message]) for one, said in asked_by.items()))
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}; name another --output")
    echo(f"{file} is written. Try it: gpu-policy review MANIFEST --policies {asked.output}")


_ASKED_BY = {"contact": "--contact", "tolerations": "--taint", "gpuLimits": "--max-per-pod", "gpuQuota": "--quota"}


def _first_policy(said: InitOptions) -> str:
    from webhook.policy.show import in_one_line
    from webhook.rules import RULES

    found = re.fullmatch(r"(?:([^=:]+)(?:=([^=:]*))?(?::([^=:]+))?)?", said.taint)
    if found is None:
        fail(f"--taint: {said.taint} is no taint; write key[=value][:effect] such as dedicated=gpu:NoSchedule")
    key, value, effect = found.groups()
    of_value = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    mode, taint = said.mode, {"key": key, **of_value, "effect": effect or "NoSchedule"}
    settings: dict[str, dict[str, Any]] = {
        **({"tolerations": {"mode": "enforce", "add": [taint]}} if said.taint else {}),
        "sharedMemory": {"mode": "enforce"},
        "gpuLimits": {"mode": mode, "maxPerPod": said.max_per_pod},
        "visibleDevices": {"mode": mode},
        "schedulable": {"mode": "warn"},
        "cudaDriver": {"mode": mode},
        **({"gpuQuota": {"mode": mode, "gpus": said.quota}} if said.quota else {}),
    }
    lines = [
        "# Applies to every namespace. A file team-a.yaml beside it is merged over it for the namespace team-a.",
        "# enforce refuses or completes pods, warn says what it would do, audit only records it.",
        "# `gpu-policy explain RULE` says what a rule does, `gpu-policy policy check` finds mistakes in these files.",
        "apiVersion: gpupolicy.dev/v1alpha1",
        "kind: GPUPolicy",
        "metadata: {name: _default}",
        "spec:",
        f"  contact: {in_one_line(said.contact)} # whom refusals and warnings name",
        "  rules:",
    ]
    for rule in (one for one in RULES if one.key in settings):
        lines += [f"    # {rule.promise}", f"    {rule.key}: {in_one_line(settings[rule.key])}"]
    return "\n".join(lines) + "\n"


@policy.command()
@takes(ExceptionsOptions)
def exceptions(asked: ExceptionsOptions) -> None:
    """Print the exceptions of _exceptions.yaml.

    The first to end comes first.
    """
    import time

    from webhook.policy.show import as_json, lines, listed

    now, within = time.time(), _seconds(asked.expiring)
    found = listed(load_policies(asked.policies, judges_ends=False).exceptions.all, now, within)
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicyExceptionList"}
    nothing = "no exceptions" if within is None else f"no exception ends within {asked.expiring}"
    said = "\n".join(line for one in found for line in lines(one, now)) or nothing
    asked.show({**head, "items": [as_json(one, now) for one in found]}, lambda _: echo(said))


def _seconds(written: str | None) -> float | None:
    """A time such as 14d in seconds; exits with status 2 if it is none."""
    units = {"d": 86_400, "h": 3_600, "m": 60}
    found = re.fullmatch(r"([0-9]{1,4})([dhm])", written or "")
    if written is not None and found is None:
        fail(f"--expiring: {written} is no time; write days, hours or minutes such as 14d, 12h or 30m")
    return None if found is None else float(int(found[1]) * units[found[2]])


@policy.command()
@takes(SchemaOptions)
def schema(asked: SchemaOptions) -> None:
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
    echo(json.dumps(schemas[asked.kind](), indent=2, ensure_ascii=False))


@policy.command()
def docs() -> None:
    """Print the reference of all rules and their settings, in Markdown."""
    from webhook.rules_page.page_of_rules import rules_reference

    echo(rules_reference())

"""`gpu-policy` and the list of its commands."""

import os
import shutil
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from webhook.commands.audit import audit
from webhook.commands.certs import certs
from webhook.commands.cuda import cuda, nodes
from webhook.commands.cuda_plan import plan
from webhook.commands.doctor import doctor
from webhook.commands.explain import explain
from webhook.commands.inputs import Working, console
from webhook.commands.policy import exceptions, policy
from webhook.commands.quota import quota
from webhook.commands.review import review
from webhook.commands.serve import serve
from webhook.commands.test import test
from webhook.commands.top import top
from webhook.commands.why import why

_EXAMPLES = """\
review examples/3-requests-only.yaml --inventory examples/inventory.yaml
why waiting -n team-vision --inventory examples/cluster.yaml --policies policies
top --inventory examples/cluster.yaml
review examples -o diff --inventory examples/inventory.yaml
audit examples --inventory examples/inventory.yaml
audit examples -o /tmp/report.html --format html
why job/refused -n team-notebooks --inventory examples/cluster.yaml -o json
top -n team-vision --inventory examples/cluster.yaml -o json
quota --inventory examples/cluster.yaml --policies policies/examples
plan --inventory examples/cluster.yaml --set gpupolicy.dev/pool=training=580
plan --inventory examples/cluster.yaml --matrix -o json
nodes --inventory examples/inventory.yaml
cuda check pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime --driver 535.183.01
cuda check nvcr.io/nvidia/pytorch:25.01-py3 --inventory examples/inventory.yaml
cuda docs
policy check policies
policy show team-vision --changed
policy init --output /tmp/policies --yes --quota 16
policy schema --kind GPUPolicyExceptions
policy docs
explain gpuLimits
exceptions --expiring 14d
test policies/tests --run quota
doctor -n gpu-policy
certs /tmp/tls --name localhost
serve --inventory examples/inventory.yaml --cert /tmp/tls/tls.crt --key /tmp/tls/tls.key
"""
"""The examples of every help. Tests run them where the repository is."""


class _Help(click.HelpFormatter):
    """Help in terminals that are too narrow for two columns has one below the other."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.width = max(min(self.width, shutil.get_terminal_size().columns - 1), 20)

    def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width > 60 else 4, col_spacing)


click.Context.formatter_class = _Help


@click.group(
    commands=[
        *(review, audit, why, top, quota, plan, nodes, cuda, policy, explain, exceptions, test, doctor, certs, serve)
    ],
    context_settings={"auto_envvar_prefix": "GPU_POLICY", "help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(package_name="gpu-policy-webhook", prog_name="gpu-policy", allow_from_autoenv=False)
@click.pass_context
def main(context: click.Context) -> None:
    """Admission webhook for GPU pods: adds what they lack, and refuses pods that cannot run, with an explanation."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started the process
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # for as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no é gets \xe9, not a traceback
    if sys.stderr.isatty() and console(is_error=True).is_interactive and context.invoked_subcommand != "serve":
        context.obj = shown = Working(f"gpu-policy {context.invoked_subcommand}")
        context.call_on_close(shown.stop)


def _show_examples(command: click.Command, *path: str) -> None:
    """Put the first examples of a command and of all below it into their help."""
    shown = [line for line in _EXAMPLES.splitlines() if tuple(line.split()[: len(path)]) == path]
    if shown:  # else it stands elsewhere, too, and has them from there
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  gpu-policy {line}" for line in shown[:3])
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        _show_examples(below, *path, name)


_show_examples(main)


def kubectl() -> None:
    """`kubectl gpu-policy`: the commands of gpu-policy, as kubectl finds them by the name of this executable."""
    main(prog_name=Path(sys.argv[0]).name.replace("kubectl-gpu_policy", "kubectl gpu-policy"))

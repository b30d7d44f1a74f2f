"""`gpu-policy` and the list of its commands."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path

import click

from webhook.commands.audit import audit
from webhook.commands.certs import certs
from webhook.commands.cuda import cuda, nodes
from webhook.commands.cuda_plan import plan
from webhook.commands.doctor import doctor
from webhook.commands.explain import explain
from webhook.commands.inputs import Working, console
from webhook.commands.options import examples
from webhook.commands.policy import exceptions, policy
from webhook.commands.quota import quota
from webhook.commands.review import review
from webhook.commands.serve import serve
from webhook.commands.test import test
from webhook.commands.top import top
from webhook.commands.why import why


@click.group(
    commands=[
        *(review, audit, why, top, quota, plan, nodes, cuda, policy, explain, exceptions, test, doctor, certs, serve)
    ],
    context_settings={"auto_envvar_prefix": "GPU_POLICY", "help_option_names": ["-h", "--help"], "show_default": True},
    epilog=examples(
        "review examples/3-requests-only.yaml",
        "top --inventory examples/cluster.yaml",
        "explain gpuLimits",
    ),
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


def kubectl() -> None:
    """`kubectl gpu-policy`: the commands of gpu-policy, as kubectl finds them by the name of this executable."""
    main(prog_name=Path(sys.argv[0]).name.replace("kubectl-gpu_policy", "kubectl gpu-policy"))

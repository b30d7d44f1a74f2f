"""The command `gpu-policy completion`: a script with which a shell completes commands and options.

kubectl completes its plugins by a protocol of its own, for which pip installs an executable.
"""

import sys
from collections.abc import Sequence

import click

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "gpu-policy"
_VARIABLE = "_GPU_POLICY_COMPLETE"
"""The environment variable by which the script asks the program for completions."""


_NO_FILES, _FILES, _FOLDERS = 4, 0, 16
"""What a shell may add to completions, as github.com/spf13/cobra numbers it in completions.go."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes gpu-policy in a shell.

    \b
    bash: gpu-policy completion bash > ~/.local/share/bash-completion/completions/gpu-policy
    zsh:  gpu-policy completion zsh > _gpu-policy, in a directory of $fpath
    fish: gpu-policy completion fish > ~/.config/fish/completions/gpu-policy.fish
    """  # noqa: D301  # click needs the character itself
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell}: no completion; choose {', '.join(SHELLS)}")
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())


def answer_to_kubectl(words: Sequence[str]) -> str:
    """The completions of the last word of `kubectl gpu-policy WORDS`, in the protocol of kubectl 1.26 and newer.

    One completion a line, with a tab before its explanation; the last line says whether the shell may add files. See
    kubernetes/kubernetes, staging/src/k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go.
    """
    from click.shell_completion import BashComplete

    from webhook.commands.main import main

    *before, last = words or ("",)
    found = BashComplete(main, {}, _PROGRAM, _VARIABLE).get_completions(list(before), last)
    lines = [f"{one.value}\t{' '.join((one.help or '').split())}".rstrip() for one in found if one.type == "plain"]
    kinds = {one.type for one in found}
    adds = _FILES if "file" in kinds else _FOLDERS if "dir" in kinds else _NO_FILES
    return "".join(f"{line}\n" for line in (*lines, f":{adds}"))


def kubectl() -> None:
    """`kubectl_complete-gpu_policy`, which kubectl asks for completions by this name."""
    sys.stdout.write(answer_to_kubectl(sys.argv[1:]))

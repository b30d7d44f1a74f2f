"""The command `gpu-policy completion`: a script with which a shell completes commands and options."""

import click

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "gpu-policy"
_VARIABLE = "_GPU_POLICY_COMPLETE"
"""The environment variable by which the script asks the program for completions."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print a script that completes gpu-policy in a shell.

    \b
    bash: gpu-policy completion bash > ~/.local/share/bash-completion/completions/gpu-policy
    zsh:  gpu-policy completion zsh > _gpu-policy, in a directory of $fpath
    fish: gpu-policy completion fish > ~/.config/fish/completions/gpu-policy.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell}: no completion; choose {', '.join(SHELLS)}")
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())

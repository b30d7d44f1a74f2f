"""What the command of a container runs, as far as its words are certain to say."""

import re
from collections.abc import Iterator, Sequence

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SEPARATORS = re.compile(r"&&|\|\||[;&|\n]")
_GRAMMAR = frozenset({"while", "until", "do", "done", "if", "then", "else", "fi", "exec", "time"})
_HARMLESS = frozenset(
    {"", ":", "date", "echo", "env", "exit", "false", "hostname", "ls", "set", "sleep", "true", "[", "test"}
)
_LONGEST = 2_000
"""Characters of a command that are read."""


def only_shows_gpus(command: Sequence[str]) -> bool:
    """Whether a command is `nvidia-smi`, maybe in a loop, and nothing that needs memory or CPU.

    >>> only_shows_gpus(["sh", "-c", "while true; do nvidia-smi -L; sleep 9; done"])
    True
    >>> only_shows_gpus(["sh", "-c", "nvidia-smi && python train.py"]), only_shows_gpus([])
    (False, False)
    """
    if not command:
        return False
    text = "\n".join(command)
    if "nvidia-smi" not in text or "$(" in text or "`" in text or len(text) > _LONGEST:
        return False
    return {program for program, *_ in simple_commands(command)} - _HARMLESS == {"nvidia-smi"}


def simple_commands(command: Sequence[str]) -> Iterator[list[str]]:
    """The programs that a command runs one after the other, each with its arguments; also those in the text of a shell.

    >>> list(simple_commands(["/bin/sh", "-ec", "cd /work; exec /usr/bin/python3 a.py"]))
    [['cd', '/work'], ['python3', 'a.py']]
    """
    program, *arguments = command or [""]
    script = " ".join(command)
    if _name(program) in _SHELLS:
        at = next((at for at, one in enumerate(arguments) if one[:1] == "-" and one[1:2] != "-" and "c" in one), None)
        if at is not None:
            script = " ".join(arguments[at + 1 : at + 2])
    for part in _SEPARATORS.split(script[:_LONGEST]):
        words = part.split()
        while words and words[0] in _GRAMMAR:
            del words[0]
        yield [_name(words[0]), *words[1:]] if words else [""]


def _name(program: str) -> str:
    return program.rpartition("/")[2]

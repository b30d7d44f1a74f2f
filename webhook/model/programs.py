"""What the command of a container runs, as far as its words are certain to say."""

import re
from collections.abc import Iterator, Sequence

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SEPARATORS = re.compile(r"&&|\|\||[;&|\n]")
_GRAMMAR = frozenset({"while", "until", "do", "done", "if", "then", "else", "fi"})
_BEFORE_PROGRAMS = _GRAMMAR | {"exec", "time", "sudo", "nohup", "env", "tini", "dumb-init"}
_HARMLESS = frozenset({"", ":", "date", "echo", "exit", "false", "hostname", "ls", "set", "sleep", "true", "[", "test"})
_LONGEST = 2_000
"""Characters of a command that are read."""


def only_shows_gpus(command: Sequence[str]) -> bool:
    """Whether a command is `nvidia-smi`, maybe in a loop, and nothing that needs memory or CPU.

    >>> only_shows_gpus(["sh", "-c", "while true; do nvidia-smi -L; sleep 9; done"])
    True
    >>> only_shows_gpus(["sh", "-c", "nvidia-smi && A=1 env python train.py"]), only_shows_gpus([])
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
            script = next((one for one in arguments[at + 1 :] if one != "--"), "")
    for part in _SEPARATORS.split(script[:_LONGEST]):
        words = part.split()
        while words and (_name(words[0]) in _BEFORE_PROGRAMS or "=" in words[0] or words[0].startswith("-")):
            del words[0]
        yield [_name(words[0]), *words[1:]] if words else [""]


def _name(program: str) -> str:
    return program.rpartition("/")[2]


_INSTALLERS = frozenset({"pip", "pip3", "conda", "mamba", "micromamba", "uv", "uvx", "pixi", "poetry", "pipenv"})
_INTERACTIVE = frozenset({"sshd", "code-server", "start-notebook.sh"})
_PYTHON = re.compile(r"python[0-9.]*")
_MAY_CHANGE = re.compile(rf"pip|jupyter|sh\b|sleep|wait|tail|{'|'.join(sorted(_INSTALLERS | _INTERACTIVE))}")
"""What the words have where a command installs or waits."""


def may_run_other_code(command: Sequence[str]) -> bool:
    """Whether other code than the image's may compute on the GPU: the command installs packages, or only waits for
    somebody who does.

    >>> may_run_other_code(["bash", "-c", "pip install torch==2.8.0 && python a.py"]), may_run_other_code(["bash"])
    (True, True)
    >>> may_run_other_code(["sh", "-c", "while true; do sleep 9; done"]), may_run_other_code(["tini", "sleep", "inf"])
    (True, True)
    >>> may_run_other_code(["sh", "-c", "sleep 9; python a.py"]), may_run_other_code([])
    (False, False)
    """
    if not any(map(_MAY_CHANGE.search, command)):
        return False
    programs = [words for words in simple_commands(command) if words[0]]
    return any(map(_installs_or_serves, programs)) or (bool(programs) and _waits(programs[-1]))


def _installs_or_serves(words: Sequence[str]) -> bool:
    program, *arguments = words
    if _PYTHON.fullmatch(program) and arguments[:1] == ["-m"]:
        program, *arguments = arguments[1:] or [""]
    if program.startswith("pip"):
        return "install" in arguments
    return program in _INSTALLERS or program in _INTERACTIVE or program.startswith("jupyter")


def _waits(words: Sequence[str]) -> bool:
    program, *arguments = words
    return (
        program in ("sleep", "wait")
        or (program == "tail" and "/dev/null" in arguments)
        or (program in _SHELLS and not arguments)
    )

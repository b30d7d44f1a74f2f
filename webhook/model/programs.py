"""What the command of a container runs, as far as its words are certain to say."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

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


MANY = "\0"
"""Marks a word of a script that may become several words, or none, such as $ARGS without quotes."""
LONGEST_LITERAL = 10_000
"""Characters of words that are read as a shell reads them."""
_COMPUTED = re.compile(r"<<|\$\(|`|\r|[^\s\\]\\\n\S")
_WORD = re.compile(
    r"(?P<blank>[ \t\r]+|\\\r?\n|(?<![^\s;&|])#[^\n]*)"
    r"|(?P<redirect>((?<![^\s;&|])[0-9]+)?(>>|>\||[<>])(?P<copied>&[0-9-]+)?|&>>?)|(?P<end>&&|\|\||\|&|[;&|\n])"
    r"|'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"|\\(?P<escaped>.)|(?P<plain>[^\s'\"\\;&|<>()]+)",
    re.DOTALL,
)
_ESCAPED, _SEVERAL = re.compile(r"\\([\"\\$])"), re.compile(r"\$\{?[@*]|\[[@*]\]")
_CONDITIONS = _GRAMMAR | {"for", "case", "select", "function", "{", "}", "!", "[", "[[", "test", "eval", "alias"}
_SETTING = frozenset({"export", "unset", "declare", "typeset", "readonly", "read", "local", "printf", "mapfile"})
_PIPES = ("|", "|&")
_NAMED, _PLAIN = re.compile(r"(?<!\\)\$(?:(\w+)|\{(\w+)\})"), re.compile(r"[\w./:@%+,-]{1,100}")
_ASSIGNED = re.compile(r"\b(\w+)\+?=|\b(?:for|unset|read|printf|mapfile|getopts)\b(?:\s+-\w+)*\s+(\w+)")
_PREFIXES = frozenset({"exec", "time", "nohup", "env", "tini", "dumb-init", "--"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_PYTHONS_OPTIONS = frozenset({"-u", "-O", "-B", "-s", "-E", "-I"})
_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_LONGEST_VALUE = 1_000


class Literal(NamedTuple):
    """What a command certainly runs: `programs` with their arguments, and the variables that its script sets.

    A `python -m` comes first whatever Python is called. `sets` are the variables that may be set, `active` the programs
    that may use a GPU, and `given` the variables with which the first of these certainly starts.
    """

    programs: Sequence[Sequence[str]] = ()
    sets: Set[str] = frozenset()
    active: Sequence[Sequence[str]] = ()
    given: Mapping[str, str] = MappingProxyType({})


def literal(words: Sequence[str], env: Mapping[str, str | None]) -> Literal:
    """The programs that words certainly run, after Kubernetes has put in the variables of `env`.

    Nothing is certain in a script with conditions, loops, functions, here-documents or substitutions.

    >>> literal(["sh", "-c", "cd /a && A=1 exec python3 -m b --c='d e' $(X) # f"], {"X": "g"}).programs
    [['cd', '/a'], ['python', '-m', 'b', '--c=d e', 'g']]
    >>> literal(["sh", "-c", "[ -f a ] && b"], {}).programs, literal(["a", "b"], {}).programs
    ((), [['a', 'b']])
    """
    if sum(map(len, words)) <= LONGEST_LITERAL:
        words = [_with_variables(word, env) for word in words]
    if sum(map(len, words)) > LONGEST_LITERAL or not words:
        return Literal()
    if _name(words[0]) not in _SHELLS:
        program, own = _program(words)
        return Literal([program], own.keys(), [program], own) if program else Literal()
    at = 1
    while words[at:] and words[at][:1] == "-" and "c" not in words[at]:
        at += 2 if words[at].endswith("o") else 1
    is_script = words[at:] and words[at][:1] == "-" != words[at][1:2]
    script = next((one for one in words[at + 1 : at + 3] if one != "--"), "") if is_script else ""
    if not script or _COMPUTED.search(script):
        return Literal()
    programs: list[list[str]] = []
    active: list[list[str]] = []
    sets, given = set[str](), dict[str, str]()
    is_tested = fails = may_have_run = False
    for before, command, after in _commands(script, env):
        program, own = _program(command)
        name = program[0] if program else ""
        is_active, is_in_list = bool(name) and name not in _BESIDE, before in ("&&", *_PIPES)
        fails, is_tested = before == "||" or (fails and is_in_list), is_tested and is_in_list
        is_only_perhaps = is_active and (fails or (may_have_run and not is_in_list))
        if not command or name in _CONDITIONS or is_only_perhaps or _runs_unknown(program):
            return Literal()
        if is_active and not active:
            given = {} if name.startswith("-") else {**given, **own}
        elif not (active or fails or is_tested or before in _PIPES or after in (*_PIPES, "&")) and name == "export":
            given |= {one: MANY if one in sets or program[1].startswith("-") else own[one] for one in own}
        sets |= own.keys()
        if fails:
            continue
        programs += [program] if program else []
        active += [program] if is_active else []
        is_end = name == "exit" or command[0] == "exec"
        may_have_run |= before == "&&" and (is_active or is_end)
        if (is_end and before != "&&") or _waits_forever(program):
            break
        is_tested |= bool(name) and name not in _SUCCEEDING
    return Literal(programs, sets, active, given)


def _runs_unknown(program: Sequence[str]) -> bool:
    """Whether a script goes on in another file, or sets variables that it does not name."""
    if not program or program[0] not in (*_SETTING, *_SOURCING):
        return False
    is_known = program[0] not in _SOURCING or " ".join(program[1:2]).endswith(("activate", "/conda.sh"))
    return not is_known or any("$" in word.partition("=")[0] for word in program)


def _waits_forever(program: Sequence[str]) -> bool:
    return program in (["sleep", "inf"], ["sleep", "infinity"]) or program[:2] == ["tail", "-f"]


def _with_variables(word: str, env: Mapping[str, str | None]) -> str:
    """A word with the values of variables, as Kubernetes puts them in; a value that is no plain text is left out."""

    def value(found: re.Match[str]) -> str:
        own = env.get(found[1]) if found[1] else "$"
        return found[0] if own is None or (found[1] and ("$" in own or len(own) > _LONGEST_VALUE)) else own

    return _VARIABLE.sub(value, word) if "$" in word else word


def _commands(script: str, env: Mapping[str, str | None]) -> Iterator[tuple[str, list[str], str]]:
    """What stands before each command of a script, its words, and what stands after it.

    Words have the variables of `env` that the script leaves alone. No words: they are not certain.
    """
    own = {one for found in _ASSIGNED.finditer(script) for one in found.groups()}
    known = {name: value for name, value in env.items() if value and name not in own and _PLAIN.fullmatch(value)}
    words: list[str] = []
    word: str | None = None
    skips = False
    before, at = ";", 0
    for found in _WORD.finditer(f"{script}\n"):
        if found.start() != at:
            yield "", [], ""
            return
        at, kind = found.end(), found.lastgroup
        if kind not in ("blank", "redirect", "end"):
            word = (word or "") + _piece(kind, found, known)
            continue
        if word is not None:
            words += [] if skips else [word]
            word, skips = None, False
        if kind == "redirect":
            skips = not found["copied"]
        elif kind == "end":
            if words:
                yield before, words, found[0]
            before = found[0] if words or found[0] != "\n" else before
            words, skips = [], False
    if at != len(script) + 1:
        yield "", [], ""


def _piece(kind: str | None, found: re.Match[str], known: Mapping[str, str]) -> str:
    text = found[kind or 0]
    if kind in ("double", "plain") and "$" in text:
        text = _NAMED.sub(lambda named: known.get(named[1] or named[2], named[0]), text)
    if kind == "double":
        text = _ESCAPED.sub(r"\1", text)
        return text + MANY if _SEVERAL.search(text) else text
    return text + MANY if kind == "plain" and any(one in text for one in "$*?{") and text not in "{}" else text


def _program(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The program of a command with its arguments, and the variables that are set for it or from then on."""
    rest, sets = list(words), dict[str, str]()
    while rest:
        if (assigned := _ASSIGNMENT.match(rest[0])) is not None:
            sets[assigned[1]] = MANY if "+=" in assigned[0] else rest[0][assigned.end() :]
        elif _name(rest[0]) not in _PREFIXES:
            break
        del rest[0]
    if not rest:
        return [], sets
    rest[0] = _name(rest[0])
    if rest[0] in _SETTING:
        named = [word.partition("=") for word in rest[1:]]
        sets |= {name: value if is_set and rest[0] == "export" else MANY for name, is_set, value in named}
    if _PYTHON.fullmatch(rest[0]):
        rest[0] = "python"
        while rest[1:] and rest[1] in _PYTHONS_OPTIONS:
            del rest[1]
    return rest, sets


_INSTALLERS = frozenset({"pip", "pip3", "conda", "mamba", "micromamba", "uv", "uvx", "pixi", "poetry", "pipenv"})
_BESIDE = (
    _HARMLESS
    | _SETTING
    | _INSTALLERS
    | {"apt-get", "aws", "cat", "cd", "chmod", "cp", "curl", "df", "free", "gcloud", "git", "gsutil", "hf"}
    | {"huggingface-cli", "id", "ldconfig", "ln", "mkdir", "mv", "nvidia-smi", "rm", "source", ".", "sysctl", "tar"}
    | {"tee", "touch", "ulimit", "unzip", "wait", "wget", "which"}
)
"""Programs that leave GPUs alone."""
_SOURCING = ("source", ".")
_TESTED = frozenset({"curl", "df", "false", "free", "hostname", "id", "ls", "nvidia-smi", "test", "which", "["})
_SUCCEEDING = (_BESIDE | {"ray"}) - _TESTED
"""Programs that nobody runs to see whether they fail."""
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

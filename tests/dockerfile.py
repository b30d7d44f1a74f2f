"""What a Dockerfile says, and which files its build gets to see. Strict: what this does not know is an error."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_KNOWN = ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "LABEL", "RUN", "USER", "WORKDIR")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name in capitals and the rest, continued lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of an instruction in shell form, without options."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    @property
    def options(self) -> dict[str, str]:
        """Its options, such as `--from=build`."""
        found = (word[2:].partition("=") for word in shlex.split(self.text) if word.startswith("--"))
        return {name: value for name, _, value in found}

    @property
    def pairs(self) -> dict[str, str]:
        """The names and values of ARG, ENV and LABEL."""
        return dict(word.split("=", 1) for word in shlex.split(self.text))

    @property
    def exec_form(self) -> list[str]:
        """The words of an instruction in exec form; an error for any other, which would need a shell."""
        words = json.loads(self.text)
        assert isinstance(words, list)
        return words


@dataclass
class Stage:
    """One stage: `base` as it is used without build arguments, `name` empty for the last."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, name: str) -> list[Instruction]:
        """Its instructions of one name, in order."""
        return [instruction for instruction in self.instructions if instruction.name == name]

    def pairs(self, name: str) -> dict[str, str]:
        """All names and values of its ARG, ENV or LABEL instructions."""
        return {key: value for instruction in self.of(name) for key, value in instruction.pairs.items()}


def stages(file: Path) -> list[Stage]:
    """The stages of a Dockerfile."""
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for instruction in _instructions(file.read_text()):
        if instruction.name == "FROM":
            base, *rest = instruction.words
            base = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], base)
            assert [word.upper() for word in rest[:1]] in ([], ["AS"])
            found.append(Stage(base, rest[1] if rest else ""))
        elif found:
            found[-1].instructions.append(instruction)
        else:
            assert instruction.name == "ARG", f"{instruction.name} before FROM"
            arguments.update(instruction.pairs)
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, _, rest = line.partition(" ")
        assert name in _KNOWN, f"unknown or unwanted instruction: {line}"
        yield Instruction(name, rest.strip())


def context(root: Path) -> list[Path]:
    """The files that a build gets to see, relative to the root: those that .dockerignore leaves over."""
    lines = (root / ".dockerignore").read_text().splitlines()
    patterns = [(not line.startswith("!"), _pattern(line.removeprefix("!"))) for line in lines if line.strip()]
    kept = [name for name in root.iterdir() if not _is_ignored(Path(name.name), patterns)]
    files = [file.relative_to(root) for top in kept for file in ([top] if top.is_file() else top.rglob("*"))]
    return sorted(file for file in files if (root / file).is_file() and not _is_ignored(file, patterns))


def _is_ignored(path: Path, patterns: list[tuple[bool, re.Pattern[str]]]) -> bool:
    ignored = False
    for ignores, pattern in patterns:
        if any(pattern.fullmatch(str(part)) for part in (path, *path.parents)):
            ignored = ignores
    return ignored


def _pattern(glob: str) -> re.Pattern[str]:
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    return re.compile("".join(spelled.get(part, re.escape(part)) for part in parts))

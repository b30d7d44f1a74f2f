"""The evaluator of an API server, as a process that is asked about requests; evaluator/main.go is built when needed.

It is kept beside the lock files' environments in the cache of the user, under a name that follows from its source.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

Raw = Mapping[str, Any]

SOURCE = Path(__file__).parent / "evaluator"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-policy-webhook"
_AT_ONCE = 250
"""Requests in one run of the process."""


class MissingError(Exception):
    """There is no evaluator here, and none can be built; the text says why."""


@dataclass(frozen=True)
class Said:
    """What the conditions of one entry say of a request, as an API server takes it.

    `failed` is the first condition that is false, `error` whatever went wrong in any of them, limits of cost included,
    `cost` what all of them took of the 2.5 million units that an API server has for them.
    """

    matches: bool
    error: str
    failed: str
    cost: int


def built() -> Path:
    """The program; MissingError where Go or the modules of Kubernetes cannot be had."""
    go = shutil.which("go")
    if go is None:
        raise MissingError("no go command here, with which the evaluator of an API server is built")
    files = sorted(file for file in SOURCE.iterdir() if file.is_file())
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    program = _CACHE / f"cel-{digest}"
    if program.exists():
        return program
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "cel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not program.exists():
            fetched = _go(go, "mod", "download")
            if fetched.returncode:
                raise MissingError(f"the modules of Kubernetes cannot be had: {fetched.stderr[-300:]}")
            unfinished = program.with_suffix(".unfinished")
            done = _go(go, "build", "-trimpath", "-buildvcs=false", "-o", str(unfinished), ".")
            assert done.returncode == 0, done.stderr
            unfinished.rename(program)
    return program


def _go(go: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Offline where everything is there already; the settings of the machine say where modules come from."""
    return subprocess.run([go, *arguments], cwd=SOURCE, capture_output=True, text=True, timeout=900, check=False)


class Evaluator:
    """Answers for the conditions of some entries of webhooks, as `{"mutate": [{"name", "expression"}]}`."""

    def __init__(self, program: Path, entries: Mapping[str, Sequence[Raw]]) -> None:
        self._program = program
        self._entries = entries

    def ask(self, questions: Iterable[tuple[Sequence[str], Raw]]) -> Iterator[Mapping[str, Said]]:
        """What the named entries say of each request, in order. ValueError for an object that no API server reads."""
        left = iter(questions)
        while some := list(islice(left, _AT_ONCE)):
            lines = [json.dumps(self._entries)]
            lines += [json.dumps({"entries": names, "request": request}) for names, request in some]
            done = subprocess.run(
                [self._program], input="\n".join(lines), capture_output=True, text=True, timeout=600, check=False
            )
            assert done.returncode == 0, done.stderr
            for (_, request), line in zip(some, done.stdout.splitlines(), strict=True):
                found = json.loads(line)
                if "undecodable" in found:
                    raise ValueError(f"{found['undecodable']}: {json.dumps(request)[:2000]}")
                yield {name: Said(**said) for name, said in found.items()}

"""Load by wrk, which counts every answer: one with a status of 400 or more, or none at all, ends the benchmark."""

import json
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.benchmarks.runs import demand

SCRIPT = Path(__file__).with_name("load.lua")


def missing() -> str | None:
    """Why there can be no load here; None where there can."""
    return None if shutil.which("wrk") else "no wrk here; Debian's package is wrk"


@dataclass(frozen=True, slots=True)
class Load:
    """What was answered: how often, in how many bytes, heads included, and how soon in milliseconds.

    `cpu` is what a server took for it, in milliseconds for each answer; 0 where nobody looked.
    """

    answers: int
    bytes: int
    seconds: float
    p50: float
    p99: float
    cpu: float

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return self.answers / self.seconds


@dataclass(frozen=True, slots=True)
class Request:
    """What is posted: a file whose "NAME" stands for names of its own under `run`, and further headers."""

    url: str
    file: Path
    run: str = ""
    headers: Mapping[str, str] | None = None


def load(request: Request, connections: int, seconds: float, spent: Callable[[], float] = lambda: 0.0) -> Load:
    """Post for so many seconds. `spent` says how many seconds of CPU a server has taken so far."""
    headers = [f"{name}={value}" for name, value in (request.headers or {}).items()]
    arguments = [request.url, "--", str(request.file), request.run, *headers]
    limits = [f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s"]
    before = spent()
    done = subprocess.run(
        ["wrk", "-t1", *limits, "-s", str(SCRIPT), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds + 90,
    )
    cpu = spent() - before
    found = json.loads(done.stdout.splitlines()[-1])
    failed = {reason: count for reason, count in found.pop("failed").items() if count}
    answers = found["answers"]
    demand(not failed, f"{request.url}: {failed} of {answers} requests failed; all must be answered as they should")
    demand(answers > 0, f"{request.url}: nothing was answered in {seconds:g} s")
    return Load(**found, cpu=cpu / answers * 1000)


@dataclass(frozen=True, slots=True)
class Middle:
    """The medians of several loads: answers in a second, and milliseconds."""

    rate: float
    p50: float
    p99: float
    cpu: float

    @classmethod
    def of(cls, loads: Sequence[Load]) -> "Middle":
        """Each median for itself."""
        return cls(*(statistics.median(getattr(one, key) for one in loads) for key in cls.__slots__))

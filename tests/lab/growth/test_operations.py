"""The count of operations sees what Python does in C."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_COUNT = """
import json, sys
from tests.lab.growth import operations
from tests.lab.growth.charged_code import compiled
operations.install()
import webhook.model.selectors
found = {}
for name, source in json.load(sys.stdin).items():
    space, counts = {}, []
    exec(compiled(source, name), space)
    for size in (200, 800):
        subject = space["given"](size)
        before = operations.count()
        space["work"](subject)
        counts.append(operations.count() - before)
    found[name] = counts[1] / counts[0]
print(json.dumps(found))
"""
_MANY = "def given(n): return tuple(f'v{i}' for i in range(n))\n"
_QUADRATIC = {
    "membership in a tuple": "def work(v): return [x for x in v if x in v]",
    "a copy in each turn": "def work(v): return [(*v, x) for x in v]",
    "a sum of tuples": "def work(v):\n    s = ()\n    for x in v: s += (x,)",
    "a slice in each turn": "def work(v): return [v[i:] for i, x in enumerate(v)]",
    "a key that is long": "def work(v):\n    d = {}\n    for x in v: d[v] = x",
    "all() over a map": "def work(v): return [all(map(len, v)) for x in v]",
    "sum() in each turn": "def work(v): return [sum(map(len, v)) for x in v]",
    "a join in each turn": "def work(v): return [', '.join(v) for x in v]",
    "comparing with all": "def work(v): return [x for x in v if [*v] == [*v]]",
    "a loop in a loop": "def work(v):\n    for x in v:\n        for y in v: pass",
    "yield from": "def each(v): yield from v\ndef work(v): return [next(iter(list(each(v)))) for x in v]",
}
_LINEAR = {
    "membership in a set": "def work(v):\n    s = set(v)\n    return [x for x in v if x in s]",
    "a dict that is filled": "def work(v): return {x: 1 for x in v}",
    "a list that grows": "def work(v):\n    s = []\n    for x in v: s += [x]",
    "a list that is extended": "def work(v):\n    s = []\n    for x in v: s.extend([x])",
    "looking up": "def work(v):\n    d = dict.fromkeys(v)\n    return [d.get(x) for x in v]",
}


@pytest.fixture(scope="module")
def times() -> dict[str, float]:
    """How many times as many operations there are for four times as much; counted in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT],
        input=json.dumps({name: _MANY + work for name, work in (_QUADRATIC | _LINEAR).items()}),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert not done.returncode, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("work", _QUADRATIC)
def test_what_is_quadratic_is_counted_so(times: dict[str, float], work: str) -> None:
    assert times[work] > 10


@pytest.mark.parametrize("work", _LINEAR)
def test_what_is_linear_is_counted_so(times: dict[str, float], work: str) -> None:
    assert times[work] < 5

"""The engine does no more work than is written down: a gate by counts, which no busy machine can open or close."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.work.counting import COUNTS, PYTHON, grown

WRITTEN = json.loads(COUNTS.read_text())


@pytest.mark.untraced
@pytest.mark.skipif(WRITTEN["python"] != PYTHON, reason=f"counts are of Python {WRITTEN['python']}, this is {PYTHON}")
def test_the_engine_does_no_more_work_than_is_written_down() -> None:
    """Whoever means it to do more runs `make counts`, and says why in the commit."""
    command = [sys.executable, "-m", "tests.work"]
    environ = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env=environ, capture_output=True, text=True, check=True
    )

    assert grown(WRITTEN, json.loads(done.stdout)) == []


def changed(**changes: int) -> dict[str, Any]:
    counts = copy.deepcopy(WRITTEN)
    counts["rules"]["validate"] |= changes
    return counts


def test_a_rule_that_does_a_tenth_more_work_is_named() -> None:
    was = WRITTEN["rules"]["validate"]["schedulable"]
    now = round(was * 1.1)

    assert grown(WRITTEN, changed(schedulable=now)) == [f"calls of the rule schedulable in validate: {was} -> {now}"]


def test_a_hundredth_more_is_let_pass_and_less_is_welcome() -> None:
    was = WRITTEN["rules"]["validate"]["schedulable"]

    assert grown(WRITTEN, changed(schedulable=round(was * 1.01))) == []
    assert grown(WRITTEN, changed(schedulable=1)) == []


def test_a_new_rule_has_to_be_counted() -> None:
    said = "calls of the rule newRule in validate: 7, not counted so far"

    assert grown(WRITTEN, changed(newRule=7)) == [said]

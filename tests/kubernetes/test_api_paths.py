"""Paths at the API server lead where they are meant to lead, whatever a name holds."""

import re
from pathlib import Path

import pytest

from tests.golden import golden
from webhook.kubernetes.api_paths import CORE, path_of

_BY_HAND = re.compile(r"/namespaces/\{")
_MADE_IN = {"webhook/kubernetes/api_paths.py", "certs/cluster.py"}


@golden
def test_every_part_of_a_path_is_quoted(parts, path):
    assert path == path_of(CORE, "pods", **parts)


@pytest.mark.parametrize("dots", [".", "..", ""])
def test_what_no_quoting_makes_harmless_is_no_part_of_a_path(dots):
    with pytest.raises(ValueError, match="cannot be part of a path"):
        path_of(CORE, "pods", namespace=dots)
    if dots:
        with pytest.raises(ValueError, match="cannot be part of a path"):
            path_of(CORE, "pods", name=dots)


def test_no_other_place_makes_paths_of_names():
    files = [file for room in ("webhook", "certs") for file in Path(room).rglob("*.py")]
    found = {str(file) for file in files if _BY_HAND.search(file.read_text())}
    assert found <= _MADE_IN

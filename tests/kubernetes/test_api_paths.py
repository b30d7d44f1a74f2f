"""Paths at the API server lead where they are meant to lead, whatever a name holds."""

import re
from pathlib import Path

import pytest

from webhook.kubernetes.api_paths import CORE, path_of

_BY_HAND = re.compile(r"/namespaces/\{")
_MADE_IN = {"webhook/kubernetes/api_paths.py", "certs/cluster.py"}


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        pytest.param({}, "/api/v1/pods", id="all"),
        pytest.param({"namespace": "team"}, "/api/v1/namespaces/team/pods", id="a namespace"),
        pytest.param({"namespace": "team", "name": "p"}, "/api/v1/namespaces/team/pods/p", id="one"),
        pytest.param(
            {"namespace": "x/../../y"}, "/api/v1/namespaces/x%2F..%2F..%2Fy/pods", id="a namespace that is a path"
        ),
        pytest.param({"name": "a?b#c%2f"}, "/api/v1/pods/a%3Fb%23c%252f", id="signs of addresses"),
    ],
)
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

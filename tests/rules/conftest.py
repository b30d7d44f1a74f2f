"""The exact messages of rules: `texts.yaml` has them by test. `WRITE_TEXTS=1 pytest tests/rules` writes it anew."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).with_name("texts.yaml")
Texts = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="session")
def texts() -> Iterator[Texts]:
    if "WRITE_TEXTS" not in os.environ:
        yield yaml.safe_load(FILE.read_text(encoding="utf-8"))
        return
    found: Texts = {}
    yield found
    FILE.write_text(yaml.safe_dump(found, width=10_000, allow_unicode=True), encoding="utf-8")


@pytest.fixture
def says(request: pytest.FixtureRequest, texts: Texts) -> Iterator[Callable[[Sequence[object]], None]]:
    """Checks that these messages, in the order of calls, are those of the test in `texts.yaml`."""
    said: list[str] = []
    yield lambda found: said.extend(map(str, found))
    of_file = texts.setdefault(request.path.stem, {}) if "WRITE_TEXTS" in os.environ else texts[request.path.stem]
    if "WRITE_TEXTS" in os.environ:
        of_file[request.node.name] = said
    assert said == of_file[request.node.name]

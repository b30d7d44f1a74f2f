"""matchConditions against the engine in the long form: fifty times the requests of `make test`, and others."""

import os

import pytest

from tests.conditions import agreement
from tests.conditions.evaluator import MissingError
from tests.lab.fuzz.world import World

SEED = int(os.environ.get("FUZZ_SEED", "2"))
REQUESTS = int(os.environ.get("CONDITIONS_REQUESTS", "50000"))


def test_conditions_and_engine_agree_on_tens_of_thousands_of_requests() -> None:
    try:
        conditions = agreement.evaluator()
    except MissingError as error:
        pytest.skip(str(error))
    found = next(agreement.faults(conditions, World(), SEED, range(REQUESTS)), None)
    assert found is None, found

"""The replica that most tests of ledgers are about."""

import pytest

from tests.ledger.bookkeeping import Replica


@pytest.fixture
def replica() -> Replica:
    return Replica()

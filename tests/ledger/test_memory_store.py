"""Ledgers in memory keep every promise of a store."""

import pytest

from tests.ledger.store_contract import StoreContract
from webhook.ledger.ledger_store import MemoryStore


class TestMemoryStore(StoreContract):
    """All promises."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        """An empty store."""
        return MemoryStore()

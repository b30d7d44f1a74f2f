"""Fixtures of the storms, and the table of what the storms about availability have found."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from tests.e2e.fixtures import installation, make_namespace, registration, webhook
from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.quota_fixtures import quotas
from tests.lab.soak.account import HEAD, Account
from tests.lab.soak.site import Site

__all__ = ["installation", "make_namespace", "quotas", "registration", "webhook"]

ACCOUNTS = pytest.StashKey[list[Account]]()
MINUTES = float(os.environ.get("SOAK_MINUTES", "inf"))
"""After so long no other test begins: whoever has only so much time learns which ones there was none for."""
ORDER = os.environ.get("SOAK_ORDER", "")
"""What the order of the files follows from, such as a commit; without it they come by their names."""
BEGAN = time.monotonic()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the files into their order, so that whoever has only so much time begins with others each time."""
    if ORDER:
        items.sort(key=lambda item: sha256(f"{ORDER} {item.nodeid.partition('::')[0]}".encode()).digest())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin nothing more when the time is over."""
    if time.monotonic() - BEGAN > MINUTES * 60:
        pytest.skip(f"the {MINUTES:g} minutes of SOAK_MINUTES are over")


@pytest.fixture
def open_site(
    installation: Installation, make_namespace: Callable[[str], str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Site]]:
    """Makes the test's Site, or one of another kind, registered; takes what the LoadBalancer takes."""
    if HAPROXY is None:
        pytest.skip("no haproxy here; Debian's package is haproxy")
    accounts = request.config.stash.setdefault(ACCOUNTS, [])
    namespace = make_namespace("enforced")
    with ExitStack() as stack:
        yield lambda kind=Site, **options: stack.enter_context(
            kind(installation, namespace, tmp_path, accounts, **options)
        )


@pytest.fixture
def site(open_site: Callable[..., Site]) -> Site:
    """Three replicas behind a load balancer that probes them as the kubelet does."""
    return open_site()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table for docs/performance.md."""
    if accounts := config.stash.get(ACCOUNTS, []):
        terminalreporter.write_line("\n".join([HEAD, *(account.row for account in accounts)]))

"""Reading much of an API server that asks for patience, or is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server, first
from tests.golden import each
from webhook.kubernetes.api_errors import RefusedError, UnreachableError
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.paged_list import ATTEMPTS, LONGEST_WAIT_SECONDS, MOST_WAITED_SECONDS, RetryingReader

PATH = "/apis/apps/v1/deployments"
BUSY = {"message": "too many requests"}


class Patient:
    """A reader that only notes how long it would wait."""

    def __init__(self, server: FakeApiServer, directory: Path) -> None:
        self.waits: list[float] = []
        self.reader = RetryingReader(ApiServer(server.kubeconfig(directory)), self.waits.append)

    def get(self, path: str = PATH) -> object:
        return self.reader.get(path, {}, 5)


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def patient(server: FakeApiServer, tmp_path: Path) -> Patient:
    return Patient(server, tmp_path)


@each(
    "status, headers, waits",
    {
        "429 that says for how long": (429, {"Retry-After": "7"}, [7, 7]),
        "429 that does not": (429, {}, [1, 2]),
        "429 for a day": (429, {"Retry-After": "86400"}, [LONGEST_WAIT_SECONDS] * 2),
        "429 with a text": (429, {"Retry-After": "soon"}, [1, 2]),
        "503": (503, {"Retry-After": "3"}, [3, 3]),
        "502": (502, {}, [1, 2]),
        "504": (504, {}, [1, 2]),
    },
)
def test_what_is_refused_for_the_moment_is_asked_for_again_when_it_is_time(patient, server, status, headers, waits):
    busy = always(status, BUSY, headers)
    server.instead[PATH] = first(busy, busy, then=always(200, {"kind": "List"}))
    assert patient.get() == {"kind": "List"}
    assert patient.waits == waits
    assert patient.reader.calls == 3


@pytest.mark.parametrize("status", [pytest.param(status, id=str(status)) for status in (400, 401, 403, 404, 410, 500)])
def test_any_other_refusal_stands(patient, server, status):
    server.instead[PATH] = always(status, BUSY)
    with pytest.raises(RefusedError):
        patient.get()
    assert (patient.waits, patient.reader.calls) == ([], 1)


def test_patience_with_one_thing_ends(patient, server):
    server.instead[PATH] = always(429, BUSY, {"Retry-After": "2"})
    with pytest.raises(RefusedError, match="429: too many requests"):
        patient.get()
    assert patient.waits == [2] * (ATTEMPTS - 1)


def test_patience_with_all_things_together_ends(patient, server):
    server.instead[PATH] = always(429, BUSY, {"Retry-After": "30"})
    for _ in range(20):
        with pytest.raises(RefusedError):
            patient.get()
    assert sum(patient.waits) == MOST_WAITED_SECONDS
    server.instead[PATH] = always(200, {"kind": "List"})
    assert patient.get() == {"kind": "List"}


def test_an_api_server_that_is_gone_is_not_asked_for_every_single_thing(patient, server):
    server.vanish()
    for _ in range(50):
        with pytest.raises(UnreachableError):
            patient.get()
    assert patient.reader.calls == 2 * ATTEMPTS
    with pytest.raises(UnreachableError, match="did not answer before and was not asked again"):
        patient.get()

"""The API server's clock, by the Date of its last answer."""

import time
from pathlib import Path

import pytest

from tests.facts.fake_api_server import always, fake_api_server
from webhook.kubernetes.api_server import ApiServer


def test_it_does_not_change_when_this_machine_is_set_to_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time()
    with fake_api_server() as fake:
        server = ApiServer(fake.kubeconfig(tmp_path))
        fake.instead["/version"] = always(200, {})
        server.get("/version", {}, 5)
    monkeypatch.setattr(time, "time", lambda: right + 86_400)
    assert server.now() == pytest.approx(right, abs=3)

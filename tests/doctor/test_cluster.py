"""A method returns the object, or raises UnavailableError with the reason; it never ends in a traceback."""

from pathlib import Path

import pytest

from tests.e2e.control_plane import ControlPlane
from webhook.doctor import installation as module
from webhook.doctor.installation import DoctorCluster, UnavailableError
from webhook.kubernetes.api_server import ApiServer


@pytest.fixture
def cluster(control_plane: ControlPlane) -> DoctorCluster:
    return DoctorCluster(ApiServer(control_plane.kubeconfig))


@pytest.fixture
def dead(control_plane: ControlPlane, tmp_path: Path) -> DoctorCluster:
    file = tmp_path / "config"
    file.write_text(control_plane.kubeconfig.read_text().replace(control_plane.url, "https://127.0.0.1:1"))
    return DoctorCluster(ApiServer(file))


def test_lists_are_read_page_by_page(cluster: DoctorCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [one["metadata"]["name"] for one in cluster.items("/api/v1/namespaces")]
    monkeypatch.setattr(module, "PAGE", "1")
    assert len(whole) > 2
    assert [one["metadata"]["name"] for one in cluster.items("/api/v1/namespaces")] == whole


def test_a_kind_that_the_api_server_does_not_know_cannot_be_listed(cluster: DoctorCluster) -> None:
    with pytest.raises(UnavailableError, match=r"does not know /apis/example\.com/v1/things"):
        list(cluster.items("/apis/example.com/v1/things"))


def test_an_answer_that_is_no_json_is_said_to_be(cluster: DoctorCluster) -> None:
    with pytest.raises(UnavailableError, match="something other than JSON"):
        cluster.find("/healthz")


def test_an_api_server_that_went_away_is_said_to_have(dead: DoctorCluster) -> None:
    for ask in (lambda: dead.find("/version"), lambda: dead.create("/api/v1/namespaces", {})):
        with pytest.raises(UnavailableError, match="the API server does not answer"):
            ask()

"""A replica that looks images up: where it shares results, and what it does when its files cannot be read."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.eventually import eventually
from tests.facts.fake_api_server import FakeApiServer, always, fake_api_server
from tests.golden import each
from tests.replica.test_serving import LISTED
from webhook.admission.metrics import Metrics
from webhook.images.shared_results import ConfigMapStore
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import ApiServer
from webhook.model.image import NOT_LOOKED_UP
from webhook.replica.image_lookups import ImageLookups, lookups_of
from webhook.replica.settings import ConfigMapPlace

PLACE = ConfigMapPlace("gpu-policy", "gpu-policy-images")


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        yield server


@pytest.fixture
def store(server: FakeApiServer, tmp_path: Path) -> ConfigMapStore:
    return ConfigMapStore(ApiServer(server.kubeconfig(tmp_path)), PLACE.namespace, PLACE.name)


@pytest.fixture
def settings(server: FakeApiServer, tmp_path: Path) -> tuple[Any, ...]:
    file = tmp_path / "registries.yaml"
    file.write_text(yaml.safe_dump(LISTED))
    return file, None, PLACE, server.kubeconfig(tmp_path)


def value_of(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(name)


@each(
    "status, said",
    {
        "missing": (404, "there is no ConfigMap gpu-policy/gpu-policy-images; apply the release again"),
        "forbidden": (403, "install the RBAC objects of the chart again"),
        "in trouble": (500, "500: oops"),
    },
)
def test_a_config_map_that_cannot_be_read_is_a_fault_that_says_what_to_do(
    status: int, said: str, server: FakeApiServer, store: ConfigMapStore
) -> None:
    server.instead[PLACE.path] = always(status, {"message": "oops"})
    with pytest.raises(ApiServerError, match=said):
        store.read()


def test_look_ups_begin_with_their_metrics_and_go_on_without_the_config_map(
    server: FakeApiServer, settings: tuple[Any, ...]
) -> None:
    server.instead[PLACE.path] = always(404, {"message": "not found"})
    look_ups, metrics = ImageLookups(*settings), Metrics()
    assert value_of(metrics, "gpu_policy_images_known") is None
    look_ups.start(metrics)
    try:
        assert look_ups.service.info("quay.io/team/app:1") == NOT_LOOKED_UP
        eventually(lambda: any(path == PLACE.path for path, _ in server.seen))
        assert value_of(metrics, "gpu_policy_image_results_shared") == 0
        assert (value_of(metrics, "gpu_policy_images_known"), value_of(metrics, "gpu_policy_images_pending")) == (0, 0)
    finally:
        look_ups.close()


@each("break_it", {"no list": lambda file: file.write_text("{}"), "no file": lambda file: file.unlink()})
def test_a_list_that_became_unreadable_ends_no_replica(
    break_it: Any, settings: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """As a worker that is replaced finds it; the process was started on a good one."""
    break_it(settings[0])
    with caplog.at_level(logging.ERROR):
        assert lookups_of(*settings) is None
    assert "until this replica restarts, it looks up no image" in caplog.text

"""Fixtures for every test: a real control plane, started when the first test asks for it."""

import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.e2e.control_plane import ControlPlane
from tests.shared_servers import SharingScheduler, shared_by

os.environ.setdefault("GOGC", "400")
"""Commands written in Go, such as kubectl, helm and promtool, end before their garbage is worth looking for."""
os.environ.update(re.findall(r"\b(MALLOC_\w+)=(\d+)", Path(__file__).parents[1].joinpath("Dockerfile").read_text()))
"""Replicas give freed memory back as those of the image do."""

settings.register_profile("without a clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without a clock")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Never look for garbage in what collection makes, which lasts as long as the session: a quarter of all CPU."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the control plane as e2e. UsageError where a file's tests would start another one."""
    for item in items:
        if "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)
            file = item.nodeid.partition("::")[0]
            if shared_by(file) is None:
                raise pytest.UsageError(f"{file} needs an API server: name it in tests/shared_servers.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingScheduler | None:
    """Where files are run whole (`--dist loadfile`), run those together that share a server."""
    return SharingScheduler(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server without controllers, shared by the session: each test makes a namespace of its own."""
    if reason := ControlPlane.missing():
        pytest.skip(reason)
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The same API server with the controllers that turn workloads into pods."""
    control_plane.start_controller_manager()
    return control_plane

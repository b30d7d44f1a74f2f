"""ConfigMaps are read as the kubelet projects them, so that the hash is the one that replicas serve."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.golden import each
from webhook.doctor.installation import UnavailableError, changed_at, of_config_maps
from webhook.policy.loader import load
from webhook.yaml_files.file_errors import FileErrors

SHIPPED = Path(__file__).resolve().parents[2] / "policies"


def config_map(files: dict[str, str], **others: Any) -> dict[str, Any]:
    return {"metadata": {"name": "m"}, "data": files, **others}


def shipped(*names: str) -> dict[str, str]:
    return {file.name: file.read_text() for file in SHIPPED.glob("*.yaml") if not names or file.name in names}


WHOLE = [({"name": "m"}, config_map(shipped()))]


@each(
    "mounted",
    {
        "one ConfigMap": WHOLE,
        "several": [
            ({"name": "a"}, config_map(shipped("_default.yaml", "team-vision.yaml"))),
            ({"name": "b"}, config_map(shipped("gpu-operator.yaml", "team-notebooks.yaml"))),
        ],
        "a later file wins over an earlier": [({"name": "a"}, config_map({"_default.yaml": "garbage"})), *WHOLE],
        "items": [
            (
                {"name": "m", "items": [{"key": f"x{name}", "path": name} for name in shipped()]},
                config_map({f"x{name}": text for name, text in shipped().items()} | {"other.yaml": "garbage"}),
            )
        ],
        "binaryData": [
            (
                {"name": "m"},
                {
                    "metadata": {"name": "m"},
                    "binaryData": {name: base64.b64encode(text.encode()).decode() for name, text in shipped().items()},
                },
            )
        ],
    },
)
def test_the_policies_of_config_maps_are_those_of_the_directory_that_they_become(mounted: Any) -> None:
    assert load(SHIPPED).hash == of_config_maps(mounted).hash


def test_mistakes_name_the_config_map_and_the_file() -> None:
    with pytest.raises(FileErrors) as refused:
        of_config_maps([({"name": "teams"}, config_map({"a.yml": "", "_other.yaml": "", "b.yaml": "[]"}))])
    assert [str(error).partition(": ")[0] for error in refused.value.errors] == [
        "ConfigMap teams/_other.yaml",
        "ConfigMap teams/a.yml",
        "ConfigMap teams/b.yaml:1",
    ]


def test_no_config_map_is_no_empty_set_of_policies() -> None:
    with pytest.raises(UnavailableError, match="mounts no ConfigMap with policies"):
        of_config_maps([])
    with pytest.raises(FileErrors, match="ConfigMap m: holds no policy file"):
        of_config_maps([({"name": "m"}, config_map({}))])


def test_a_change_is_as_old_as_the_last_writer_says() -> None:
    metadata = {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"time": "2026-03-01T00:00:00Z"}, {"time": "2026-02-01T00:00:00Z"}, {}],
    }
    assert changed_at({"metadata": metadata}) == datetime(2026, 3, 1, tzinfo=UTC)
    assert changed_at({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}) == datetime(2026, 1, 1, tzinfo=UTC)

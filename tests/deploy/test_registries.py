"""Looking images up, switched on with one value: what the chart then brings, and that it brings nothing otherwise."""

import json
from pathlib import Path
from typing import Any

from deploy.generate import CHART
from tests.deploy.manifests import Objects, needs_helm, rendered, shipped
from tests.deploy.value_sets import AUTHORITY, LOOKING_UP, VALUE_SETS
from tests.golden import each
from webhook.images.allowlist import PRESETS, AllowList
from webhook.model.image import parse_reference

OWN = VALUE_SETS["images are looked up in registries of our own"]


def listed(objects: Objects, directory: Path) -> AllowList:
    """The list as a replica reads it from its volume."""
    for name, text in objects.one("ConfigMap", "gpu-policy-registries")["data"].items():
        (directory / name).write_text(text)
    return AllowList.load(directory / "registries.yaml")


def admits(allowed: AllowList, *images: str) -> list[bool]:
    return [allowed.allows(parse_reference(image)) for image in images]


def egress(objects: Objects) -> list[Any]:
    rules: list[Any] = objects.one("NetworkPolicy", "gpu-policy")["spec"]["egress"]
    return rules


def test_unless_it_is_switched_on_nothing_is_contacted_and_nothing_is_there_for_it() -> None:
    objects = shipped()
    assert not [option for option, _ in objects.options if "regist" in option and option != "--registration"]
    assert not [one for one in objects if one["metadata"]["name"].endswith(("-images", "-registries"))]
    assert len(egress(objects)) == 2


@needs_helm
def test_one_value_switches_it_on(tmp_path: Path) -> None:
    objects = rendered(LOOKING_UP)
    options = dict(objects.options)
    assert options["--registries"] == "/etc/gpu-policy/registries/registries.yaml"
    assert options["--image-results"] == "gpu-policy/gpu-policy-images"
    assert "--registry-credentials" not in options
    allowed = listed(objects, tmp_path)
    assert admits(allowed, "python", "nvcr.io/nvidia/pytorch:24.01-py3", "evil.example/a") == [True, True, False]
    assert egress(objects)[2] == {"ports": [{"port": 443, "protocol": "TCP"}]}


def test_the_schema_knows_every_preset_that_there_is() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["properties"]["registries"]["properties"]["presets"]["items"]["enum"] == sorted(PRESETS)


@needs_helm
def test_registries_of_ones_own_are_listed_with_their_authorities(tmp_path: Path) -> None:
    objects = rendered(OWN)
    allowed = listed(objects, tmp_path)
    assert admits(allowed, "registry.corp.example:5000/a", "gpu.lab.example/a", "quay.io/a/b") == [True, True, False]
    assert (tmp_path / "corp.pem").read_text() == AUTHORITY


@needs_helm
def test_the_replicas_may_connect_to_the_ports_that_are_named_and_implied() -> None:
    (rule,) = egress(rendered(OWN))[2:]
    assert [port["port"] for port in rule["ports"]] == [443, 8443, 5000, 8444, 80]
    assert {port["protocol"] for port in rule["ports"]} == {"TCP"}
    assert rule["to"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]


@needs_helm
def test_logins_are_mounted_as_the_server_reads_them() -> None:
    objects = rendered(OWN)
    (volume,) = [one for one in objects.pod["volumes"] if one["name"] == "registry-credentials"]
    assert volume["secret"]["secretName"] == "registry-logins"
    assert volume["secret"]["items"] == [{"key": ".dockerconfigjson", "path": "config.json"}]
    assert ("--registry-credentials", "/etc/gpu-policy/registry-credentials/config.json") in objects.options


@needs_helm
@each(
    "change, restarts",
    {"another list": ({"presets": ["docker.io"]}, True), "the same list": ({"presets": sorted(PRESETS)}, False)},
)
def test_a_changed_list_restarts_the_replicas_which_read_it_at_the_start(
    change: dict[str, Any], *, restarts: bool
) -> None:
    before, after = (
        rendered({"registries": {"enabled": True, **one}}).one("Deployment")["spec"]["template"] for one in ({}, change)
    )
    assert (before != after) is restarts

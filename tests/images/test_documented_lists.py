"""The lists of registries in docs/operations.md can be copied as they stand."""

import re
from pathlib import Path

import yaml

from tests.images import private_authority
from webhook.images.allowlist import AllowList
from webhook.model.image import parse_reference

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]


def load(directory: Path, document: object) -> AllowList:
    (directory / "corp.pem").write_text(private_authority.PEM)
    file = directory / "registries.yaml"
    file.write_text(yaml.safe_dump(document))
    return AllowList.load(file)


def test_the_whole_file_is_read(tmp_path: Path) -> None:
    (document,) = [block for block in BLOCKS if isinstance(block, dict) and block.get("kind") == "Registries"]
    allowed = load(tmp_path, document)
    assert allowed.allows(parse_reference("registry.corp.example:5000/ml/app:1"))
    assert allowed.allows(parse_reference("python"))


def test_the_items_for_well_known_products_are_read(tmp_path: Path) -> None:
    (items,) = [block for block in BLOCKS if isinstance(block, list)]
    allowed = load(
        tmp_path, {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "Registries", "spec": {"registries": items}}
    )
    for host in (
        "harbor.corp.example",
        "registry.gitlab.corp.example:5050",
        "docker.artifactory.corp.example",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        "example.azurecr.io",
    ):
        assert allowed.allows(parse_reference(f"{host}/team/image:1")), host

"""The list of registries: which registries may be queried, and mistakes with file, line and key."""

import re
import textwrap
from pathlib import Path

import pytest

from tests.golden import golden
from tests.images import private_authority
from webhook.images.allowlist import PRESETS, AllowList
from webhook.images.hosts import Host, HostPattern, split_pattern
from webhook.model.image import ImageInfo, parse_reference
from webhook.yaml_files.file_errors import FileErrors

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: Registries\n"


def write(directory: Path, text: str) -> Path:
    file = directory / "registries.yaml"
    file.write_text(text)
    return file


def load(directory: Path, spec: str) -> AllowList:
    return AllowList.load(write(directory, HEAD + spec))


def faults(directory: Path, text: str) -> list[str]:
    """The mistakes in a file, without its directory."""
    with pytest.raises(FileErrors) as caught:
        AllowList.load(write(directory, text))
    return str(caught.value).replace(f"{directory}/", "").splitlines()


def admits(allowed: AllowList, image: str) -> bool:
    return allowed.allows(parse_reference(image))


DOCUMENTED = re.findall(r"```yaml\n(.*?)```", (Path(__file__).parents[2] / "docs/operations.md").read_text(), re.DOTALL)


def test_the_documented_list_is_read_with_everything(tmp_path):
    (tmp_path / "corp.pem").write_text(private_authority.PEM)
    (text,) = [block for block in DOCUMENTED if "kind: Registries" in block]
    allowed = AllowList.load(write(tmp_path, text))
    assert admits(allowed, "python")
    site = allowed.site("registry.corp.example:5000")
    assert site is not None
    assert site.host == Host("registry.corp.example", 5000)
    assert site.registry.token_hosts == (HostPattern("auth.corp.example"),)
    assert site.registry.blob_hosts == (HostPattern("*.s3.corp.example"),)
    assert (site.registry.plain_http, site.registry.authorities) == (False, private_authority.PEM)


def test_the_documented_items_for_well_known_products_are_read(tmp_path):
    (tmp_path / "corp.pem").write_text(private_authority.PEM)
    (items,) = [block for block in DOCUMENTED if block.startswith("- host: harbor")]
    allowed = load(tmp_path, "spec:\n  registries:\n" + textwrap.indent(items, "    "))
    for host in (
        "harbor.corp.example",
        "registry.gitlab.corp.example:5050",
        "docker.artifactory.corp.example",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        "example.azurecr.io",
    ):
        assert admits(allowed, f"{host}/team/image:1"), host


@golden
def test_only_images_of_listed_registries_are_allowed(tmp_path, image, expected):
    spec = """\
spec:
  presets: [docker.io, pkg.dev]
  registries:
    - {host: "registry.corp.example:5000"}
    - {host: plain.example, plainHTTP: true}
"""
    assert admits(load(tmp_path, spec), image) is expected


def test_the_exact_name_wins_over_the_longest_domain(tmp_path):
    spec = """\
spec:
  registries:
    - {host: "*.example.com", blobHosts: [one.test]}
    - {host: "*.eu.example.com", blobHosts: [two.test]}
    - {host: a.eu.example.com, blobHosts: [three.test]}
"""
    allowed = load(tmp_path, spec)
    for name, blobs in (
        ("b.example.com", "one.test"),
        ("b.eu.example.com", "two.test"),
        ("a.eu.example.com", "three.test"),
    ):
        site = allowed.site(name)
        assert site is not None
        assert (HostPattern(blobs),) == site.registry.blob_hosts
        assert Host(name) == site.host


def test_a_registry_is_for_all_namespaces_unless_it_names_some(tmp_path):
    spec = """\
spec:
  presets: [docker.io]
  registries:
    - {host: open.example}
    - {host: private.example, namespaces: [team-a, "research-*"]}
    - {host: closed.example, namespaces: []}
"""
    allowed = load(tmp_path, spec)

    def told(image: str) -> list[str]:
        asking = ("team-a", "team-ab", "research-x", "web", "")
        return [name for name in asking if allowed.withheld(image, name) is None]

    everybody = ["team-a", "team-ab", "research-x", "web", ""]
    for image, expected in (
        ("python", everybody),
        ("open.example/app", everybody),
        ("elsewhere.example/app", everybody),  # which is never looked up
        ("private.example/app", ["team-a", "research-x"]),
        ("closed.example/app", []),
    ):
        assert told(image) == expected
    assert allowed.withheld("no reference", "web") is None  # which is said elsewhere
    assert allowed.withheld("private.example/app", "web") == ImageInfo(
        problem="namespace web may not know what private.example says of images; ask the platform team to add it to "
        "the registry's `namespaces`"
    )


@pytest.mark.parametrize("name", PRESETS)
def test_presets_spell_hosts_in_the_usual_way_and_speak_tls(name):
    for registry in PRESETS[name]:
        patterns = (registry.host, *registry.token_hosts, *registry.blob_hosts)
        assert all((pattern.name, None) == split_pattern(pattern.name) for pattern in patterns)
        assert all(pattern.port == 443 for pattern in patterns)
        assert not registry.plain_http


@golden
def test_a_mistake_is_reported_with_place_and_remedy(tmp_path, spec, expected):
    assert [expected] == faults(tmp_path, HEAD + spec)


def test_a_file_of_another_kind_is_refused(tmp_path):
    text = HEAD.replace("Registries", "GPUPolicy") + "spec: {presets: [nvcr.io]}\n"
    assert faults(tmp_path, text) == ['registries.yaml:2: kind: "GPUPolicy" is not allowed; write Registries']
    assert faults(tmp_path, "") == [
        "registries.yaml:1: the file is empty; write a list of registries, or remove the file"
    ]


def test_all_mistakes_in_a_list_are_reported_at_once(tmp_path):
    found = faults(tmp_path, HEAD + "spec:\n  preset: []\n  registries:\n    - hosts: a\n      plainHTTP: 1\n")
    assert [" ".join(line.split()[:2]) for line in found] == [
        "registries.yaml:4: spec.preset:",
        "registries.yaml:6: spec.registries[0].host:",
        "registries.yaml:6: spec.registries[0].hosts:",
        "registries.yaml:7: spec.registries[0].plainHTTP:",
    ]


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(FileErrors, match=r"none\.yaml: the file cannot be read \(No such file or directory\)"):
        AllowList.load(tmp_path / "none.yaml")

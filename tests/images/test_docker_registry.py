"""Look-ups against a real registry, Debian's docker-registry: images of all kinds, and every way to log in."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs.authority import new_authority
from tests.golden import each
from tests.images import images, private_authority
from tests.images.docker_registry import HTPASSWD, PROGRAM, DockerRegistry, running, token_server
from tests.images.scripted import NAME, PATIENT, listed, scripted
from webhook.images.allowlist import AllowList, Registry
from webhook.images.client import RegistryClient
from webhook.images.credentials import Credentials
from webhook.images.hosts import HostPattern
from webhook.images.http_request import ImageLookupError, LookupLimits
from webhook.model.image import ImageConfig, ImageReference

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no docker-registry here; .ci/tools installs it")

ENV = {"CUDA_VERSION": "12.4.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470,driver<471"}
CONFIG = images.config({**ENV, "PATH": "/bin", "NVIDIA_VISIBLE_DEVICES": "all"})
MANIFEST = images.manifest(CONFIG)
ARM_CONFIG = images.config({"CUDA_VERSION": "13.0.0"}, "arm64")
ARM_MANIFEST = images.manifest(ARM_CONFIG)
DOCKER = images.manifest(images.Document(images.DOCKER_CONFIG, CONFIG.body), images.DOCKER_MANIFEST)
INDEX = images.index(images.entry(ARM_MANIFEST, "arm64"), images.entry(MANIFEST))
DOCKER_INDEX = images.index(images.entry(DOCKER), media_type=images.DOCKER_INDEX)
ARM_INDEX = images.index(images.entry(ARM_MANIFEST, "arm64"))
CHART = images.document("application/vnd.cncf.helm.config.v1+json", {"name": "chart"})
PASSWORD = {"auth": base64.b64encode(b"robot:open sesame").decode()}
BASIC = f"Basic {PASSWORD['auth']}"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module")
def registry(storage: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    with running(tmp_path_factory.mktemp("open"), storage) as registry:
        registry.push("team/image", "oci", CONFIG, MANIFEST)
        registry.push("team/image", "docker", CONFIG, DOCKER)
        registry.push("team/image", "index", CONFIG, MANIFEST, ARM_CONFIG, ARM_MANIFEST, INDEX)
        registry.push("team/image", "docker-index", CONFIG, DOCKER, DOCKER_INDEX)
        registry.push("team/image", "arm", ARM_CONFIG, ARM_MANIFEST, ARM_INDEX)
        registry.push("team/image", "chart", CHART, images.manifest(CHART))
        yield registry


def asking(
    registry: Registry, credentials: Credentials | None = None, limits: LookupLimits = PATIENT
) -> RegistryClient:
    return RegistryClient(AllowList([registry]), credentials, limits)


def image(port: int, tag: str = "oci", digest: str = "", repository: str = "team/image") -> ImageReference:
    return ImageReference(f"{NAME}:{port}", repository, tag, digest)


def logged_in(directory: Path, port: int, entry: dict[str, Any]) -> Credentials:
    file = directory / "config.json"
    file.write_text(json.dumps({"auths": {f"{NAME}:{port}": entry}}))
    return Credentials(file)


@each(
    "tag, expected",
    {
        "an image of OCI": ("oci", ImageConfig(MANIFEST.digest, ENV, ("amd64",))),
        "an image of Docker": ("docker", ImageConfig(DOCKER.digest, ENV, ("amd64",))),
        "an index of OCI": ("index", ImageConfig(INDEX.digest, ENV, ("arm64", "amd64"))),
        "an index of Docker": ("docker-index", ImageConfig(DOCKER_INDEX.digest, ENV, ("amd64",))),
        "an index without amd64": ("arm", ImageConfig(ARM_INDEX.digest, {"CUDA_VERSION": "13.0.0"}, ("arm64",))),
    },
)
def test_images_are_looked_up_by_tag_and_by_digest(registry, tag, expected):
    client = asking(listed(registry.port))
    assert expected == client.look_up(image(registry.port, tag))
    assert expected == client.look_up(image(registry.port, "", expected.digest))
    assert expected == client.look_up(image(registry.port, "a-tag-beside-a-digest-means-nothing", expected.digest))
    assert client.look_up(image(registry.port, tag), ImageConfig(expected.digest)).env == {}


@each(
    "changes, said",
    {
        "no such tag": ({"tag": "none"}, r"does not have registry\.example:\d+/team/image:none \(404\)"),
        "no such repository": ({"repository": "team/none"}, r"does not have .*/team/none:oci \(404\)"),
        "no such digest": ({"digest": "sha256:" + "0" * 64}, r"does not have .* \(404\)"),
        "another kind of digest": (
            {"digest": "sha512:" + "0" * 128},
            "the image's digest is not a sha256 digest, the only kind that can be verified",
        ),
        "no image": (
            {"tag": "chart"},
            "the reference leads to an artifact that is not a container image, such as a Helm chart",
        ),
    },
)
def test_a_missing_image_is_a_lasting_error(registry, changes, said):
    with pytest.raises(ImageLookupError, match=said) as caught:
        asking(listed(registry.port)).look_up(image(registry.port, **changes))
    assert caught.value.is_lasting


def test_a_proxy_in_the_environment_is_not_used(registry, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert asking(listed(registry.port)).look_up(image(registry.port)).env == ENV


@pytest.fixture(scope="module")
def with_password(
    registry: DockerRegistry, storage: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerRegistry]:
    directory = tmp_path_factory.mktemp("password")
    (directory / "htpasswd").write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": "tests", "path": str(directory / "htpasswd")}}
    with running(directory, storage, auth=auth) as asking_for_passwords:
        yield asking_for_passwords


def test_a_registry_with_passwords_is_logged_in_to(with_password, tmp_path):
    port = with_password.port
    client = asking(listed(port), logged_in(tmp_path, port, PASSWORD))
    assert client.look_up(image(port)).env == ENV


@each("entry", {"anonymous": None, "with credentials": PASSWORD})
def test_a_registry_with_tokens_is_logged_in_to(registry, storage, tmp_path, entry):
    issuer = new_authority(datetime.now(UTC))
    (tmp_path / "issuer.pem").write_bytes(issuer.certificate_pem)
    with scripted(private_authority.server_context("tokens.example")) as tokens:
        tokens.scripts["/token"] = token_server(issuer, BASIC if entry else None)
        realm = f"https://tokens.example:{tokens.port}/token"
        auth = {
            "realm": realm,
            "service": "a registry",
            "issuer": "tests",
            "rootcertbundle": str(tmp_path / "issuer.pem"),
        }
        with running(tmp_path, storage, auth={"token": auth}) as guarded:
            hosts = (HostPattern("tokens.example", tokens.port),)
            entry_of_list = listed(guarded.port, token_hosts=hosts, authorities=private_authority.PEM)
            client = asking(entry_of_list, logged_in(tmp_path, guarded.port, entry) if entry else None)
            assert client.look_up(image(guarded.port, "index")) == ImageConfig(INDEX.digest, ENV, ("arm64", "amd64"))
            with pytest.raises(ImageLookupError, match=r"does not have .*team/none"):
                client.look_up(image(guarded.port, repository="team/none"))
    assert len(tokens.heard) == 2


@pytest.fixture(scope="module")
def with_tls(
    registry: DockerRegistry, storage: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerRegistry]:
    directory = tmp_path_factory.mktemp("tls")
    pair = private_authority.pair(NAME)
    (directory / "tls.crt").write_bytes(pair.certificate_pem)
    (directory / "tls.key").write_bytes(pair.key_pem)
    tls = {"certificate": str(directory / "tls.crt"), "key": str(directory / "tls.key")}
    with running(directory, storage, http={"tls": tls}) as speaking_tls:
        yield speaking_tls


def test_a_registry_may_have_an_authority_of_its_own(with_tls, tmp_path):
    (tmp_path / "corp.pem").write_text(private_authority.PEM)
    (tmp_path / "registries.yaml").write_text(
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: Registries\nspec:\n  registries:\n"
        f"    - {{host: '{NAME}:{with_tls.port}', caFile: corp.pem}}\n"
    )
    client = RegistryClient(AllowList.load(tmp_path / "registries.yaml"), None, PATIENT)
    assert client.look_up(image(with_tls.port)).env == ENV


@each(
    "name, changes, said",
    {
        "an authority that nobody trusts": (NAME, {}, "presents a certificate that is not trusted"),
        "a certificate for another name": (
            "other.example",
            {"authorities": private_authority.PEM},
            "presents a certificate that is not trusted .*other.example",
        ),
        "spoken to without TLS": (NAME, {"plain_http": True}, r"answers with status 400 instead of"),
    },
)
def test_a_registry_that_does_not_prove_its_name_is_not_believed(with_tls, name, changes, said):
    registry = Registry(HostPattern(name, with_tls.port), **changes)
    with pytest.raises(ImageLookupError, match=said) as caught:
        asking(registry).look_up(ImageReference(f"{name}:{with_tls.port}", "team/image", "oci"))
    assert caught.value.is_lasting


def test_a_registry_without_tls_fails_the_handshake(registry):
    with pytest.raises(ImageLookupError, match="fails the TLS handshake, or speaks HTTP without TLS"):
        asking(listed(registry.port, plain_http=False)).look_up(image(registry.port))


def test_a_registry_at_an_address_proves_the_address(registry, storage, tmp_path):
    pair = private_authority.pair("127.0.0.1")
    (tmp_path / "pair.pem").write_bytes(pair.certificate_pem + pair.key_pem)
    tls = {"certificate": str(tmp_path / "pair.pem"), "key": str(tmp_path / "pair.pem")}
    with running(tmp_path, storage, http={"tls": tls}) as at_address:
        host = HostPattern("127.0.0.1", at_address.port)
        entry = Registry(host, authorities=private_authority.PEM)
        reference = ImageReference(f"127.0.0.1:{at_address.port}", "team/image", "oci")
        assert asking(entry).look_up(reference).env == ENV

"""Documents of registries are read without trust, and reduced to what matters."""

import json
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.images import images
from webhook.images.http_request import ImageLookupError
from webhook.images.registry_documents import INDEXES, MANIFESTS, Index, read_config, read_manifest

AMD64, ARM64 = (images.manifest(images.config(architecture=name)) for name in ("amd64", "arm64"))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def chosen(*entries: dict[str, object], media_type: str = images.OCI_INDEX) -> Index:
    found = read_manifest(images.index(*entries, media_type=media_type).body, media_type)
    assert isinstance(found, Index)
    return found


@pytest.mark.parametrize("media_type", [images.OCI_MANIFEST, images.DOCKER_MANIFEST])
def test_a_manifest_leads_to_its_configuration(media_type):
    config = images.config()
    body = images.manifest(config, media_type).body
    assert config.digest == read_manifest(body, media_type)
    assert config.digest == read_manifest(body, f"{media_type.upper()}; charset=utf-8")


@pytest.mark.parametrize("media_type", [images.OCI_INDEX, images.DOCKER_INDEX])
@pytest.mark.parametrize("order", [1, -1], ids=["amd64 first", "amd64 last"])
def test_the_amd64_image_of_an_index_is_read_with_the_architectures_of_all(media_type, order):
    entries = [images.entry(AMD64), images.entry(ARM64, "arm64")][::order]
    found = chosen(*entries, media_type=media_type)
    assert (AMD64.digest, {"amd64", "arm64"}) == (found.chosen, set(found.architectures))


def test_without_amd64_the_first_image_is_read():
    found = chosen(images.entry(ARM64, "arm64"), images.entry(AMD64, "ppc64le"))
    assert Index(ARM64.digest, ("arm64", "ppc64le")) == found


def test_attestations_and_windows_images_are_skipped():
    attestation = images.entry(ARM64, "unknown", "unknown")
    assert Index(AMD64.digest, ("amd64",)) == chosen(
        attestation, images.entry(ARM64, "amd64", "windows"), images.entry(AMD64), attestation
    )


def test_variants_of_an_architecture_are_one():
    found = chosen(images.entry(ARM64, "arm"), images.entry(AMD64, "arm"))
    assert Index(ARM64.digest, ("arm",)) == found


def test_an_entry_without_a_platform_is_read_if_no_other_entry_has_one():
    assert Index(ARM64.digest, ()) == chosen(ARM64.descriptor)
    assert Index(AMD64.digest, ("amd64",)) == chosen(ARM64.descriptor, images.entry(AMD64))


@each(
    "index, said",
    {
        "nothing": (images.index(), "the image index has no entry for Linux"),
        "Windows only": (
            images.index(images.entry(AMD64, "amd64", "windows")),
            "the image index has no entry for Linux",
        ),
        "a map": (images.index(manifests={}), "the image index must have a list of manifests"),
        "a number": (images.index(manifests=[5]), "an entry of the image index is not a JSON object"),
        "a text": (images.index(manifests=["a"]), "an entry of the image index is not a JSON object"),
        "an odd platform": (images.index({**images.entry(AMD64), "platform": []}), "is not a JSON object"),
        "a short digest": (images.index({**images.entry(AMD64), "digest": "sha256:1"}), "has no sha256 digest"),
        "no digest": (images.index({**images.entry(AMD64), "digest": None}), "has no sha256 digest"),
        "a path": (images.index({**images.entry(AMD64), "digest": "sha256:../../" + "0" * 58}), "has no sha256 digest"),
        "another index": (images.index(images.entry(images.index())), "such as another image index"),
        "no type": (
            images.index({**images.entry(AMD64), "mediaType": []}),
            "refers to something that is not an image manifest",
        ),
        "no architecture": (images.index(images.entry(AMD64, "../../etc")), "the image index has no entry for Linux"),
        "33 of them": (images.index(*[images.entry(AMD64, f"cpu{number}") for number in range(33)]), "more than 32"),
    },
)
def test_a_malformed_index_is_refused(index, said):
    with pytest.raises(ImageLookupError, match=said):
        read_manifest(index.body, index.media_type)


@golden
def test_a_malformed_document_is_refused(changes, said):
    with pytest.raises(ImageLookupError, match=said):
        read_manifest(images.manifest(images.config(), **changes).body, images.OCI_MANIFEST)


@each(
    "body, said",
    {
        "nothing": (b"", "the manifest is not JSON"),
        "no text": (b"\xff\xfe", "the manifest is not JSON"),
        "deeply nested": (b"[" * 50_000 + b"]" * 50_000, "the manifest is not JSON"),
        "null": (b"null", "the manifest is not a JSON object"),
        "numbers": (b'{"a":[' + b"0," * 500_000 + b"0]}", "the manifest has more than 100000 values"),
        "images": (b'{"manifests":[' + b"{}," * 500_000 + b"{}]}", "the manifest has more than 100000 values"),
        "an empty object": (b"{}", "the manifest's content contradicts its media type"),
    },
)
def test_what_is_no_document_is_refused(body, said):
    with pytest.raises(ImageLookupError, match=said):
        read_manifest(body, images.OCI_MANIFEST)


@golden
def test_a_manifest_of_the_wrong_type_is_refused(content_type, said):
    with pytest.raises(ImageLookupError, match=said):
        read_manifest(AMD64.body, content_type)


def test_a_document_that_looks_like_index_and_manifest_is_refused():
    both = json.loads(AMD64.body) | {"manifests": [images.entry(AMD64)]}
    del both["mediaType"]
    for media_type in (images.OCI_MANIFEST, images.OCI_INDEX):
        with pytest.raises(ImageLookupError, match="content contradicts its media type"):
            read_manifest(json.dumps(both).encode(), media_type)


@given(anything, st.sampled_from((*MANIFESTS, *INDEXES)))
def test_any_json_is_a_document_or_an_error(found, media_type):
    read = partial(read_manifest, content_type=media_type)
    for content in (found, {"config": found, "schemaVersion": 2}, {"manifests": found}, {"manifests": [found]}):
        with suppress(ImageLookupError):
            read(json.dumps(content).encode())
    for content in (found, {"config": found}, {"config": {"Env": found}}, {"architecture": found, "os": found}):
        with suppress(ImageLookupError):
            read_config(json.dumps(content).encode())


@given(st.binary(max_size=60), st.text(max_size=20))
def test_any_bytes_are_a_document_or_an_error(body, content_type):
    for read in (read_config, partial(read_manifest, content_type=content_type)):
        with suppress(ImageLookupError):
            read(body)


def test_only_variables_about_cuda_and_the_driver_are_kept():
    env = {
        "PATH": "/usr/bin",
        "CUDA_VERSION": "12.4.1",
        "NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=470,driver<471",
        "NVIDIA_REQUIRE_JETPACK": "csv-mounts=all",
        "NVIDIA_DISABLE_REQUIRE": "",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,graphics",
        "NVARCH": "x86_64",
        "API_KEY": "a secret that somebody left in an image",
    }
    kept = {name: value for name, value in env.items() if name not in ("PATH", "NVIDIA_VISIBLE_DEVICES", "API_KEY")}
    assert read_config(images.config(env, "arm64").body) == (kept, "arm64")


def test_the_last_value_of_a_variable_counts():
    body = images.config(config={"Env": ["CUDA_VERSION=11.8", "CUDA_VERSION=12.4=x", "NVARCH"]}).body
    assert read_config(body)[0] == {"CUDA_VERSION": "12.4=x"}


@golden
def test_a_configuration_may_say_nothing(changes):
    assert read_config(images.config(**changes).body)[0] == {}


@each(
    "changes, said",
    {
        "an empty list for a map": ({"config": []}, None),
        "a text for a map": ({"config": "x"}, "config in the image configuration is not a JSON object"),
        "a map": (
            {"config": {"Env": {"CUDA_VERSION": "12"}}},
            "config.Env in the image configuration is not a list of strings",
        ),
        "a number": (
            {"config": {"Env": ["CUDA_VERSION=12", 5]}},
            "config.Env in the image configuration is not a list of strings",
        ),
        "a list": (
            {"config": {"Env": [["CUDA_VERSION=12"]]}},
            "config.Env in the image configuration is not a list of strings",
        ),
        "Windows": ({"os": "windows"}, "the image is not for Linux"),
        "a list of systems": ({"os": ["linux"]}, "the image is not for Linux"),
        "many requirements": (
            {"config": {"Env": [f"NVIDIA_REQUIRE_{number}=" + "x" * 2000 for number in range(4)]}},
            "more than 8192 bytes in its variables about CUDA and NVIDIA",
        ),
        "large characters": ({"config": {"Env": ["CUDA_VERSION=" + "\U0001f600" * 3000]}}, "more than 8192 bytes"),
    },
)
def test_a_malformed_configuration_is_refused(changes, said):
    body = images.config(**changes).body
    if said is None:
        assert read_config(body)[0] == {}
        return
    with pytest.raises(ImageLookupError, match=said):
        read_config(body)

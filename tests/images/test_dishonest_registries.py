"""Documents of a registry count only if they match their digests and media types."""

import json
from dataclasses import replace

import pytest

from tests.images import images
from tests.images.scripted import (
    PATIENT,
    REPOSITORY,
    client,
    listed,
    reference,
    refusal,
    serving,
    whole,
)
from webhook.model.image import ImageConfig


def honest() -> list[images.Document]:
    config = images.config({"CUDA_VERSION": "12.4.1"})
    return [images.manifest(config), config]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "the manifest is not JSON", id="nothing"),
        pytest.param(b"{", "the manifest is not JSON", id="half of it"),
        pytest.param(b"\xff\xfe", "the manifest is not JSON", id="no text"),
        pytest.param(b"[" * 50_000 + b"]" * 50_000, "the manifest is not JSON", id="deeply nested lists"),
        pytest.param(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "the manifest is not JSON", id="deeply nested maps"),
        pytest.param(b"[]", "the manifest is not a JSON object", id="a list"),
        pytest.param(b"null", "the manifest is not a JSON object", id="null"),
        pytest.param(b"NaN", "the manifest is not JSON", id="no number"),
        pytest.param(
            b'{"a":[' + b"0," * 500_000 + b"0]}", "the manifest has more than 100000 values", id="many numbers"
        ),
        pytest.param(b"{}", "the manifest's content contradicts its media type", id="an empty object"),
    ],
)
def test_a_malformed_manifest_is_refused(server, body, said):
    server.otherwise = whole(200, body, {"Content-Type": images.OCI_MANIFEST})
    assert str(refusal(server)) == f"registry.example:{server.port}: {said}"


def test_an_index_of_a_million_images_is_refused_before_it_is_parsed(server):
    entries = b",".join([b"{}"] * 1_000_000)
    body = b'{"schemaVersion":2,"manifests":[' + entries + b"]}"
    server.otherwise = whole(200, body, {"Content-Type": images.OCI_INDEX})
    assert str(refusal(server)).endswith("the manifest has more than 100000 values")


def test_a_manifest_with_another_digest_is_refused(server):
    manifest, config = honest()
    other = images.manifest(images.config({"CUDA_VERSION": "9.0"}))
    server.holds("1", manifest, config)
    server.scripts[f"/v2/{REPOSITORY}/manifests/{manifest.digest}"] = serving(other)
    error = refusal(server, tag="", digest=manifest.digest)
    assert str(error).endswith("the manifest does not match its digest")


def test_an_image_of_an_index_with_another_digest_is_refused(server):
    manifest, config = honest()
    other = images.manifest(images.config({"CUDA_VERSION": "9.0"}))
    server.holds("1", images.index(images.entry(manifest)), manifest, config)
    server.scripts[f"/v2/{REPOSITORY}/manifests/{manifest.digest}"] = serving(other)
    assert str(refusal(server)).endswith("the manifest does not match its digest")


def test_a_configuration_with_another_digest_is_refused(server):
    manifest, config = honest()
    server.holds("1", manifest, config)
    server.scripts[f"/v2/{REPOSITORY}/blobs/{config.digest}"] = serving(images.config({"CUDA_VERSION": "9.0"}))
    assert str(refusal(server)).endswith("the image configuration does not match its digest")


def test_a_too_large_configuration_is_refused(server):
    config = images.config({"CUDA_VERSION": "12.4.1", "FILLING": "x" * 5000})
    server.holds("1", images.manifest(config), config)
    assert str(refusal(server, replace(PATIENT, config_bytes=4000))).endswith(
        "sends a larger answer than the limits allow"
    )
    assert client(listed(server.port)).look_up(reference(server.port)).env == {"CUDA_VERSION": "12.4.1"}


def test_an_index_that_leads_to_an_index_is_refused(server):
    manifest, config = honest()
    inner = images.index(images.entry(manifest))
    lying = {**images.entry(inner), "mediaType": images.OCI_MANIFEST}
    server.holds("1", images.index(images.entry(inner)), inner, manifest, config)
    server.holds("2", images.index(lying), inner, manifest, config)
    assert str(refusal(server)).endswith(
        "the image index refers to something that is not an image manifest, such as another image index"
    )
    assert str(refusal(server, tag="2")).endswith(
        "the image index refers to another image index; it must refer to image manifests"
    )


def test_an_index_that_leads_to_itself_is_requested_twice_at_most(server):
    server.otherwise = whole(200, images.index(images.entry(images.index())).body, {"Content-Type": images.OCI_INDEX})
    refusal(server)
    assert len(server.heard) <= 2


@pytest.mark.parametrize(
    ("content_type", "said"),
    [
        pytest.param(
            "text/html",
            "the manifest has an unsupported media type; supported are image manifests and image indexes of OCI and "
            "of Docker's schema 2",
            id="a web page",
        ),
        pytest.param(
            "",
            "the manifest has an unsupported media type; supported are image manifests and image indexes of OCI and "
            "of Docker's schema 2",
            id="no type",
        ),
        pytest.param(images.OCI_INDEX, "the manifest's content contradicts its media type", id="another type"),
        pytest.param(
            "application/vnd.docker.distribution.manifest.v1+prettyjws",
            "the image has a manifest of Docker's schema 1, which is obsolete and not supported; build and push the "
            "image again",
            id="schema 1",
        ),
    ],
)
def test_a_manifest_of_the_wrong_type_is_refused(server, content_type, said):
    server.otherwise = whole(200, honest()[0].body, {"Content-Type": content_type})
    assert str(refusal(server)) == f"registry.example:{server.port}: {said}"


def test_a_document_that_looks_like_index_and_manifest_is_refused(server):
    manifest, _ = honest()
    both = json.loads(manifest.body) | {"manifests": [images.entry(manifest)]}
    del both["mediaType"]
    body = json.dumps(both).encode()
    for number, media_type in enumerate((images.OCI_MANIFEST, images.OCI_INDEX)):
        server.scripts[f"/v2/{REPOSITORY}/manifests/{number}"] = whole(200, body, {"Content-Type": media_type})
        assert str(refusal(server, tag=str(number))).endswith("content contradicts its media type")


def test_an_honest_answer_after_all_of_this_is_read(server):
    server.holds("1", *honest())
    found = client(listed(server.port)).look_up(reference(server.port))
    assert found == ImageConfig(honest()[0].digest, {"CUDA_VERSION": "12.4.1"}, ("amd64",))

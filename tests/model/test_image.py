"""Image references are read as Docker reads them, and nothing else gets through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.strategies import checked
from webhook.model.image import ImageReference, parse_reference
from webhook.model.shape import FormatError

DIGEST = "sha256:" + "0123456789abcdef" * 4


@each(
    "text, expected",
    {
        "one word": ("python", ImageReference("docker.io", "library/python", "latest")),
        "with a tag": ("python:3.12", ImageReference("docker.io", "library/python", "3.12")),
        "in full": ("docker.io/library/python", ImageReference("docker.io", "library/python", "latest")),
        "without library": ("docker.io/python", ImageReference("docker.io", "library/python", "latest")),
        "Docker's old name": ("index.docker.io/ml/app:1", ImageReference("docker.io", "ml/app", "1")),
        "no host in it": ("nvidia/cuda:12.4.1", ImageReference("docker.io", "nvidia/cuda", "12.4.1")),
        "a host has a dot": ("ghcr.io/a/b/c:1", ImageReference("ghcr.io", "a/b/c", "1")),
        "localhost is a host": ("localhost/app", ImageReference("localhost", "app", "latest")),
        "a port is no tag": ("registry:5000/app", ImageReference("registry:5000", "app", "latest")),
        "a port and a tag": ("registry:5000/app:7", ImageReference("registry:5000", "app", "7")),
        "capitals are a host's": ("Registry/app", ImageReference("registry", "app", "latest")),
        "and mean nothing there": ("REGISTRY.corp/app", ImageReference("registry.corp", "app", "latest")),
        "an IPv6 address": ("[::1]:5000/app", ImageReference("[::1]:5000", "app", "latest")),
        "a digest needs no tag": (f"a/b@{DIGEST}", ImageReference("docker.io", "a/b", "", DIGEST)),
        "a tag and a digest": (f"a/b:1@{DIGEST}", ImageReference("docker.io", "a/b", "1", DIGEST)),
        "all separators": ("a/b__c.d-e---f", ImageReference("docker.io", "a/b__c.d-e---f", "latest")),
        "the longest name": ("a" * 255, ImageReference("docker.io", f"library/{'a' * 255}", "latest")),
    },
)
def test_what_docker_leaves_out_is_spelled_out(text, expected):
    assert parse_reference(text) == expected


NO_REFERENCES = [
    *[
        "",
        " python",
        "python:",
        "python:-1",
        "ml/App",
        "ml//app",
        "/app",
        "app/",
        "a___b",
        "a..b",
        "https://ghcr.io/a/b",
    ],
    *["registry.corp:port/app", "app@sha256:1180", "app@", f"app@{DIGEST}@{DIGEST}", f"app@{DIGEST}:1", "app:1\n"],
    *["app:١٢", "{{ .Values.image }}", f"python:{'a' * 129}", "a" * 256],
]


@pytest.mark.parametrize("text", NO_REFERENCES, ids=lambda text: text[:30])
def test_what_is_no_reference_is_refused_with_its_text(text):
    with pytest.raises(FormatError) as caught:
        parse_reference(text)
    assert str(caught.value).startswith(f'"{text[:50]}')
    assert " is not an image reference: " in str(caught.value)


@each(
    "text, expected",
    {
        "official": ("docker.io/library/python:3.12", "python"),
        "on Docker Hub": ("docker.io/ml/app", "ml/app"),
        "elsewhere": ("ghcr.io/library/app", "ghcr.io/library/app"),
    },
)
def test_the_familiar_name_leaves_docker_hub_out(text, expected):
    assert parse_reference(text).familiar == expected


@checked
@given(st.text(max_size=300) | st.text("abc.:/@-_0", max_size=60))
def test_any_text_is_a_reference_that_reads_the_same_again_or_a_named_error(text):
    try:
        reference = parse_reference(text)
    except FormatError:
        return
    assert parse_reference(str(reference)) == reference

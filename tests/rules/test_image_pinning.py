"""GPU containers name a version of their image, and one from a registry that the policy allows."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with
from tests.rules.samples import Cluster, container, messages, pod, settings_of, violations
from webhook.rules.image_pinning import RULE

DIGEST = "sha256:" + "0123456789abcdef" * 4


def said(image, values=None):
    return messages(RULE, pod({**container(gpus=1), "image": image}), values)


def is_allowed(image, *registries):
    return said(image, {"registries": list(registries)}) == []


@each(
    "image, found",
    {
        "no tag": ("pytorch/pytorch", '"pytorch/pytorch" has no tag, which means latest'),
        "latest": ("pytorch/pytorch:latest", '"pytorch/pytorch:latest" has the tag latest'),
        "a port is no tag": ("nvcr.io:443/a", '"nvcr.io:443/a" has no tag, which means latest'),
        "a long name": (
            "registry.example.com/" + "a" * 100,
            '"registry.example.com/' + "a" * 36 + '..." has no tag, which means latest',
        ),
    },
)
def test_an_image_that_may_be_another_one_tomorrow_is_refused(image, found):
    assert said(image) == [
        f"spec.containers[trainer].image: {found}; which image that is changes with every push. "
        "Write the tag of a version, or a digest."
    ]


@each(
    "image",
    {
        "a tag": "pytorch/pytorch:2.4.1",
        "a tag that starts with latest": "pytorch/pytorch:latest-cuda12",
        "a digest": f"pytorch/pytorch@{DIGEST}",
        "a digest beside latest": f"pytorch/pytorch:latest@{DIGEST}",
    },
)
def test_a_tag_or_a_digest_is_enough(image):
    assert said(image) == []


@pytest.mark.parametrize("image", ["python", "python:latest", "python:3.12"])
def test_a_policy_may_want_a_digest(image):
    assert said(image, {"require": "digest"}) == [
        f'spec.containers[trainer].image: "{image}" has no digest; the policy wants one, because a tag can be moved to '
        "another image. Append @sha256: and the digest of the image."
    ]
    assert said(f"{image}@{DIGEST}", {"require": "digest"}) == []


def test_an_image_from_elsewhere_is_refused(says):
    says(said("quay.io/x/y:1", {"registries": ["nvcr.io", "registry.example.com/team"]}))


def test_of_many_registries_a_message_names_the_first():
    (message,) = said("quay.io/x/y:1", {"registries": [f"r{number}.example.com" for number in range(9)]})
    assert "; the policy allows r0.example.com, r1.example.com, r2.example.com and 6 more. " in message


def test_both_faults_of_an_image_are_told_at_once():
    found = said("quay.io/x/y", {"registries": ["nvcr.io"]})
    assert ["has no tag" in found[0], "comes from quay.io" in found[1]] == [True, True]


@each(
    "image, registry",
    {
        "a registry": ("nvcr.io/nvidia/pytorch:24.05-py3", "nvcr.io"),
        "a registry in capitals": ("NVCR.IO/nvidia/pytorch:24.05-py3", "nvcr.io"),
        "a digest": (f"nvcr.io/nvidia/pytorch@{DIGEST}", "nvcr.io"),
        "below a path": ("registry.example.com/team/a/b:1", "registry.example.com/team"),
        "the path itself": ("registry.example.com/team:1", "registry.example.com/team"),
        "below a path, by a star": ("registry.example.com/team/a:1", "registry.example.com/team/*"),
        "a path with a wildcard": ("registry.example.com/team-a/x:1", "registry.example.com/team-?"),
        "a port": ("registry.corp:5000/a:1", "registry.corp:5000"),
        "localhost": ("localhost/a:1", "localhost"),
        "an address": ("[2001:db8::1]:5000/a:1", "[2001:db8::1]:5000"),
        "Docker Hub": ("python:3.12", "docker.io"),
        "official images of Docker Hub": ("python:3.12", "docker.io/library"),
        "another name of Docker Hub": ("index.docker.io/python:3.12", "docker.io/library/python"),
        "somebody's images on Docker Hub": ("nvidia/cuda:12.4.1-base", "docker.io/nvidia"),
        "hosts below a domain": ("a.b.example.com/x:1", "*.example.com"),
        "a region": ("1234.dkr.ecr.eu-west-1.amazonaws.com/x:1", "1234.dkr.ecr.*.amazonaws.com"),
        "anything": ("quay.io/x:1", "*"),
        "a path of any registry": ("quay.io/mirror/x:1", "*/mirror"),
    },
)
def test_a_registry_or_repository_covers_all_that_is_below_it(image, registry):
    assert is_allowed(image, "never.example.com", registry)


@each(
    "image, registry",
    {
        "a host that starts alike": ("nvcr.io.evil.io/nvidia/pytorch:1", "nvcr.io"),
        "a host that ends alike": ("evil-nvcr.io/nvidia/pytorch:1", "nvcr.io"),
        "another port": ("nvcr.io:5000/a:1", "nvcr.io"),
        "a path that looks like the host": ("evil.io/nvcr.io/a:1", "nvcr.io"),
        "a path that ends like the host": ("evil.io/a.example.com/x:1", "*.example.com"),
        "a path that looks like host and path": ("evil.io/nvcr.io/nvidia/x:1", "*nvcr.io/nvidia"),
        "a path that starts alike": ("registry.example.com/team-evil/a:1", "registry.example.com/team"),
        "the path elsewhere": ("registry.example.com/x/team/a:1", "registry.example.com/team"),
        "a shorter path": ("registry.example.com/te:1", "registry.example.com/team"),
        "the domain itself": ("example.com/a:1", "*.example.com"),
        "somebody's images on Docker Hub": ("nvidia/cuda:12", "docker.io/library"),
        "an official image without library": ("python:3.12", "docker.io/python"),
        "a dot is a dot": ("nvcrxio.dev/a:1", "nvcr.io.dev"),
    },
)
def test_what_only_looks_like_it_comes_from_elsewhere(image, registry):
    assert not is_allowed(image, registry)


@pytest.mark.parametrize(
    "image",
    ["Not An Image", "example.com/UPPER:1", "a@sha256:1", "python:", "/a:1", "a" * 4096, "x/" * 2048, ":" * 4096, "  "],
    ids=lambda image: repr(image[:20]),
)
def test_an_image_that_nobody_can_read_is_from_no_registry_and_otherwise_left_to_the_kubelet(image):
    assert said(image) == []
    assert said(image, {"require": "digest"}) == []
    (message,) = said(image, {"registries": ["*"]})
    shown = image if len(image) <= 60 else image[:57] + "..."
    assert message == (
        f'spec.containers[trainer].image: "{shown}" is not an image reference, so it is from no registry; '
        "the policy allows *. Write registry/repository:tag."
    )


@pytest.mark.parametrize("part", [{"image": ""}, {"image": None}, {}], ids=["empty", "null", "absent"])
def test_a_container_without_an_image_is_left_to_the_api_server(part):
    raw = container(gpus=1)
    del raw["image"]
    assert messages(RULE, pod({**raw, **part}), {"registries": ["nvcr.io"]}) == []


@each(
    "raw, places",
    {
        "no GPU": (pod({**container(), "image": "a"}), []),
        "a request for none": (pod({**container(gpus=0), "image": "a"}), []),
        "ephemeral": (pod(container(), ephemeralContainers=[{**container(gpus=1), "image": "a"}]), []),
        "init containers, sidecars and all vendors": (
            pod(
                {**container("a", 1), "image": "a"},
                {**container("b"), "image": "a"},
                {**container("c", 1, "amd.com/gpu"), "image": "a"},
                initContainers=[
                    {**container("i", 1), "image": "a"},
                    {**container("s", 1), "image": "a", "restartPolicy": "Always"},
                ],
            ),
            ["initContainers[i]", "initContainers[s]", "containers[a]", "containers[c]"],
        ),
    },
)
def test_containers_with_gpus_are_looked_at_and_no_others(raw, places):
    assert [f"spec.{place}.image" for place in places] == [violation.where for violation in violations(RULE, raw)]


def test_no_registry_is_asked():
    class Unasked(Cluster):
        def image(self, reference):
            raise AssertionError(reference)

    raw = pod({**container(gpus=1), "image": "a"})
    assert len(violations(RULE, raw, {"registries": ["nvcr.io"]}, Unasked())) == 2


ANY = (
    "is no registry or repository; write one such as nvcr.io or registry.example.com/team, in lower case, where * is "
    "any text and ? one character"
)


@each(
    "registry, fault",
    {
        "a URL": ("https://nvcr.io", "is a URL; write the host without https://"),
        "a tag": ("nvcr.io/nvidia/pytorch:24.05", "has a tag or a digest; write the registry or repository alone"),
        "a digest": (f"nvcr.io/a@{DIGEST}", "has a tag or a digest; write the registry or repository alone"),
        "a word": ("nvidia", "names no registry; one of Docker Hub starts with docker.io/"),
        "a repository": ("nvidia/cuda", "names no registry; one of Docker Hub starts with docker.io/"),
        "an old name of Docker Hub": ("index.docker.io/nvidia", "is another name of Docker Hub; write docker.io"),
        "its pages": ("hub.docker.com", "is another name of Docker Hub; write docker.io"),
        "its host": ("registry-1.docker.io", "is another name of Docker Hub; write docker.io"),
        "a URL of another scheme": ("oci://nvcr.io", "is a URL; write the host without oci://"),
        "nothing": ("", ANY),
        "no host": ("/team", ANY),
        "a slash at the end": ("nvcr.io/", "ends with a slash; leave it out"),
        "a slash at the end of a path": ("nvcr.io/nvidia/", "ends with a slash; leave it out"),
        "two slashes": ("nvcr.io//a", ANY),
        "two slashes in the path": ("nvcr.io/a//b", ANY),
        "capitals in the host": ("NVCR.io", ANY),
        "capitals in the path": ("nvcr.io/NVIDIA", ANY),
        "a space": ("nvcr.io ", ANY),
        "a class of characters": ("nvcr.[a-z]*", ANY),
        "no port": ("nvcr.io:port/a", ANY),
    },
)
def test_a_registry_that_no_image_can_be_from_is_an_error(registry, fault):
    shown = registry if len(registry) <= 60 else registry[:57] + "..."
    with pytest.raises(ValidationError) as caught:
        settings_of(RULE, {"registries": ["nvcr.io", registry]})
    (error,) = caught.value.errors()
    assert (("registries", 1), f'Value error, "{shown}" {fault}') == (error["loc"], error["msg"])


@pytest.mark.parametrize("values", [{"require": "tags"}, {"registries": "nvcr.io"}, {"registries": ["a." * 128]}])
def test_other_settings_are_errors(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


_REGISTRIES = st.sampled_from(("docker.io", "registry.example.com/mirror", "*.example.com", "*"))

CASE = RuleCase(
    pods=lambda raw: RulePods(breaks=container_with(raw, "image", "nvcr.io/nvidia/pytorch"), keeps=raw),
    values=any_of(require=st.sampled_from(("tag", "digest")), registries=st.lists(_REGISTRIES, max_size=2)),
    enforced={"registries": ["nvcr.io", "registry.example.com"]},
    fuzzed={"require": "tag", "registries": []},
)

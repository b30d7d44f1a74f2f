"""Attacks that reach an admission webhook through what it looks up, tried with a real registry: reviews of pods whose
images hold whatever their owner likes. The protocol itself is attacked in tests/images.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.build import container, pod, policies, request
from tests.images import images
from tests.images.docker_registry import PROGRAM, DockerRegistry, running
from tests.images.scripted import NAME, PATIENT, examples_are_here, listed
from webhook.admission import phases
from webhook.facts.facts import ClusterFacts
from webhook.images.allowlist import AllowList
from webhook.images.client import RegistryClient
from webhook.images.lookups import LookupService

__all__ = ["examples_are_here"]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no docker-registry here; .ci/tools installs it")

NODE = {
    "metadata": {
        "name": "t4",
        "labels": {
            "kubernetes.io/arch": "amd64",
            "nvidia.com/gpu.product": "Tesla-T4",
            "nvidia.com/cuda.driver-version.full": "470.256.02",
        },
    },
    "status": {"capacity": {"nvidia.com/gpu": "1"}},
}
KNOWING = {"unknown": "deny"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    directory = tmp_path_factory.mktemp("registry")
    with running(directory, directory / "storage") as registry:
        yield registry


@pytest.fixture
def looked_up(registry: DockerRegistry) -> Iterator[LookupService]:
    """Look-ups in that registry, with what little it takes to read an image."""
    allowed = AllowList([listed(registry.port)])
    found = LookupService(RegistryClient(allowed, None, replace(PATIENT, config_bytes=2_000_000)).look_up, allowed)
    found.start()
    yield found
    found.close()


def judged(image: str, found: LookupService, settings: dict[str, Any], **other: Any) -> Any:
    """The answer about a pod that runs the image."""
    spec = {"containers": [container("c0", limits={"nvidia.com/gpu": 1}, **other) | {"image": image}]}
    facts = ClusterFacts.of([NODE]).with_images(found)
    return phases.validate(request(pod(spec=spec)), policies({"cudaDriver": settings}), facts).answer


def pushed(registry: DockerRegistry, tag: str, config: images.Document) -> str:
    """An image of the registry with this configuration."""
    registry.push("mallory/image", tag, config, images.manifest(config))
    return f"{NAME}:{registry.port}/mallory/image:{tag}"


def with_env(*entries: object) -> images.Document:
    """A configuration with these entries as its environment."""
    return images.config(config={"Env": list(entries)})


# A10: what a registry says gets somebody around a rule, or crashes or exhausts whoever reads it.


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(images.Document(images.OCI_CONFIG, b""), id="nothing"),
        pytest.param(images.Document(images.OCI_CONFIG, b"[" * 1_000_000), id="deeper than anybody reads"),
        pytest.param(images.Document(images.OCI_CONFIG, b"\xff\xfe" * 1000), id="no text"),
        pytest.param(images.Document(images.OCI_CONFIG, b'{"a": ' + b"9" * 100_000 + b"}"), id="a very large number"),
        pytest.param(images.config(config=None), id="no environment"),
        pytest.param(images.config(config={"Env": {"CUDA_VERSION": "12.4.1"}}), id="an environment that is a map"),
        pytest.param(with_env(1, None, []), id="variables that are none"),
        pytest.param(with_env(*["CUDA_VERSION"] * 1000), id="variables without values"),
        pytest.param(with_env(*(f"NVIDIA_REQUIRE_{n}=cuda>=12" for n in range(40_000))), id="many variables"),
        pytest.param(with_env("CUDA_VERSION=" + "9" * 500_000), id="a version without an end"),
        pytest.param(with_env("CUDA_VERSION=" + "1." * 500), id="a version of many numbers"),
        pytest.param(with_env("CUDA_VERSION=\x1b[2J\n\u202e\ud800"), id="what would spoil a log"),
        pytest.param(with_env("NVIDIA_REQUIRE_CUDA=" + "cuda>=" * 600), id="half a requirement, many times"),
        pytest.param(with_env("CUDA_VERSION=none"), id="a word that only a policy has"),
        pytest.param(images.config({}, architecture="../../etc/passwd"), id="an odd architecture"),
    ],
)
def test_an_image_that_says_nonsense_counts_as_one_that_says_nothing(
    registry: DockerRegistry, looked_up: LookupService, config: images.Document
) -> None:
    """It passes while its registry is being asked, and is then refused where the policy wants to know."""
    image = pushed(registry, config.digest[7:27], config)
    assert judged(image, looked_up, KNOWING).is_allowed
    assert looked_up.wait(30)
    answer = judged(image, looked_up, KNOWING)
    assert not answer.is_allowed
    assert len(answer.message) < 2_000
    assert answer.message.isprintable()
    json.dumps(answer.message).encode()
    assert judged(image, looked_up, {}).is_allowed


@pytest.mark.parametrize(
    ("settings", "env", "is_allowed"),
    [
        pytest.param({}, {}, True, id="it counts where nobody else says anything"),
        pytest.param({"images": {"*/mallory/*": "13.0"}}, {}, False, id="the platform says otherwise"),
        pytest.param({}, {"CUDA_VERSION": "13.0"}, False, id="the pod says otherwise"),
    ],
)
def test_an_image_overrules_nobody_who_knows_better(
    registry: DockerRegistry, looked_up: LookupService, settings: dict[str, Any], env: dict[str, str], is_allowed: bool
) -> None:
    image = pushed(registry, "lies", images.config({"CUDA_VERSION": "11.4.0"}))
    variables = [{"name": name, "value": value} for name, value in env.items()]
    judged(image, looked_up, settings, env=variables)
    assert looked_up.wait(30)
    assert judged(image, looked_up, settings, env=variables).is_allowed == is_allowed

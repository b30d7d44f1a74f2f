"""The configuration of an image, reduced to the variables that say something about CUDA and the driver."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from webhook.images.lookup_errors import LookUpError
from webhook.images.registry_documents import PARSING, architecture_in, read_json

NAMES = frozenset(
    {
        "CUDA_VERSION",
        "NVARCH",
        "NVIDIA_DISABLE_REQUIRE",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_PYTORCH_VERSION",
        "NVIDIA_TENSORFLOW_VERSION",
        "NVIDIA_TRITON_SERVER_VERSION",
        "NV_CUDA_COMPAT_PACKAGE",
        "NV_CUDA_CUDART_VERSION",
        "TRITON_SERVER_VERSION",
        "_CUDA_COMPAT_PATH",
    }
)
PREFIX = "NVIDIA_REQUIRE_"
"""Each variable with it is a requirement of its own."""

LONGEST_NAME = 128
LONGEST_VALUE = 4096
"""Characters; NVIDIA_REQUIRE_CUDA has up to 3,000."""
MOST_CHARACTERS = 16 * 1024
"""In all names and values together."""


@dataclass(frozen=True, slots=True)
class Config:
    """The variables that matter, and the CPU architecture, empty where it is not said."""

    env: Mapping[str, str]
    architecture: str


def read_config(body: bytes | bytearray) -> Config:
    """What a configuration says; of a variable that is set twice, the last. Raises LookUpError."""
    with PARSING:
        found = read_json(body, "the image configuration")
        if found.get("os", "linux") != "linux":
            raise LookUpError("the image is not for Linux")
        inner = found.get("config") or {}
        if not isinstance(inner, dict):
            raise LookUpError("config in the image configuration is not a JSON object")
        return Config(MappingProxyType(_env(inner.get("Env") or [])), architecture_in(found.get("architecture")))


def _env(entries: object) -> dict[str, str]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise LookUpError("config.Env in the image configuration is not a list of strings")
    env: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not (name in NAMES or name.startswith(PREFIX)):
            continue
        if len(name) > LONGEST_NAME or len(value) > LONGEST_VALUE:
            raise LookUpError(
                f"the image configuration has a variable {name[:40]} whose name is longer than {LONGEST_NAME} or whose "
                f"value is longer than {LONGEST_VALUE} characters"
            )
        env[name] = value
    if sum(len(name) + len(value) for name, value in env.items()) > MOST_CHARACTERS:
        raise LookUpError(
            f"the image configuration has more than {MOST_CHARACTERS} characters in its variables about CUDA and NVIDIA"
        )
    return env

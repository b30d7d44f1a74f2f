"""The images of nvidia/cuda that are published for each CUDA version, as far as somebody has read.

Source: the Dockerfiles of gitlab.com/nvidia/container-images/cuda that are not at the end of their life (2025-08), the
last update of each version. NVIDIA deletes older updates.
"""

from dataclasses import dataclass

from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class PublishedImages:
    """One CUDA version: how its images name cuDNN, and the systems they exist for, with cuDNN and without only."""

    cuda: Version
    cudnn: str
    systems: tuple[str, ...]
    plain_systems: tuple[str, ...] = ()

    def system_like(self, wanted: str, *, with_cudnn: bool) -> str | None:
        """The system itself, else the newest release of the same distribution; None where there is none."""
        published = self.systems if with_cudnn else self.systems + self.plain_systems
        if wanted in published:
            return wanted
        family = wanted.rstrip("0123456789.")
        others = [system for system in published if system.rstrip("0123456789.") == family]
        return max(others, key=lambda system: float(system.removeprefix(family) or 0), default=None)


def _published(cuda: str, cudnn: str, systems: str, plain: str = "") -> PublishedImages:
    return PublishedImages(parse_version(cuda), cudnn, tuple(systems.split()), tuple(plain.split()))


_OLD = "centos7 rockylinux8 ubi7 ubi8 ubuntu20.04"
_FIRST_12 = f"{_OLD} rockylinux9 ubi9 ubuntu22.04"
_MIDDLE_12 = "rockylinux8 rockylinux9 ubi8 ubi9 ubuntu20.04 ubuntu22.04"
_LAST_12 = f"{_MIDDLE_12} ubuntu24.04 oraclelinux8 oraclelinux9"
_FIRST_13 = "opensuse15 oraclelinux8 oraclelinux9 rockylinux8 rockylinux9 ubi8 ubi9 ubuntu22.04 ubuntu24.04"

PUBLISHED: tuple[PublishedImages, ...] = (
    _published("13.0.0", "cudnn", _FIRST_13, "amzn2023 azl3 cm2 rockylinux10 ubi10"),
    _published("12.9.1", "cudnn", _LAST_12, "amzn2023 azl3 cm2"),
    _published("12.8.1", "cudnn", _LAST_12, "amzn2023 cm2"),
    _published("12.6.3", "cudnn", f"{_MIDDLE_12} ubuntu24.04", "amzn2023 cm2"),
    _published("12.5.1", "cudnn", _MIDDLE_12, "ubuntu24.04"),
    _published("12.4.1", "cudnn", _MIDDLE_12),
    _published("12.3.2", "cudnn9", _FIRST_12),
    _published("12.2.2", "cudnn8", _FIRST_12),
    _published("12.1.1", "cudnn8", _FIRST_12),
    _published("12.0.1", "cudnn8", _FIRST_12),
    _published("11.8.0", "cudnn8", f"{_OLD} ubuntu22.04"),
    _published("11.7.1", "cudnn8", f"{_OLD} ubuntu22.04"),
    _published("11.6.2", "cudnn8", _OLD),
    _published("11.5.2", "cudnn8", _OLD),
    _published("11.4.3", "cudnn8", _OLD),
)
"""The newest first."""

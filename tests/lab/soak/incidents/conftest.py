"""A whole installation, which incidents may break."""

from tests.doctor.fixtures import site, standing

__all__ = ["site", "standing"]

"""An installation that doctor looks at, in place of the one that storms are made for."""

from tests.doctor.fixtures import site, standing

__all__ = ["site", "standing"]

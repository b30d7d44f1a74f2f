"""The release of this program."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


@cache
def version() -> str:
    """The version, as in the chart's label app.kubernetes.io/version; empty if the package is not installed."""
    try:
        return installed_version("gpu-policy-webhook")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return ""

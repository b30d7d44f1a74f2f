"""Which release this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


@cache
def version() -> str:
    """The version, as the chart has it in the label app.kubernetes.io/version; empty where nothing is installed."""
    try:
        return installed_version("gpu-policy-webhook")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return ""

"""The labels with which GPU Feature Discovery tells the driver of a node, and what they become with another driver."""

from collections.abc import Mapping

from webhook.model.versions import Version

_DRIVER = "nvidia.com/cuda.driver-version"
_OLD_DRIVER = "nvidia.com/cuda.driver"
_RUNTIME = "nvidia.com/cuda.runtime-version"
_OLD_RUNTIME = "nvidia.com/cuda.runtime"

_DRIVER_WAYS = (
    (f"{_DRIVER}.full", f"{_DRIVER}.major", f"{_DRIVER}.minor", f"{_DRIVER}.revision"),
    ("", f"{_OLD_DRIVER}.major", f"{_OLD_DRIVER}.minor", f"{_OLD_DRIVER}.rev"),
)
_RUNTIME_WAYS = (
    (f"{_RUNTIME}.full", f"{_RUNTIME}.major", f"{_RUNTIME}.minor"),
    ("", f"{_OLD_RUNTIME}.major", f"{_OLD_RUNTIME}.minor"),
)
"""Present and deprecated names: of the whole version, then of its numbers. The deprecated ones have no whole."""


def with_driver(labels: Mapping[str, str], driver: Version, cuda: Version) -> dict[str, str | None]:
    """What changes in the labels of a node that gets another driver, whose newest CUDA is `cuda`.

    Names that the node has are kept, present or deprecated ones. A node with none of them gets them all: whoever asks
    knows the driver, although no label told it. Of a driver that is only a branch, such as 580, the other numbers are
    not known; their labels become None, which takes them away.

    >>> with_driver({"nvidia.com/cuda.driver.major": "535"}, Version((580,)), Version((13, 0)))
    {'nvidia.com/cuda.driver.major': '580', 'nvidia.com/cuda.driver.minor': None, 'nvidia.com/cuda.driver.rev': None}
    """
    is_told = any(name in labels for names in (*_DRIVER_WAYS, *_RUNTIME_WAYS) for name in names)
    changes: dict[str, str | None] = {}
    is_driver_told = any(name in labels for names in _DRIVER_WAYS for name in names)
    for ways, version in ((_DRIVER_WAYS, driver), (_RUNTIME_WAYS, cuda.cut(2))):
        for whole, *numbers in ways:
            if is_told and not any(name in labels for name in (whole, *numbers)):
                continue
            texts = str(version).split(".")
            is_whole = len(texts) > 1
            if whole:
                changes[whole] = str(version) if is_whole else None
            missing = "" if is_whole else None
            changes |= {name: texts[at] if at < len(texts) else missing for at, name in enumerate(numbers)}
        changes = {key: value for key, value in changes.items() if labels.get(key) != value}
        if is_driver_told and not changes:
            return {}  # it has this driver, and says itself what that runs
    return changes

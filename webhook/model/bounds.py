"""The most entries that lists and maps of a pod can have, and the largest size of unpacked data.

An object that no API server stores is refused before it is processed.

An API server stores a pod as one protobuf message (k8s.io/api/core/v1/generated.proto). Its etcd client sends at most
2 MiB (`defaultMaxCallSendMsgSize` of etcd's clientv3), whatever etcd accepts; etcd accepts 1.5 MiB unless
`--max-request-bytes` says otherwise. So a list has at most as many entries as the smallest entries that fit into 2 MiB.
In the message an entry takes 2 bytes for its tag and its length, and its mandatory fields: a text takes 2 bytes beside
its characters, a number or a boolean 2. The largest manifests that people write have a few thousand entries in all.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

STORABLE = 2 * 1024**2
"""Most bytes of a pod that an API server can store."""

_CONTAINER = 50
"""A name and an image of one letter each, and the defaults of the API server: the path and the policy of the
termination message, the policy of pulling images, empty resources and four booleans."""

_EXPRESSION = 9
"""A key of one letter and an operator of two."""

_VALUE = 2
"""An empty text."""

SMALLEST: Mapping[str, int] = {
    "initContainers": _CONTAINER,
    "containers": _CONTAINER,
    "ephemeralContainers": _CONTAINER,
    "env": 7,  # a name of one letter and an empty value
    "envFrom": 9,  # an empty prefix and a reference to a name of one letter
    "volumeMounts": 14,  # a name, a path, two empty paths and a boolean
    "volumes": 9,  # a name and an empty emptyDir
    "tolerations": 12,  # a key of one letter and three empty texts
    "nodeSelectorTerms": 11,  # one expression; a term without any selects nothing
    "preferredDuringSchedulingIgnoredDuringExecution": 11,  # as above
    "matchExpressions": _EXPRESSION,
    "matchFields": _EXPRESSION,
    "values": _VALUE,
}
"""List of a pod -> least bytes that one entry takes in storage. An entry of any other list takes at least 2."""

MOST: Mapping[str, int] = {key: STORABLE // size for key, size in SMALLEST.items()}
"""List of a pod -> most entries that it can have."""

FEWEST = min(MOST.values())
"""A list with at most this many entries is never too long, so MOST is not needed for it."""

MOST_OF_ANY_LIST = STORABLE // 2

MOST_OF_A_MAP = STORABLE // 7
"""An entry takes 2 bytes, its key of one letter 3, its empty value 2."""

MOST_OPERATIONS = 10_000
"""Most operations of a JSON Patch that a client may send (`maxJSONPatchOperations` of k8s.io/apiserver)."""

LONGEST_PATCH = 3 * 1024**2
"""Most bytes of a JSON Patch: `MaxRequestBodyBytes` of k8s.io/apiserver. Our patches only add, so an object with a
longer patch would be too large for the API server."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_OF_A_CONTAINER = tuple((key, SMALLEST[key]) for key in ("env", "volumeMounts", "envFrom"))
_OF_A_POD = tuple((key, SMALLEST[key]) for key in ("volumes", "tolerations"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OF_A_TERM = ("matchExpressions", "matchFields")


def least_stored(spec: Mapping[str, Any]) -> int:
    """Least bytes that the lists of a pod's spec take in storage; parts of an unexpected shape count 0.

    >>> least_stored({"containers": [{"env": [{}, {}]}, {}], "tolerations": None})
    114
    """
    total = 0
    for key, size in _OF_A_POD:
        if (found := spec.get(key)).__class__ is list:
            total += len(found) * size
    for key in _CONTAINERS:
        containers = spec.get(key)
        if containers and containers.__class__ is list:
            total += len(containers) * _CONTAINER + _of_containers_parts(containers)
    affinity = spec.get("affinity")
    return total + _of_affinity(affinity) if affinity else total


def _of_containers_parts(containers: Sequence[object]) -> int:
    total = 0
    for container in containers:
        if isinstance(container, dict):
            for part, size in _OF_A_CONTAINER:
                found = container.get(part)
                if found and found.__class__ is list:
                    total += len(found) * size
    return total


def too_long(spec: Mapping[str, Any]) -> tuple[str, int, int]:
    """The first list of a spec or its containers that is too long: its place, its entries, and the most allowed.

    If no list is too long, the answer is about the first list.
    """
    own = [(key, len(_listed(spec, key)), MOST[key]) for key in (*_CONTAINERS, "volumes", "tolerations")]
    found = (one for one in chain(own, _of_containers(spec)) if one[1] > one[2])
    return next(found, own[0])


def _of_containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    for key in _CONTAINERS:
        for at, container in enumerate(_listed(spec, key)):
            if isinstance(container, dict):
                name = container.get("name")
                where = f"{key}[{name if name and isinstance(name, str) else at}]"
                for part, _ in _OF_A_CONTAINER:
                    yield f"{where}.{part}", len(_listed(container, part)), MOST[part]


def _terms(nodes: object) -> Iterator[object]:
    """The terms of a node affinity, whatever their shape."""
    if isinstance(nodes, dict):
        required = nodes.get(_REQUIRED)
        if isinstance(required, dict):
            yield from _listed(required, "nodeSelectorTerms")
        for preferred in _listed(nodes, _PREFERRED):
            yield preferred.get("preference") if isinstance(preferred, dict) else None


def _of_affinity(affinity: object) -> int:
    total = 0
    for term in _terms(affinity.get("nodeAffinity") if isinstance(affinity, dict) else None):
        total += 2
        if not isinstance(term, dict):
            continue
        for key in _OF_A_TERM:
            found = term.get(key)
            if found and found.__class__ is list:
                total += len(found) * _EXPRESSION
                for expression in found:
                    if expression.__class__ is dict and (values := expression.get("values")).__class__ is list:
                        total += len(values) * _VALUE
    return total


def _listed(parent: Mapping[str, Any], key: str) -> list[Any]:
    found = parent.get(key)
    return found if isinstance(found, list) else []


def unzipped(packed: bytes, most: int) -> bytes:
    """Unpack gzip data of at most `most` bytes when unpacked.

    Raises ValueError where the data is larger or cut off, and zlib.error where it is not gzip.
    """
    unzip = zlib.decompressobj(wbits=31)
    text = unzip.decompress(packed, most)
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError(f"it is cut off, or larger than {most} bytes when unpacked")
    return text

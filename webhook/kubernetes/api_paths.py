"""Paths at the API server, with all parts quoted, so that none can lead elsewhere; and the body of a deletion."""

from typing import Any
from urllib.parse import quote

CORE = "/api/v1"
"""The start of paths of kinds without a group."""


def path_of(api: str, resource: str, *, namespace: str | None = None, name: str = "") -> str:
    """The path of the objects of a kind, of one namespace or of all (None), or of one object.

    `api` is the start of the path, "/api/v1" or "/apis/GROUP/VERSION". ValueError for a namespace or name that
    cannot be part of a path.

    >>> path_of(CORE, "pods", namespace="team a"), path_of(CORE, "nodes", name="gpu-0")
    ('/api/v1/namespaces/team%20a/pods', '/api/v1/nodes/gpu-0')
    """
    place = "" if namespace is None else f"/namespaces/{segment(namespace)}"
    return f"{api}{place}/{segment(resource)}" + (f"/{segment(name)}" if name else "")


def segment(text: str) -> str:
    """One part of a path. ValueError for an empty text, and for `.` and `..`, whose meaning no quoting can remove.

    >>> segment("a/../b")
    'a%2F..%2Fb'
    """
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} cannot be part of a path at the API server; write the name of an object")
    return quote(text, safe="")


def delete_options(version: str, uid: str = "") -> dict[str, Any]:
    """The body that deletes an object only in this version, and with `uid` only the object with this uid."""
    preconditions = {"resourceVersion": version, **({"uid": uid} if uid else {})}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}

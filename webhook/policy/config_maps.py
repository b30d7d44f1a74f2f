"""ConfigMaps of policies: the files that the kubelet will write from one, and what is wrong with them.

Several ConfigMaps may be mounted into the directory of policies, and others may be changing at the same moment. A
mistake is certain if it is there both with and without the other ConfigMaps. A mistake that is there only together with
them is a doubt.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webhook.model.shape import ShapeError, SizeError, entries, shortened, text
from webhook.policy.directory import Contents, contents_of
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet
from webhook.policy.policy_store import losses, removals
from webhook.policy.schema import CUDA_FILE, DEFAULT_FILE
from webhook.yaml_files.file_errors import FileError, FileErrors
from webhook.yaml_files.yaml_lines import count_values

MOST_VALUES = 50_000
"""Keys and values in all files, with aliases expanded, up to which files are checked. Policies for some hundred
namespaces have as many."""

MOST_INHERITED = 16 * 2**20
"""Bytes of `_default.yaml` times the number of files, up to which files are checked. Each file keeps a copy of what it
inherits. Allows a default of 20 KiB for 800 files."""

MOST_STORED = 2**20
"""Bytes of all values of a ConfigMap that an API server stores (MaxSecretSize in pkg/apis/core/validation)."""

_KEY = re.compile(r"(?!\.\.?\Z)(?!\.\.)[-._a-zA-Z0-9]{1,253}")
"""Keys that an API server accepts (IsConfigMapKey in k8s.io/apimachinery/pkg/util/validation)."""
_SHOWN = 60

_HERE = Path()
"""Errors call files by the keys of the ConfigMap."""

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in the files of a ConfigMap. Each part is sorted by file and line.

    `errors` are certain. `doubts` are mistakes together with other ConfigMaps, as they are mounted now, and reasons why
    running replicas do not use these files. `notices` are about settings without effect, and the like. `unchecked` says
    why nothing was checked; it is empty if the files were checked.
    """

    errors: tuple[FileError, ...] = ()
    doubts: tuple[FileError, ...] = ()
    notices: tuple[str, ...] = ()
    unchecked: str = ""


def files_of(config_map: Mapping[str, Any], items: Sequence[Mapping[str, Any]] = ()) -> dict[str, bytes]:
    """The files that a volume with a ConfigMap has, by name: all keys, or the `items` of the volume, if it has any.

    Raises ShapeError for a ConfigMap that no API server stores.
    """
    contents: dict[str, bytes] = {}
    size = 0
    for key, content in _contents(config_map):
        if not _KEY.fullmatch(key):
            raise ShapeError(key, "keys of up to 253 letters, digits and - _ .", "data", shortened(key, _SHOWN))
        size += len(content)
        if size > MOST_STORED:
            most = f"{MOST_STORED}, since no API server stores more"
            raise SizeError(f"more than {MOST_STORED} bytes", most, "data")
        contents[key] = content
    if not items:
        return contents
    return {item["path"]: contents[item["key"]] for item in items if item["key"] in contents}


def _contents(config_map: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    for key, value in entries(config_map.get("data"), "data").items():
        yield key, text(value, "data", key).encode()
    for key, value in entries(config_map.get("binaryData"), "binaryData").items():
        written = text(value, "binaryData", key)
        try:
            yield key, base64.b64decode(written)
        except ValueError:
            raise ShapeError(value, "base64", "binaryData", key) from None


def check_files(new: Files, old: Files, mounted: Contents, current: PolicySet, now: float | None = None) -> Checked:
    """What is wrong with the files of a ConfigMap that is about to change from `old` to `new`.

    `mounted` is the whole directory now, which may be a minute or two behind. `current` are the policies in use. `now`
    is as in `webhook.policy.loader.build`.
    """
    others = {name: content for name, content in mounted.files if name not in new and old.get(name) != content}
    together = {**others, **new}
    if unchecked := _too_much(together):
        return Checked(unchecked=unchecked)
    found = _built(together, current, now)
    if not others:
        return found
    alone = {(error.path, error.line, error.key) for error in _errors_of(new, now)}
    certain = [error for error in found.errors if (error.path, error.line, error.key) in alone]
    doubts = [*(error for error in found.errors if error not in certain), *found.doubts]
    # files of other ConfigMaps with the names of this one's: of two files of one name, the later mount wins
    shadows = {name: here for name, here in mounted.files if name in new and here not in (new[name], old.get(name))}
    if doubts and shadows:
        otherwise = _built({**together, **shadows}, current, now)
        doubts = [doubt for doubt in doubts if doubt in (*otherwise.errors, *otherwise.doubts)]
    return Checked(
        errors=tuple(certain),
        doubts=tuple(doubts),
        notices=tuple(notice for notice in found.notices if notice.partition(":")[0] in {*new, *old}),
    )


def _too_much(files: Files) -> str:
    """Why the files take too long to check while the API server waits; empty if they do not."""
    inherited = len(files.get(DEFAULT_FILE, b"")) * len(files)
    if inherited > MOST_INHERITED:
        return f"{DEFAULT_FILE} times the files that may inherit it is more than {MOST_INHERITED} bytes"
    left = MOST_VALUES
    for content in files.values():
        left -= 1 + count_values(content, left)
        if left < 0:
            return f"together the policies have more than {MOST_VALUES} keys and values"
    return ""


def _built(files: Files, current: PolicySet, now: float | None) -> Checked:
    try:
        contents = contents_of(_HERE, files)
        policies = build(contents, now=now)
    except FileErrors as error:
        return Checked(errors=tuple(replace(one, path="") if one.path == str(_HERE) else one for one in error.errors))
    removed = [text for text, _ in removals(current, policies)]
    return Checked(doubts=tuple(losses(current, policies, contents)), notices=(*policies.notices, *removed))


def _errors_of(files: Files, now: float | None) -> Sequence[FileError]:
    """What is wrong with files if they are a part of the directory, whatever the other files say."""
    try:
        contents = contents_of(_HERE, files)
    except FileErrors:
        return ()  # no policy file is among them
    try:
        build(contents, elsewhere={DEFAULT_FILE, CUDA_FILE} - files.keys(), now=now)
    except FileErrors as error:
        return error.errors
    return ()

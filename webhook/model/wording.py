"""Wording that messages share: amounts, plurals, short lists, and suggestions for misspelled words.

Long texts are cut between words, and sentences end with one full stop.
"""

import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from webhook.model.quantity import BINARY_UNITS, format_bytes
from webhook.model.shape import shortened

_SHOWN = 3
"""Most values that a list names."""
_LONGEST = 80
"""Most characters of a value in a message: values of labels have at most 63."""
_COMPARED = 64
"""Most existing values that are compared; if there are more, the values that begin alike."""
_LIKENESS = 0.75
"""Least similarity, from 0 to 1 as difflib measures it: slips of the pen are above it, other products below."""
_SHORT = 6
"""Most characters of a size that is not rounded, such as 1000Gi."""

PLATFORM_TEAM = "the platform team"
"""The contact in messages where the policy names no contact."""
_ENABLE = f"Ask {PLATFORM_TEAM} to enable them"

_WORD = re.compile(r"[a-z0-9]+")


def cut(text: str, most: int = _LONGEST) -> str:
    """The text, or the beginning of a long text; two quotes for an empty text."""
    return shortened(text, most) or '""'


def counted(number: int, what: str, several: str = "") -> str:
    """A number of things; `several` is the plural of `what` if it takes more than an s.

    >>> counted(1, "node"), counted(2, "node"), counted(0, "policy", "policies")
    ('1 node', '2 nodes', '0 policies')
    """
    return f"{number} {what if number == 1 else several or what + 's'}"


def closest(written: str, choices: Iterable[str]) -> str:
    """The choice that is spelled most like `written`, ignoring case; empty where none is similar.

    >>> closest("Enfore", ["enforce", "warn"]), closest("gpu", ["enforce", "warn"])
    ('enforce', '')
    """
    lowered = {choice.lower(): choice for choice in choices}
    return next((lowered[one] for one in get_close_matches(written.lower(), lowered, n=1)), "")


def hint(written: str, choices: Iterable[str]) -> str:
    """A suggestion of the most similar choice, as the end of an error; empty where none is similar.

    >>> hint("enfore", ["enforce", "warn"])
    '; did you mean enforce?'
    """
    found = closest(written, choices)
    return f"; did you mean {found}?" if found else ""


def few(values: Sequence[str], most: int = _LONGEST) -> str:
    """The first of these values, and how many more there are. Each is cut to `most` characters.

    >>> few(["a"]), few(["a", "b"]), few(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    shown = [cut(value, most) for value in values[:_SHOWN]]
    if len(values) > _SHOWN:
        return f"{', '.join(shown)} and {len(values) - _SHOWN} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part) if shown else "none"


def nearest(written: str, existing: Sequence[str]) -> str | None:
    """The existing value that is most likely meant; None where none is similar. `existing` is sorted.

    >>> nearest("NVIDIA-A100-SXM-80GB", ["NVIDIA-A100-SXM4-80GB", "Tesla-T4"])
    'NVIDIA-A100-SXM4-80GB'
    >>> nearest("a100", ["NVIDIA-A100-SXM4-80GB", "Tesla-T4"])
    'NVIDIA-A100-SXM4-80GB'
    """
    if len(existing) > _COMPARED:
        place = max(bisect(existing, written) - _COMPARED // 2, 0)
        existing = existing[place : place + _COMPARED]
    lowered = {value.lower(): value for value in existing}
    wanted = written[: 2 * _LONGEST].lower()
    close = get_close_matches(wanted, lowered, n=1, cutoff=_LIKENESS)
    if close:
        return lowered[close[0]]
    words = set(_WORD.findall(wanted))
    return next((value for low, value in lowered.items() if words and words <= set(_WORD.findall(low))), None)


def one_slip_away(written: str, existing: Sequence[str]) -> str:
    """The existing value that differs by one slip from what was written; empty for none. `existing` is sorted.

    A slip is a character that is missing, too much or another, or two neighbours in the wrong order. Unlike `nearest`,
    it takes little time for texts of any length, which somebody may have made up in order to be slow to compare.

    >>> one_slip_away("singel-gpu", ["eight-gpus", "single-gpu"]), one_slip_away("gpu", ["eight-gpus", "gpus"])
    ('single-gpu', 'gpus')
    """
    place = bisect(existing, written)
    near = existing[max(place - _COMPARED // 2, 0) : place + _COMPARED // 2]
    return next((value for value in near if abs(len(value) - len(written)) <= 1 and _is_slip(written, value)), "")


def _is_slip(written: str, value: str) -> bool:
    pairs = zip(written, value, strict=False)
    start = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(written), len(value)))
    mine, other = written[start:], value[start:]
    changed = mine[1:] == other[1:] or mine[1:] == other or mine == other[1:]
    return changed or (mine[:2] == other[1::-1] and mine[2:] == other[2:])


def not_enabled(namespace: str) -> tuple[str, str]:
    """The rule and the remedy for a namespace to which a policy gives no GPUs.

    >>> not_enabled("web")
    ('GPUs are not enabled in namespace web', 'Ask the platform team to enable them')
    """
    return f"GPUs are not enabled in {f'namespace {cut(namespace)}' if namespace else 'this namespace'}", _ENABLE


def is_size(resource: str) -> bool:
    """Whether amounts of a resource are bytes: of memory, huge pages and disks."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def asked(resource: str, amount: int) -> str:
    """An amount of a resource that a pod requests, with its name; a long size is rounded up.

    >>> asked("nvidia.com/gpu", 16), asked("cpu", 1500), asked("memory", 64 * 2**30 + 1)
    ('16 nvidia.com/gpu', '1.5 cpu', '64.1Gi of memory')
    """
    if is_size(resource):
        return f"{_size(amount, is_rounded_up=True)} of {cut(resource)}"
    return f"{_cores(amount) if resource == 'cpu' else amount} {cut(resource)}"


def offered(resource: str, amount: int) -> str:
    """An amount of a resource on a node, without its name; a long size is rounded down, so that a pod can request it.

    >>> offered("nvidia.com/gpu", 8), offered("cpu", 95500), offered("memory", 65_425_132 * 1024)
    ('8', '95.5', '62.3Gi')
    """
    if is_size(resource):
        return _size(amount, is_rounded_up=False)
    return _cores(amount) if resource == "cpu" else str(amount)


def _cores(millicores: int) -> str:
    whole, rest = divmod(millicores, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def _size(size: int, *, is_rounded_up: bool) -> str:
    exact = format_bytes(size)
    scale, unit = next(((scale, unit) for scale, unit in BINARY_UNITS if scale <= size), (1, ""))
    if len(exact) <= _SHORT or not unit:
        return exact
    whole, tenths = divmod(-(-size * 10 // scale) if is_rounded_up else size * 10 // scale, 10)
    return f"{whole}.{tenths}{unit}" if tenths else f"{whole}{unit}"


_LONGEST_WORD = 30
"""Most characters that are dropped to cut between words; a longer word, such as an image's name, is cut."""
_TRAILING = " .,;:([{\"'"
"""Characters that no text ends with before the dots."""


def ended(text: str) -> str:
    """The text as a sentence: it ends with a full stop, or with dots for an omission.

    >>> ended("Drop it"), ended("is a..."), ended("Drop it.")
    ('Drop it.', 'is a...', 'Drop it.')
    """
    return text if text.endswith(".") else f"{text}."


def cut_at_a_word(text: str, most: int) -> str:
    """The beginning of a text that is longer than `most` characters, with dots for the rest.

    >>> cut_at_a_word("it can use up the memory; of its node", 27), cut_at_a_word("none", 4)
    ('it can use up the memory...', 'none')
    """
    if len(text) <= most:
        return text
    kept = text[: max(most - 3, 0)]
    whole = kept if text[len(kept)] in " ,;" else kept.rpartition(" ")[0]
    words = whole if len(kept) - len(whole) <= _LONGEST_WORD else kept
    return f"{words.rstrip(_TRAILING)}..."

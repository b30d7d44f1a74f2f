"""Counts what the webhook does, in operations that no machine changes: elements looked at, copied, hashed and compared.

Lines or calls alone would miss the loops that Python runs in C: `x in values` of a tuple, `(*a, *b)`, the hash of a
tuple in a key. So every module of the webhook is compiled with its calls, loops, comparisons, displays and operators
wrapped, each of which is charged with the size of what it works on. What is not known to be cheap is charged in full.

`install` has to be called before the first import of the webhook, so counting is done in a process of its own.
"""

import builtins
import functools
import importlib.abc
import importlib.machinery
import itertools
import sys
import types
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from tests.lab.growth.charged_code import PREFIX, compiled

_COUNTED = ("webhook",)
_APART = frozenset({"webhook.admission.watchdog", "webhook.admission.memory_budget"})
"""The first works in a thread of its own, by the clock; the second goes through the bytes of large bodies a few times,
as the parser of JSON does, and not through those of small ones."""

_CHEAP = frozenset(
    [
        "__new__",
        "__setattr__",
        "__getattribute__",
        "append",
        "appendleft",
        "bit_count",
        "bit_length",
        "callable",
        "clear",
        "cast",
        "get_ident",
        "getattr",
        "hasattr",
        "id",
        "isinstance",
        "issubclass",
        "items",
        "iter",
        "keys",
        "len",
        "loads",
        "monotonic",
        "next",
        "perf_counter",
        "pop",
        "popleft",
        "range",
        "read",
        "slice",
        "thread_time",
        "type",
        "values",
        "startswith",
        "endswith",
        "groups",
        "group",
        "start",
        "end",
        "acquire",
        "release",
        "warn",
        "debug",
        "isEnabledFor",
    ]
)
"""C functions that cost the same whatever they are given."""
_KEYED = frozenset(["add", "discard", "get", "setdefault", "__contains__"])
"""Those that hash what they are given, and nothing else."""
_GROWING = frozenset(["update", "extend", "difference_update", "join"])
"""Those that cost what they are given, however large what they belong to is."""
_LAZY = (map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice, itertools.repeat)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, types.MappingProxyType)
_TEXTS = (str, bytes, bytearray)
_BUILT_IN = (*_CONTAINERS, *_TEXTS, int, Counter)
_SCANNED = (list, tuple, str, bytes, deque, type({}.values()))

_count = 0


def count() -> int:
    """Operations so far."""
    return _count


def install() -> None:
    """From now on count what imported modules of the webhook do."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in _COUNTED]
    if loaded:
        raise RuntimeError(f"{loaded[0]} is imported already and would not be counted")
    for charge in (call, tick, contains, equal, key, sized, consumed, grown, forgetful):
        setattr(builtins, PREFIX + charge.__name__, charge)
    sys.meta_path.insert(0, _Finder())


def forgetful(maxsize: Any = None) -> Any:
    """Takes the place of `lru_cache`: what is remembered depends on who asked before, and on the room."""

    def forgetting(function: Any) -> Any:
        @functools.wraps(function)
        def asked(*args: Any, **kwargs: Any) -> Any:
            _charge(sum(map(_depth, args)) + sum(map(_depth, kwargs.values())))
            return function(*args, **kwargs)

        asked.cache_clear = lambda: None
        return asked

    return forgetting(maxsize) if callable(maxsize) else forgetting


def _charge(operations: int) -> None:
    global _count  # noqa: PLW0603  # one counter for the process
    _count += operations


def _size(value: object) -> int:
    """How many elements a value has by itself."""
    if isinstance(value, (*_CONTAINERS, *_TEXTS)):
        return len(value)
    return value.bit_length() // 30 if isinstance(value, int) else 1


def _depth(value: object) -> int:
    """How many elements are hashed or compared with a value."""
    if isinstance(value, (tuple, frozenset, list)):
        return 1 + sum(map(_depth, value))
    if isinstance(value, dict):
        return 1 + sum(map(_depth, value.values()))
    if is_dataclass(value) and not isinstance(value, type) and value.__dataclass_params__.eq:
        if "_hash" in getattr(value, "__slots__", ()):
            return 1
        return 1 + sum(_depth(getattr(value, field.name)) for field in fields(value) if field.compare)
    return 1


def tick() -> bool:
    """One turn of a loop."""
    _charge(1)
    return True


def contains(item: Any, container: Any) -> bool:
    """`item in container`."""
    if isinstance(container, _SCANNED):
        found = item in container
        if isinstance(container, (list, tuple)) and found:
            _charge(next(at for at, one in enumerate(container, start=1) if one is item or one == item))
        else:
            _charge(1 + len(container))
        return found
    _charge(_depth(item))
    return item in container


def equal(one: Any, other: Any) -> bool:
    """`one == other`."""
    if one is not other and type(one) is type(other) and isinstance(one, (str, bytes)):
        _charge(1 + (min(len(one), len(other)) if len(one) == len(other) else 0))
    elif type(one) is type(other):
        _charge(min(_depth(one), _depth(other)))
    else:
        _charge(1)
    return one == other


def key(value: Any) -> Any:
    """What a dict or set is asked with."""
    _charge(_depth(value))
    return value


def sized(value: Any) -> Any:
    """What an operator or a display made."""
    _charge(1 + _size(value))
    return value


def grown(value: Any) -> None:
    """What `+=` made, where that is a copy."""
    _charge(1 + (_size(value) if isinstance(value, (*_TEXTS, tuple, int)) else 0))


def consumed(value: Any) -> Any:
    """What `yield from` goes through."""
    _charge(1 + (len(value) if isinstance(value, _CONTAINERS) else 0))
    return value


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`."""
    _charge(1 + len(args) + len(kwargs))
    if function in _LAZY if isinstance(function, type) else getattr(function, "__self__", None) is itertools.chain:
        return _ticking(function(*args, **kwargs))
    if isinstance(function, type) and function not in _BUILT_IN:
        return function(*args, **kwargs)
    if isinstance(function, (types.FunctionType, types.MethodType)) and _is_counted(function):
        return function(*args, **kwargs)
    _charge_foreign(function, args, kwargs)
    result = function(*args, **kwargs)
    if getattr(function, "__name__", "") not in _CHEAP | _KEYED:
        _charge(_size(result))
    return result


def _charge_foreign(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What a function is charged with whose own operations are not counted."""
    name, subject = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if function is get_close_matches:
        _charge(len(args[0]) * sum(map(len, args[1])))
    elif name in _CHEAP:
        return
    elif name in _KEYED:
        _charge(_depth(args[0]) if args else 0)
    elif name in _GROWING:
        _charge(sum(map(_size, args)))
    else:
        _charge(sum(map(_size, args)) + sum(map(_size, kwargs.values())) + _size(subject))


def _is_counted(function: Any) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] in _COUNTED


def _ticking(values: Any) -> Iterator[Any]:
    for value in values:
        _charge(1)
        yield value


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] not in _COUNTED or name in _APART:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path)

"""The rules in the words of SARIF, from their promises and what their modules say of them."""

import sys
from collections.abc import Iterable
from typing import Any

from webhook.rules import RULES
from webhook.rules.rule import Rule

_LONGEST = 1024
"""Characters that GitHub allows in a description."""
_MODES = (
    "Each rule has a mode in the policy of a namespace: enforce injects or refuses, warn says in a warning what it "
    "would do, audit only records it, disabled does nothing. `gpu-policy policy show NAMESPACE` prints what applies to "
    "a namespace and where it comes from."
)


def descriptors(found: Iterable[str]) -> list[dict[str, Any]]:
    """Every rule of the product, then those that findings name besides."""
    known = {rule.key for rule in RULES}
    return [*map(_described, RULES), *(_unknown(key) for key in dict.fromkeys(found) if key not in known)]


def _described(rule: Rule) -> dict[str, Any]:
    story = _story(rule)
    return _descriptor(rule.key, rule.promise, story, f"{story}\n\n{_MODES}")


def _unknown(key: str) -> dict[str, Any]:
    text = key or "unnamed"
    return _descriptor(key, text, text, _MODES)


def _descriptor(key: str, short: str, full: str, story: str) -> dict[str, Any]:
    return {
        "id": key,
        "name": key[:255],
        "shortDescription": {"text": short[:_LONGEST]},
        "fullDescription": {"text": full[:_LONGEST]},
        "help": {"text": story},
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["gpu", "kubernetes"], "precision": "very-high", "problem.severity": "error"},
    }


def _story(rule: Rule) -> str:
    """What the module of the rule says, in one line for each paragraph."""
    text = (sys.modules[rule.settings.__module__].__doc__ or rule.promise).strip()
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))

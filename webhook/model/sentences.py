"""Sentences that fit: cut between words where they must be cut, and ended by one full stop."""

import re
from collections.abc import Iterator

_LONGEST_WORD = 30
"""Characters that are left out so that no word is cut; a longer word, such as an image's name, is cut itself."""

_BRANCH = re.compile(r", or (?!none,)|, which |, unless |; ")
"""What begins a part of a remedy without which the rest of it is still a sentence."""

_LOOKED_AT = 300
"""Characters of a remedy in which it is divided; no warning has room for more."""

_OMISSION = " [...]"


def ended(text: str) -> str:
    """The text as a sentence: with a full stop, unless it has one, or the dots of what was left out.

    >>> ended("Drop it"), ended("is a..."), ended("Drop it.")
    ('Drop it.', 'is a...', 'Drop it.')
    """
    return text if text.endswith(".") else f"{text}."


def cut_at_a_word(text: str, most: int) -> str:
    """The beginning of a text that is longer than `most` characters, with dots for the rest.

    >>> cut_at_a_word("it can use up the memory; of its node", 27), cut_at_a_word("none", 4)
    ('it can use up the memory...', 'none')
    """
    return text if len(text) <= most else f"{_words(text, most - 3)}..."


def fitted(text: str, most: int) -> str:
    """A text as a sentence of at most `most` characters before another one: its end is a full stop, or dots."""
    sentence = ended(text)
    return sentence if len(sentence) <= most else f"{_words(text, most - 3)}..."


def cut_sentence(text: str, most: int) -> str:
    """A text as a sentence of at most `most` characters, with an omission that is told from its full stop.

    >>> cut_sentence("Use another image, or an older one", 28)
    'Use another image, or [...].'
    """
    sentence = ended(text)
    return sentence if len(sentence) <= most else _words(text, most - len(_OMISSION) - 1) + _OMISSION + "."


def _words(text: str, most: int) -> str:
    """The words that fit; of what is one word, as much as fits."""
    kept = text[: max(most, 0)]
    whole = kept if text[len(kept) : len(kept) + 1] in ("", " ", ",", ";") else kept.rpartition(" ")[0]
    return (whole if len(kept) - len(whole) <= _LONGEST_WORD else kept).rstrip(" .,;:([{\"'")


def shorter(remedy: str) -> Iterator[str]:
    """The remedy, and then what is left of it without its last alternatives.

    >>> list(shorter("Use A, or install B, which is new"))
    ['Use A, or install B, which is new', 'Use A, or install B', 'Use A']
    """
    while remedy:
        yield remedy
        remedy = remedy[:_LOOKED_AT]
        remedy = remedy[: max((branch.start() for branch in _BRANCH.finditer(remedy)), default=0)]

"""Questions about images as JSON lines. A broken line is answered in its place and does not affect other lines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from webhook.audit.fitting import ImageFit, Knowledge, Question, no_answer
from webhook.model.shape import spelled

KEYS = ("image", "env", "driver", "product", "compute-capability", "arch", "cuda-compat")


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line without a question: its image, where it names one, and what is wrong with the line."""

    image: str
    fault: str


class _QuestionError(ValueError):
    pass


def read_questions(lines: Iterable[bytes]) -> Iterator[Question | BrokenLine]:
    """One question for each line, in order; empty lines at the end are skipped."""
    empty = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            empty += 1
            continue
        yield from (BrokenLine("", f"line {at}: the line is empty") for at in range(number - empty, number))
        empty = 0
        yield _read(line, number)


def answers(questions: Iterable[Question | BrokenLine], knowledge: Knowledge) -> Iterator[ImageFit]:
    """The answers to questions, in order."""
    for question in questions:
        if isinstance(question, BrokenLine):
            yield no_answer(question.image, question.fault)
        else:
            yield knowledge.answer(question)


def _read(line: bytes, number: int) -> Question | BrokenLine:
    found: object = None
    try:
        found = _parsed(line)
        return _question(found)
    except _QuestionError as error:
        image = found.get("image") if isinstance(found, dict) else None
        return BrokenLine(image if isinstance(image, str) else "", f"line {number}: {error}")


def _parsed(line: bytes) -> Any:
    """The JSON value of a line. Numbers stay texts as they are written, so that 12.10 is not 12.1."""
    try:
        return json.loads(line.decode("utf-8-sig"), parse_float=str, parse_int=str, parse_constant=str)
    except UnicodeDecodeError:
        raise _QuestionError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _QuestionError(f"not JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise _QuestionError("not JSON that anybody could read: nested too deeply") from None


def _question(found: object) -> Question:
    if not isinstance(found, dict):
        raise _QuestionError(f'found {spelled(found)}; write an object such as {{"image": "nvidia/cuda:12.4.1-base"}}')
    texts = {key: _text(found.get(key), key) for key in KEYS if key not in ("env", "cuda-compat")}
    image = texts["image"]
    if not image:
        raise _QuestionError('no image; write an object such as {"image": "nvidia/cuda:12.4.1-base"}')
    unknown = [spelled(key) for key in found if key not in KEYS]
    note = f"passed over {', '.join(unknown[:3])}; known keys are {', '.join(KEYS)}"
    return Question(
        image,
        _env(found.get("env")),
        texts["driver"],
        texts["product"],
        texts["compute-capability"],
        texts["arch"],
        _text(_worded(found.get("cuda-compat"), "no", "yes"), "cuda-compat"),
        (note,) if unknown else (),
    )


def _env(found: object) -> tuple[tuple[str, str | None], ...]:
    if found is None:
        return ()
    if not isinstance(found, dict):
        raise _QuestionError(f"env: found {spelled(found)}; write an object of names and values")
    texts = ((name, _worded(value, "false", "true")) for name, value in found.items())
    return tuple((str(name), _text(value, f"env.{name}"[:80])) for name, value in texts)


def _worded(found: object, *words: str) -> object:
    """A boolean as one of two words, for texts that YAML reads as a boolean; other values are unchanged."""
    return words[found] if isinstance(found, bool) else found


def _text(found: object, key: str) -> str | None:
    if found is None or isinstance(found, str):
        return found
    raise _QuestionError(f"{key}: found {spelled(found)}; write a string")

"""The page of HTML: its template, its style, its script with the rows of one table, and a policy about them.

Every text may come from tenants. Templates escape all texts, the data for the script cannot contain markup, the script
makes text nodes only, and the page's own Content-Security-Policy forbids anything else to run or to be loaded.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from webhook.outcome import printable

_MEANT_BY_MARKUP = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


@dataclass(frozen=True, slots=True)
class TableAbout:
    """What the script knows of the table of a page.

    `noun` is the word for a row, `place` the id of the section and the beginning of the fragment. `graded` is the
    column with one of `grades`, the worst first; `titles` are words for grades. `choices` are columns by which people
    choose, `numbers` those that are sorted as numbers, `details` those that an opened row shows, with their titles.
    """

    noun: str
    place: str
    graded: str
    grades: Sequence[str]
    choices: Sequence[str]
    numbers: Sequence[str]
    details: Sequence[tuple[str, str]]
    titles: Mapping[str, str] = field(default_factory=dict)


def page_of(about: TableAbout, columns: Sequence[str], table: Iterable[object], **values: Any) -> str:
    """The page that the template makes of values; equal values give equal pages.

    Rows of the `table` have an attribute for each of `columns`, which is printable text.
    """
    script, style = _asset("script.js"), _asset("style.css")
    template = _environment().get_template("page.html")
    return template.render(
        content_security_policy=_content_security_policy(script, style),
        script=Markup(script),  # noqa: S704  # a file of this package
        style=Markup(style),  # noqa: S704  # a file of this package
        data=Markup(_as_data(about, columns, table)),  # noqa: S704  # holds no character that begins markup
        **values,
    )


def _as_data(about: TableAbout, columns: Sequence[str], rows: Iterable[object]) -> str:
    """Rows as JSON for a script element: the columns, every text once, and each row as indexes of its texts."""
    places: dict[str, int] = {}
    table = [[places.setdefault(getattr(row, name), len(places)) for name in columns] for row in rows]
    data: Mapping[str, object] = {"about": asdict(about), "columns": columns, "texts": list(places), "rows": table}
    return json.dumps(data, separators=(",", ":")).translate(_MEANT_BY_MARKUP)


def _content_security_policy(script: str, style: str) -> str:
    """A policy that allows this script and this style only; `trusted-types` forbids them to make markup of texts."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """A value as the template shows it. Only the template itself makes markup."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return f"{value:,}" if isinstance(value, int) else value

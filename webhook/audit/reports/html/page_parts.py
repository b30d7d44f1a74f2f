"""What every page of HTML has: its frame, its style, its script with the rows of one table, and a policy about them.

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

Asset = tuple[str, str]
"""A package and the name of a file in it."""


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


def page_of(template: Asset, about: TableAbout, columns: Sequence[str], table: Iterable[object], **values: Any) -> str:
    """The page that a template makes of values; equal values give equal pages.

    Rows of the `table` have an attribute for each of `columns`, which is printable text. A style beside the template
    with its name, if there is one, comes after the style of all pages.
    """
    script = _asset(__package__, "script.js")
    own = template[1].removesuffix(".html") + ".css"
    style = _asset(__package__, "style.css") + (_asset(template[0], own) if _is_there(template[0], own) else "")
    return (
        _environment(template[0])
        .get_template(template[1])
        .render(
            content_security_policy=_content_security_policy(script, style),
            script=Markup(script),  # noqa: S704  # a file of this package
            style=Markup(style),  # noqa: S704  # a file of this package
            data=Markup(_as_data(about, columns, table)),  # noqa: S704  # holds no character that begins markup
            **values,
        )
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
def _asset(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


@cache
def _is_there(package: str, name: str) -> bool:
    return files(package).joinpath(name).is_file()


@cache
def _environment(package: str) -> Environment:
    """Templates of a package, and the macros of all pages."""
    return Environment(
        loader=FunctionLoader(lambda name: _asset(__package__ if name == "macros.html" else package, name)),
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

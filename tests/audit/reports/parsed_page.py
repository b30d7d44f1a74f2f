"""A page as a browser would see it without running anything: its elements, their attributes and their texts."""

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

_EMPTY = frozenset({"meta", "input", "br"})


@dataclass
class Element:
    """An element; `text` is that of everything in it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


class ParsedPage(HTMLParser):
    """The elements of a page, in order. Every one that is opened must be closed where it should."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        assert len(attrs) == len(element.attributes), "an attribute is given twice"
        self.elements.append(element)
        if tag not in _EMPTY:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        return [one for one in self.elements if one.tag == tag and attributes.items() <= one.attributes.items()]

    def one(self, tag: str, **attributes: str) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    @property
    def data(self) -> list[dict[str, str]]:
        data: dict[str, Any] = json.loads(self.one("script", type="application/json").text)
        return [dict(zip(data["columns"], (data["texts"][at] for at in row), strict=True)) for row in data["rows"]]

"""The review as unified diffs of YAML: what would be changed in each object, and why the others would be refused."""

import difflib
from collections.abc import Iterator

import yaml

from webhook.audit.review_objects import Item, ReviewList, injected
from webhook.outcome import printable


def render(reviewed: ReviewList) -> Iterator[str]:
    """Lines without newlines; a refusal, a warning or an error is a comment line starting with #."""
    for item in reviewed.items:
        yield from _item(item)
    for error in reviewed.errors:
        yield f"# unreadable: {error}"


def _item(item: Item) -> Iterator[str]:
    name = item.title
    for finding in item.findings:
        word = "refused" if finding.refuses else "warning" if finding.warns else "audit"
        yield f"# {name}: {word}: {finding}"
    for pods in item.pods:
        for injection in injected(pods):
            edits = ", ".join(map(str, injection.edits))
            yield printable(f"# {name}: {pods.template.path}: its pods get {edits}")
    if item.is_allowed and item.patch and item.policy is not None:
        yield from difflib.unified_diff(
            _lines(item.document.object),
            _lines(item.result),
            f"{item.document.source} {name}",
            f"{item.document.source} {name} (completed by {item.policy.name})",
            lineterm="",
        )


def _lines(value: object) -> list[str]:
    return yaml.dump(value, Dumper=WithoutAliases, sort_keys=False, width=120).splitlines()


class WithoutAliases(yaml.SafeDumper):
    """YAML without anchors, which would hide what is added twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the base class's signature
        """Never write an alias."""
        return True

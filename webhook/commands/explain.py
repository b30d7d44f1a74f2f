"""The command `gpu-policy explain`: what a rule promises, as docs/rules.md has it."""

import re
from typing import TYPE_CHECKING

import click

from webhook.commands.inputs import echo, fail
from webhook.commands.options import Printed, argument, takes

if TYPE_CHECKING:
    from rich.console import Console


class ExplainOptions(Printed):
    rule: str | None = argument(required=False)


@click.command()
@takes(ExplainOptions)
def explain(asked: ExplainOptions) -> None:
    """Say what RULE promises, what goes wrong without it, and which settings it has.

    RULE is its name in policies and messages, such as gpuQuota. Without RULE, list all rules.
    """
    from webhook.model.wording import cut, hint
    from webhook.policy.schema import rule_schema
    from webhook.rules import RULES
    from webhook.rules_page.page_of_rules import rule_page
    from webhook.why.explanation import ReasonCode

    rule, keys = asked.rule, {one.key.lower(): one for one in RULES}
    found = list(RULES) if rule is None else [keys[key] for key in [re.sub("[-_]", "", rule.lower())] if key in keys]
    if not found:
        similar = hint(rule or "", [one.key for one in RULES])
        similar = "; it is a reason of `gpu-policy why`: see docs/why.md" if rule in list(ReasonCode) else similar
        fail(f"there is no rule {cut(rule or '')}; `gpu-policy explain` lists all{similar}")
    documents = [
        {"rule": one.key, "promise": one.promise, "without": one.problem, "settings": rule_schema(one)["properties"]}
        for one in found
    ]
    listed = "\n".join(f"- `{one.key}`: {one.promise}" for one in found)
    text = listed if rule is None else rule_page(found[0]).strip()
    asked.show(documents if rule is None else documents[0], lambda screen: _print(text, screen))


def _print(text: str, screen: "Console") -> None:
    from rich.markdown import Markdown

    if screen.is_terminal:
        screen.print(Markdown(text))
    else:
        echo(text)

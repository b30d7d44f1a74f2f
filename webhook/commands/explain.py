"""The command `gpu-policy explain`: what a rule promises, as docs/rules.md has it."""

from dataclasses import dataclass

import click

from webhook.commands.inputs import console, echo, fail, print_document
from webhook.commands.options import Printed, argument, takes


@dataclass(frozen=True, kw_only=True)
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
    from webhook.rules_page.page_of_rules import overview, rule_page

    rule, output = asked.rule, asked.output

    def plain(name: str) -> str:
        return name.lower().replace("-", "").replace("_", "")

    found = [one for one in RULES if rule is None or plain(one.key) == plain(rule)]
    if not found:
        similar = hint(rule or "", [one.key for one in RULES])
        fail(f"there is no rule {cut(rule or '')}; `gpu-policy explain` lists all{similar}")
    if output != "text":
        shown = [
            {
                "rule": one.key,
                "promise": one.promise,
                "without": one.problem,
                "settings": rule_schema(one)["properties"],
            }
            for one in found
        ]
        print_document(shown if rule is None else shown[0], output)
        return
    text = overview() if rule is None else rule_page(found[0]).strip()
    if not (screen := console()).is_terminal:
        echo(text)
        return
    from rich.markdown import Markdown

    screen.print(Markdown(text))

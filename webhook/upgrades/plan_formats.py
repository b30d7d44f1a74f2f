"""The formats of a plan: the one list of them, and what renders each."""

import io
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line asks for the names of formats before it knows whether it plans
    from webhook.upgrades.driver_plan import DriverPlan

PLAN_FORMATS: dict[str, str] = {
    "text": "plan_text.render_plan",
    "json": "driver_plan.to_json",
    "html": "page.plan_page.render",
    "markdown": "plan_markdown.render",
    "sarif": "plan_sarif.render",
}
"""Each format with the function below `webhook.upgrades` that renders it."""


def rendered_plan(plan: "DriverPlan", form: str, *, is_for_a_terminal: bool = False) -> str:
    """The plan in one of PLAN_FORMATS. `is_for_a_terminal` gives the format `text` colours."""
    module, _, name = PLAN_FORMATS[form].rpartition(".")
    render = getattr(import_module(f"webhook.upgrades.{module}"), name)
    if form != "text":
        text: str = render(plan)
        return text
    from rich.console import Console  # noqa: PLC0415  # for this format only

    stream = io.StringIO()
    render(plan, Console(file=stream, highlight=False, force_terminal=is_for_a_terminal))
    return stream.getvalue()

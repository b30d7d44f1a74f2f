"""Results for people at a terminal: one line for each case, and where one failed, what was expected and found."""

from rich.console import Console
from rich.text import Text

from webhook.audit.review_objects import Item
from webhook.model.wording import counted
from webhook.outcome import printable
from webhook.policy_tests.differences import Difference, Subject, subject_of
from webhook.policy_tests.results import CaseResult, FileResult, Results


def render(results: Results, console: Console, verbosity: int = 0) -> None:
    """Print the results, and the totals last.

    `verbosity` is -1 for nothing but what did not pass, 0 for every case, 1 also for what became of its resources.
    """
    told: set[str] = set()
    for file in results.files:
        _file(file, console, verbosity, told)
    console.print(Text(_total(results), style="bold"), soft_wrap=True)


def _total(results: Results) -> str:
    cases, files = len(results.cases), results.unusable_files
    text = f"{counted(cases, 'case')}: {results.passed} passed, {results.failed} failed"
    if results.unusable:
        text += f", {results.unusable} unusable"
    return f"{text}; {counted(files, 'unusable file')}" if files else text


def _file(file: FileResult, console: Console, verbosity: int, told: set[str]) -> None:
    """One file; what several of them have wrong, such as a policy, is told once."""
    if verbosity < 0 and not file.errors and all(case.passed for case in file.cases):
        return
    head = Text(printable(file.file), style="bold")
    head.append(f"  {printable(file.name)}" if file.name else "", style="dim")
    console.print(head, soft_wrap=True)
    for error in map(str, file.errors):
        _line(console, "unusable", "bold red", error if error not in told else f"{error} (as above)")
        told.add(error)
    for case in file.cases:
        if not case.passed or verbosity >= 0:
            _case(case, console, verbosity)


def _case(result: CaseResult, console: Console, verbosity: int) -> None:
    case = result.case
    if result.passed:
        _line(console, "passed", "green", case.name)
    else:
        word = "unusable" if result.errors else "failed"
        _line(console, word, "bold red", case.name, f"  {case.file}:{case.line}")
    if case.description and verbosity > 0:
        _print(console, f"    {' '.join(case.description.split())}", "dim")
    for error in result.errors:
        _print(console, f"    {error}", "red")
    about = ""
    for difference in result.differences:
        if difference.about != about:
            about = difference.about
            _print(console, f"    {about}", "bold")
        _difference(difference, console)
    if verbosity > 0:
        for item in result.items:
            _item(item, console)


def _difference(difference: Difference, console: Console) -> None:
    _print(console, f"      {difference.place}", "")
    _print(console, f"        - expected  {difference.expected}", "red")
    _print(console, f"        + found     {difference.found}", "green")


def _item(item: Item, console: Console) -> None:
    if item.policy is None:
        return
    subject = subject_of(item)
    _print(console, f"    {subject.title}: {_became(subject)}", "dim")
    for finding in item.findings:
        word = "refused" if finding.refuses else "warning" if finding.warns else "recorded"
        _print(console, f"      {word}: {finding}", "dim")


def _became(subject: Subject) -> str:
    if subject.refusals:
        return "refused"
    rules = dict.fromkeys(rule for pod in subject.completions for rule in pod.rules)
    return f"completed by {', '.join(rules)}" if rules else "allowed as it is"


def _line(console: Console, word: str, style: str, text: str, place: str = "") -> None:
    line = Text(f"  {word:<9} ", style=style)
    line.append(printable(text), style="bold" if place else "default")
    line.append(printable(place), style="dim")
    console.print(line, soft_wrap=True)


def _print(console: Console, text: str, style: str) -> None:
    console.print(Text(printable(text), style=style), soft_wrap=True)

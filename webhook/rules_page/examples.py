"""Examples of a rule as people read them: what is applied, under which line of a policy, and what becomes of it."""

from collections.abc import Iterator
from textwrap import fill

import yaml

from webhook.rules.rule import Example, Rule
from webhook.rules_page.as_yaml import as_yaml
from webhook.rules_page.example_trial import ExampleTrial, try_out


def examples(rule: Rule) -> Iterator[str]:
    """The examples of a rule in Markdown. What is applied is shown once where it is the same in both."""
    applied = ""
    for example in rule.examples:
        if _applied(example) != applied:
            yield f"\n{'Another' if applied else 'An'} example:\n\n{_fenced('yaml', _applied(example))}"
            applied = _applied(example)
        yield from (f"\n{part}" for part in _became(try_out(rule, example), _name(example)))


def _applied(example: Example) -> str:
    manifest = example.manifest.strip("\n")
    if not example.beside:
        return manifest
    beside = example.beside.strip("\n")
    return f"# Runs already:\n{beside}\n---\n# Is applied:\n{manifest}"


def _name(example: Example) -> str:
    return str(yaml.safe_load(example.manifest)["metadata"]["name"])


def _became(trial: ExampleTrial, name: str) -> Iterator[str]:
    """What becomes of it: a refusal, or what is added and what is said."""
    under = f"Under `{trial.line}`"
    if trial.refusal:
        yield f"{under} it is refused:\n"
        yield _fenced("text", "\n".join((*_warnings(trial), _refusal(trial, name))))
        return
    for added in trial.added:
        yield f"{under} {'each of its pods' if trial.is_workload else 'it'} gets:\n"
        yield _fenced("yaml", as_yaml(added))
    if trial.warnings:
        subject = "It" if trial.added else f"{under} it"
        yield f"{subject} is admitted with {'a warning' if len(trial.warnings) == 1 else 'warnings'}:\n"
        yield _fenced("text", "\n".join(_warnings(trial)))
    elif not trial.added:
        yield f"{under} it is admitted as it is.\n"


def _refusal(trial: ExampleTrial, name: str) -> str:
    """What kubectl prints, on several lines."""
    denied = f'error when creating "{name}.yaml": admission webhook "{trial.webhook}" denied the request'
    lines = f"Error from server (Forbidden): {denied}: {trial.refusal}".splitlines()
    return "\n".join(map(_filled, lines))


def _warnings(trial: ExampleTrial) -> Iterator[str]:
    return (_filled(f"Warning: {warning}") for warning in trial.warnings)


def _filled(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n"

"""Exceptions that contradict each other: about one rule, equally specific, with one end, and maybe at one moment."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from webhook.policy.exception_file import PolicyException
from webhook.policy.exception_match import shared_namespace
from webhook.yaml_files.file_errors import Faults


def check_conflicts(exceptions: Sequence[PolicyException], path: str, faults: Faults) -> None:
    """Add a fault for each exception that may hold beside an earlier one of which it is not known which comes first."""
    for one, other in _alike(exceptions):
        namespace = shared_namespace(one.namespaces, other.namespaces)
        if not namespace or not one.match.may_tie(other.match) or not one.period.overlaps(other.period):
            continue
        rule = next(key for key in one.concerned if key in other.concerned)
        message = (
            f"{other.name} and {one.name} of {path}:{one.line} are about {rule}, equally specific, and have the same "
            f"end, so neither comes first for a pod such as one in namespace {namespace}; make one of them narrower, "
            "or let it end earlier"
        )
        faults.add(path, other.line, other.key, message)


def _alike(exceptions: Sequence[PolicyException]) -> Iterator[tuple[PolicyException, PolicyException]]:
    """The pairs that are about one rule and have one end, in the order of the file."""
    groups: dict[tuple[str, float], list[PolicyException]] = {}
    for one in exceptions:
        for rule in one.concerned:
            groups.setdefault((rule, one.period.ends), []).append(one)
    for group in groups.values():
        yield from combinations(group, 2)

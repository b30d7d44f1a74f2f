"""What an audit says of one object that was looked at."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from webhook.audit.gathering import DraftFinding
from webhook.audit.owners import Owners
from webhook.audit.report import AuditFinding, Level, ObjectReference, PodGroup, Running, SourceLine
from webhook.audit.review_objects import Item, injected
from webhook.engine import Foreseen
from webhook.model.workloads import Template, controller_of
from webhook.outcome import LONGEST_FIELD, Finding, FindingKind, Injection
from webhook.rules.rule_settings import Mode

MOST_FINDINGS = 100
"""Findings of one rule and level that are told of one object."""

_SPEC = "spec"
_PART = re.compile(r"[.\[]")
_MOST_PARTS = 64
"""Parts of a place that are looked up; those of manifests have far fewer."""

_Say = Callable[..., AuditFinding]
"""Makes a finding about the object; what is the same for all of them is known to it."""


def found_in(item: Item, owners: Owners, nth: int = 1) -> Iterator[DraftFinding]:
    """What was found in an object, template by template where it makes pods; `nth` is as in its Source.

    An object can be made to have thousands of findings: of those of one rule and level, the first 100 are told.
    """
    counts: Counter[tuple[str, Level]] = Counter()
    beyond: dict[tuple[str, Level], DraftFinding] = {}
    for found in _found_in(item, _about(item, owners, nth)):
        kind = found.finding.rule, found.finding.level
        counts[kind] += found.number
        if counts[kind] <= MOST_FINDINGS:
            yield found
        else:
            beyond.setdefault(kind, found)
    for kind, found in beyond.items():
        left = counts[kind] - MOST_FINDINGS - 1
        message = f"{found.finding.message}; {left} more like it are left out"
        yield replace(found, finding=replace(found.finding, message=message)) if left else found


def _found_in(item: Item, say: _Say) -> Iterator[DraftFinding]:
    if item.outcome is not None:
        for finding in item.outcome.findings:
            yield DraftFinding(_judged(finding, say), finding.field, number=finding.number)
        if item.is_allowed:
            yield from (_completed(injection, say, _SPEC) for injection in item.outcome.injections)
    for foreseen in item.pods:
        yield from _of_template(foreseen, say)


def _about(item: Item, owners: Owners, nth: int) -> _Say:
    document = item.document
    metadata = document.object.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    uid = metadata.get("uid")
    own = ObjectReference(
        item.namespace, document.kind, item.name, document.api_version, uid if isinstance(uid, str) else ""
    )
    owner = own if controller_of(document.object) is None else owners.root_of(document.object)
    if not owner.namespace and not metadata.get("namespace"):
        owner = replace(owner, namespace=own.namespace)
    return partial(
        AuditFinding,
        object=own,
        owner=owner,
        policy=item.policy.name if item.policy is not None else "",
        source=SourceLine(document.source, document.line or None, nth),
        running=Running(1, (item.name,)) if item.outcome is not None and own.uid else None,
    )


def _of_template(foreseen: Foreseen, say: _Say) -> Iterator[DraftFinding]:
    template = foreseen.template
    say = partial(say, pod_group=PodGroup(template.group, template.pods, foreseen.gpus))
    places = _places_in_a_pod(template)
    for finding in foreseen.findings:
        place = _shown(_in_a_pod(finding.field, places))
        yield DraftFinding(_judged(finding, say), place, number=finding.number)
    yield from (_completed(injection, say, template.place(_SPEC)) for injection in injected(foreseen))


def _judged(finding: Finding, say: _Say) -> AuditFinding:
    return say(
        level=Level.of(finding),
        rule=finding.rule,
        mode=finding.mode,
        kind=finding.kind,
        field=_shown(finding.field),
        message=finding.message,
        remedy=finding.remedy,
        file=finding.origin,
        line=finding.line,
    )


def _completed(injection: Injection, say: _Say, field: str) -> DraftFinding:
    edits = tuple(map(str, injection.edits))
    finding = say(
        level=Level.COMPLETE,
        rule=injection.rule,
        mode=Mode.ENFORCE,
        kind=FindingKind.INJECTION,
        field=_shown(field),
        message=", ".join(edits),
        remedy="",
        file=injection.origin,
        line=injection.line,
    )
    return DraftFinding(finding, _SPEC, edits)


def _shown(field: str) -> str:
    """A place, as far as people read it: custom resources may give megabytes of name to what stands in them."""
    return field if len(field) <= LONGEST_FIELD else f"{field[: LONGEST_FIELD - 3]}..."


def _places_in_a_pod(template: Template) -> Mapping[str, str]:
    """Place in the object -> where that stands in a pod."""
    places = {outside: inside for inside, outside in template.elsewhere.items()}
    return places | {template.path: _SPEC, template.path.removesuffix(f".{_SPEC}"): ""}


def _in_a_pod(field: str, places: Mapping[str, str]) -> str:
    """Where in a pod stands what is at `field` of the object: the reverse of `Template.place`."""
    ends = [match.start() for match in islice(_PART.finditer(field), _MOST_PARTS)]
    for end in (len(field), *reversed(ends)):
        inside = places.get(field[:end])
        if inside is not None:
            return (inside + field[end:]).removeprefix(".")
    return field

"""Where a pod may run once it has been completed."""

from collections.abc import Iterable
from dataclasses import replace

from webhook.model.edits import AddToleration, Edit, PreferNodes, RequireNodes, SetRuntimeClass
from webhook.model.pod import Pod, changed
from webhook.model.selectors import Term

_PLACING = frozenset({AddToleration, PreferNodes, RequireNodes, SetRuntimeClass})
"""What decides about where a pod may run."""


def placed(pod: Pod, edits: Iterable[Edit]) -> Pod:
    """`pod` with what these edits decide about where it may run, as if it were read again after they were written."""
    placing = [edit for edit in edits if edit.__class__ in _PLACING]
    if not placing:
        return pod
    runtime_class, tolerations = pod.runtime_class, list(pod.tolerations)
    terms, preferred = list(pod.required or ()), list(pod.preferred)
    for edit in placing:
        match edit:
            case AddToleration(toleration):
                tolerations.append(toleration)
            case RequireNodes(expression) if not terms:
                terms.append(Term((expression,)))
            case RequireNodes(expression, at):
                term = terms[at or 0]
                terms[at or 0] = replace(term, expressions=(*term.expressions, expression))
            case PreferNodes(expression):
                preferred.append(Term((expression,)))
            case SetRuntimeClass(name):
                runtime_class = name
    return changed(
        pod,
        runtime_class=runtime_class,
        tolerations=tuple(tolerations),
        required=tuple(terms) if terms else pod.required,
        preferred=tuple(preferred),
    )

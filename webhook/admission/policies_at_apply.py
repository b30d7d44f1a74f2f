"""Policies are checked when their ConfigMap is applied: whoever made a mistake is told at once, in place of a log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from webhook.admission.phases import UNCONCERNED, Decision
from webhook.admission.review import AdmissionRequest, AdmissionResponse
from webhook.model.shape import mapping, shortened
from webhook.outcome import LONGEST_LINE, LONGEST_WARNING, MOST_REFUSED, MOST_VIOLATIONS, MOST_WARNED, printable
from webhook.policy.config_maps import Checked, Files, TooLargeError, check_files, files_of
from webhook.policy.policy_store import PolicyStore
from webhook.release import version
from webhook.yaml_files.file_errors import FileErrors

NAME_LABEL, VERSION_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/version"
CHART = "gpu-policy"
"""What the chart writes as NAME_LABEL."""

_BRINGING = frozenset(("CREATE", "UPDATE"))
"""Operations that may bring files."""
_CHECK = "gpu-policy policy check DIRECTORY"
_MORE = f"and {{}} more; {_CHECK} names all of them"


def check(request: AdmissionRequest, store: PolicyStore) -> Decision:
    """Refuse a ConfigMap whose policies have mistakes, on CREATE and where an UPDATE changes its files.

    What is no certain mistake is a warning. `store` has the policies that this replica has mounted.
    """
    raw = request.object
    if raw is None or not _is_about_a_config_map(request) or request.operation not in _BRINGING:
        return UNCONCERNED
    new, old = files_of(raw), files_of(request.old_object or {})
    if request.operation == "UPDATE" and new == old:  # labels and finalizers change where what is stored has mistakes
        return UNCONCERNED
    return _told(raw, new, old, store)


def _told(raw: Mapping[str, Any], new: Files, old: Files, store: PolicyStore) -> Decision:
    """What is said of a ConfigMap whose files change."""
    try:
        checked = check_files(new, old, store.on_disk(), store.current)
    except TooLargeError as error:
        return _allowed([f"not checked: {error}; {_CHECK} has no such limit"])
    except FileErrors:
        return _allowed(["not checked: this replica cannot read the policies that it has mounted"])
    if release := _of_another_release(raw):
        return _allowed(_of_release(release, checked))
    if checked.errors:
        return Decision(
            AdmissionResponse(is_allowed=False, message=_refusal(checked))
        )  # of 422 older kubectl shows no message
    return _allowed(_advice(checked))


def _is_about_a_config_map(request: AdmissionRequest) -> bool:
    return (request.api_version, request.kind, request.subresource) == ("v1", "ConfigMap", "")


def _of_another_release(raw: Mapping[str, Any]) -> str:
    """The release whose chart made the ConfigMap, where it is not this one.

    An upgrade brings the policies of the new release while replicas of the old one are still there.
    """
    labels = mapping(mapping(raw.get("metadata"), "metadata").get("labels"), "metadata.labels")
    release = labels.get(VERSION_LABEL)
    is_of_chart = labels.get(NAME_LABEL) == CHART
    return release if is_of_chart and isinstance(release, str) and release != version() else ""


def _of_release(release: str, checked: Checked) -> Iterator[str]:
    """What this release finds in the policies of another one."""
    for error in checked.errors:
        labelled = shortened(release, 63)
        yield f"the label says gpu-policy {labelled}; for {version()}, which runs here, a mistake: {error}"
    yield from _advice(checked)


def _advice(checked: Checked) -> Iterator[str]:
    for doubt in checked.doubts:
        yield f"as things are, the replicas will not use these policies: {doubt}"
    yield from checked.notices


def _refusal(checked: Checked) -> str:
    """Every mistake on a line of its own, as far as there is room."""
    lines = [shortened(printable(str(error)), LONGEST_LINE) for error in checked.errors[:MOST_VIOLATIONS]]
    if len(checked.errors) == 1:
        return lines[0]
    kept = _fitting(lines, MOST_REFUSED)
    left = len(checked.errors) - len(kept)
    more = [_MORE.format(left)] if left else []
    return "\n".join([f"{len(checked.errors)} mistakes in the policies:", *kept, *more])


def _allowed(warnings: Iterable[str]) -> Decision:
    """The answer that tells people this much, in texts that the API server passes on whole."""
    texts = [shortened("".join(c if " " <= c <= "~" else "?" for c in text), LONGEST_WARNING) for text in warnings]
    kept = _fitting(texts, MOST_WARNED - len(_MORE.format(len(texts))))
    left = len(texts) - len(kept)
    return Decision(AdmissionResponse(is_allowed=True, warnings=(*kept, _MORE.format(left)) if left else tuple(kept)))


def _fitting(texts: Sequence[str], room: int) -> list[str]:
    """The first of the texts that have so many characters together."""
    kept: list[str] = []
    for text in texts:
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    return kept

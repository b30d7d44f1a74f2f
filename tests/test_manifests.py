"""Every manifest of the corpus gets the verdicts that were worked out by hand, on every cluster."""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import CLUSTERS, Manifest, Verdict, facts_of, judged, read_corpus
from webhook import engine
from webhook.model.shape import ShapeError
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

CORPUS = read_corpus()
every_manifest = pytest.mark.parametrize("manifest", CORPUS, ids=lambda manifest: manifest.name)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> PolicySet:
    """The default policy for every namespace, with one line changed: users hear all of its advice."""
    folder = tmp_path_factory.mktemp("policies")
    text = (Path(__file__).parents[1] / "policies/_default.yaml").read_text()
    (folder / "_default.yaml").write_text(text.replace("mode: &advice audit", "mode: &advice warn"))
    return load(folder)


def shown(verdicts: Mapping[str, Verdict]) -> dict[str, dict[str, list[str]]]:
    return {name: {key: sorted(rules) for key, rules in one._asdict().items()} for name, one in verdicts.items()}


@every_manifest
def test_a_manifest_gets_its_verdicts(manifest: Manifest, policies: PolicySet) -> None:
    found = {cluster: judged(manifest, cluster, policies) for cluster in CLUSTERS}
    said = {cluster: one.said for cluster, one in found.items()}

    assert shown(manifest.verdicts) == shown({name: one.verdict for name, one in found.items()}), said
    assert [manifest.gpus] == list({one.gpus for one in found.values()})
    assert manifest.is_unreadable == any(one.errors for one in found.values()), found["mixed"].errors
    for words in manifest.says:
        assert any(words in sentence for one in said.values() for sentence in one), (words, said)


@every_manifest
def test_nothing_that_the_author_wrote_is_changed_and_a_second_evaluation_changes_nothing(
    manifest: Manifest, policies: PolicySet
) -> None:
    policy = policies.for_namespace("default")
    for template in manifest.templates():
        try:
            completed = engine.mutate(template.made, policy, facts_of("mixed"))
        except ShapeError:
            continue

        assert lost(template.made, completed.object) is None
        assert engine.mutate(completed.object, policy, facts_of("mixed")).patch == ()


def lost(written: Any, found: Any, place: str = "") -> str | None:
    """The place of something that was written and is no longer found; a list may have got more items anywhere.

    What an earlier evaluation has stamped on the pod is not its author's.
    """
    if isinstance(written, Mapping) and isinstance(found, Mapping):
        own = {key: value for key, value in written.items() if not str(key).startswith("gpupolicy.dev/")}
        places = (lost(value, found.get(key), f"{place}.{key}") for key, value in own.items())
        return next((one for one in places if one), None)
    if isinstance(written, Sequence) and isinstance(found, Sequence) and not isinstance(written, str):
        rest = iter(found)
        kept = (any(lost(item, other) is None for other in rest) for item in written)
        return next((f"{place}[{number}]" for number, is_kept in zip(count(), kept, strict=False) if not is_kept), None)
    return None if written is None or written == found else place or "."

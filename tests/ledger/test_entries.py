"""Entries are written and read without loss, stay small, and an error says what is wrong with other content."""

import json
import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.ledger.entries import Entries, entries_from_raw, uid_bytes
from webhook.quota.quotas import Demand

NAMES = st.sampled_from(["team-a", "team-b", "team-c"])
GPUS = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]), st.integers(1, 9), min_size=1)
MODELS = st.none() | st.lists(st.sampled_from(["A100-40GB", "H100-80GB", "T4"]), unique=True).map(sorted).map(tuple)
DEMANDS = st.builds(Demand, NAMES, GPUS.map(lambda gpus: tuple(sorted(gpus.items()))), MODELS)
ENTRIES = st.builds(
    Entries, st.dictionaries(st.binary(min_size=16, max_size=16), DEMANDS, max_size=20), st.frozensets(NAMES)
)
UID = "3f1c2a00-0000-4000-8000-000000000001"
KIND = {"gpus": {"nvidia.com/gpu": 1}}


def uid(number: int) -> bytes:
    """Uids as random as real ones: random bytes cannot be compressed."""
    return UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).bytes


@given(ENTRIES)
def test_what_is_written_is_read_again(these):
    again = entries_from_raw(json.loads(json.dumps(these.to_raw())))
    assert again == these
    assert again.counts == these.counts
    assert sum(these.counts.values()) == len(these.by_uid) == these.to_raw()["pods"]


@given(ENTRIES, st.randoms())
def test_equal_entries_look_alike(these, random):
    entries = list(these.by_uid.items())
    random.shuffle(entries)
    assert json.dumps(Entries(dict(entries), these.patterns).to_raw()) == json.dumps(these.to_raw())


@given(ENTRIES, ENTRIES)
def test_what_is_entered_is_there_and_what_is_removed_is_not(these, others):
    removed = frozenset(list(these.by_uid)[::2]) - others.by_uid.keys()
    changed = these.changed(others.by_uid, removed)
    assert changed.by_uid == {**{u: d for u, d in these.by_uid.items() if u not in removed}, **others.by_uid}
    assert changed.changed(others.by_uid, removed) is changed


def test_uids_are_16_bytes():
    assert str(UUID(bytes=uid_bytes(UID))) == UID
    assert len(uid_bytes(UID)) == 16
    with pytest.raises(ValueError, match="badly formed"):
        uid_bytes("pod-1")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param([], "book.json: Input should be a valid dict", id="no map"),
        pytest.param({"kinds": {}}, "kinds: Input should be a valid list", id="kinds"),
        pytest.param({"kinds": [1]}, "kinds.0: Input should be a valid dict", id="a kind"),
        pytest.param({"kinds": [{"gpus": {"x": 0}}]}, "kinds.0.gpus.x: Input should be greater than 0", id="0"),
        pytest.param(
            {"kinds": [{"gpus": {}, "models": [1]}]}, "kinds.0.models.0: Input should be a valid string", id="models"
        ),
        pytest.param({"kinds": [{"gpus": {}, "requests": [[]]}]}, "kinds.0.requests.0: List should", id="no choice"),
        pytest.param({"kinds": [{"gpus": {}, "requests": [7]}]}, "kinds.0.requests.0: Input should", id="no request"),
        pytest.param({"entries": {"a": {"0": ""}}}, "entries.a.0: no kind has this number", id="no kind"),
        pytest.param({"entries": {"a": {"-1": ""}}, "kinds": [KIND]}, "entries.a.-1: no kind", id="negative"),
        pytest.param({"entries": {}, "rounds": {"x": ""}}, "rounds.x: expected a number", id="rounds"),
        pytest.param({"entries": {}, "rounds": {"1": "%"}}, "rounds.1: uids are no base64", id="uids of rounds"),
        pytest.param({"entries": {"a": {"0": "%"}}, "kinds": [KIND]}, "entries.a.0: uids are no base64", id="base64"),
        pytest.param(
            {"entries": {"a": {"0": "é"}}, "kinds": [KIND]}, "entries.a.0: uids are no base64", id="not ASCII"
        ),
        pytest.param({"entries": {"a": {"0": "AAAA"}}, "kinds": [KIND]}, "entries.a.0: 3 bytes are no", id="cut off"),
        pytest.param(
            {"entries": {}, "namespaces": [1]}, "namespaces.0: Input should be a valid string", id="namespaces"
        ),
    ],
)
def test_what_are_no_entries_is_said(raw, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        entries_from_raw({"entries": {}, **raw} if isinstance(raw, dict) else raw)

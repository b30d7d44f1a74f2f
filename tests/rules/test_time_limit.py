"""Interactive GPU pods end after a while, because people forget them."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, spec_with
from tests.rules.samples import advice, container, is_left_alone, messages, mutated, pod, settings_of
from webhook.rules.time_limit import RULE

HUB, KUBEFLOW = {"component": "singleuser-server"}, {"notebook-name": "ada", "statefulset": "ada"}
HALF_A_DAY, TWO_DAYS = 43200, 172800


def notebook(*, labels=HUB, owner="", gpus=1, **spec):
    raw = pod(container(gpus=gpus), **spec)
    raw["metadata"]["labels"] = labels
    if owner:
        raw["metadata"]["ownerReferences"] = [{"kind": owner, "name": "ada", "controller": True}]
    return raw


def deadline(raw, values=None):
    return mutated(RULE, raw, values)["spec"].get("activeDeadlineSeconds")


@each(
    "raw",
    {
        "a server of JupyterHub": notebook(),
        "a notebook of Kubeflow": notebook(labels=KUBEFLOW, owner="StatefulSet"),
        "null": notebook(activeDeadlineSeconds=None),
        "made by a Job": notebook(owner="Job"),
    },
)
def test_an_interactive_pod_without_a_limit_gets_the_longest(raw):
    assert deadline(raw) == HALF_A_DAY
    assert deadline(raw, {"max": "1h30m"}) == 5400
    assert messages(RULE, raw) == []


@each(
    "raw",
    {
        "no GPU": notebook(gpus=None),
        "zero GPUs": notebook(gpus=0),
        "no labels": notebook(labels={}),
        "null for labels": notebook(labels=None),
        "another value": notebook(labels={"component": "hub"}),
        "a value that is no text": notebook(labels={"component": 7}),
        "another label": notebook(labels={"app": "singleuser-server"}),
    },
)
def test_other_pods_are_left_alone(raw):
    forever = {**raw, "spec": {**raw["spec"], "activeDeadlineSeconds": TWO_DAYS}}
    for one in (raw, forever):
        assert is_left_alone(RULE, one)
        assert advice(RULE, one, {"longer": "cap"}) == []
        assert messages(RULE, one, {"missing": "refuse"}) == []


@each(
    "labels, is_meant",
    {
        "all labels of one map": ({"team": "vision-a", "kind": "lab"}, True),
        "one of two": ({"team": "vision-a"}, False),
        "one of another value": ({"team": "audio", "kind": "lab"}, False),
        "another map, any value": ({"code-server": ""}, True),
        "the default, which the list replaces": (HUB, False),
    },
)
def test_which_pods_are_interactive_is_a_setting(labels, is_meant):
    selectors = [{"team": "vision-*", "kind": "lab"}, {"code-server": "*"}]
    assert is_left_alone(RULE, notebook(labels=labels), {"selectors": selectors}) is not is_meant


@pytest.mark.parametrize("seconds", [1, HALF_A_DAY], ids=["short", "exactly the longest"])
@pytest.mark.parametrize("longer", ["refuse", "cap"])
def test_a_limit_of_the_author_stays(seconds, longer):
    raw = notebook(activeDeadlineSeconds=seconds)
    assert is_left_alone(RULE, raw, {"longer": longer})
    assert messages(RULE, raw, {"longer": longer}) == []


def test_a_longer_limit_is_refused_and_never_overwritten_by_default(says):
    raw = notebook(activeDeadlineSeconds=TWO_DAYS)
    assert is_left_alone(RULE, raw)
    says(messages(RULE, raw))


def test_a_longer_limit_is_cut_where_the_policy_says_so_and_its_author_hears_of_it(says):
    raw, values = notebook(activeDeadlineSeconds=HALF_A_DAY + 1), {"longer": "cap"}
    assert deadline(raw, values) == HALF_A_DAY
    assert messages(RULE, raw, values) == []
    says(advice(RULE, raw, values))
    assert advice(RULE, mutated(RULE, raw, values), values) == []


@pytest.mark.parametrize("owner", ["", "Job", "Workflow"], ids=["by itself", "Job", "Workflow"])
def test_a_missing_limit_is_refused_where_the_policy_says_so(owner):
    raw = notebook(owner=owner)
    assert is_left_alone(RULE, raw, {"missing": "refuse"})
    assert messages(RULE, raw, {"missing": "refuse"}) == [
        "spec.activeDeadlineSeconds: is not set; interactive GPU pods may run for 43200 (12h) at most. "
        "Set it to 43200 or less."
    ]


@pytest.mark.parametrize("owner", ["StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController"])
def test_pods_whose_template_cannot_have_a_limit_get_it_in_any_case(owner):
    """Kubernetes refuses it in these templates, so nobody could do what a refusal asks for."""
    raw = notebook(owner=owner)
    assert deadline(raw, {"missing": "refuse"}) == HALF_A_DAY
    assert messages(RULE, raw, {"missing": "refuse"}) == []


def test_such_a_pod_is_refused_for_a_longer_limit_like_any_other():
    raw = notebook(owner="StatefulSet", activeDeadlineSeconds=TWO_DAYS)
    assert len(messages(RULE, raw, {"missing": "refuse"})) == 1


@pytest.mark.parametrize(
    ("written", "kept"), [("8h", "8h"), ("90m", "1h30m"), ("3600s", "1h"), ("596523h14m7s", "596523h14m7s")]
)
def test_a_duration_is_kept_as_it_is_shown(written, kept):
    settings = settings_of(RULE, {"max": written})
    assert (settings.max, settings.model_dump(mode="json")["max"]) == (kept, kept)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("1d", '"1d" is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m'),
        ("", '"" is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m'),
        (43200, "43200 is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m"),
        ("0s", "0s is out of range; write a duration from 1s to 596523h14m7s"),
        ("596523h14m8s", "596523h14m8s is out of range; write a duration from 1s to 596523h14m7s"),
    ],
    ids=["days", "empty", "no unit", "none", "more than Kubernetes takes"],
)
def test_what_is_no_duration_is_told_with_what_is(value, told):
    with pytest.raises(ValidationError) as error:
        settings_of(RULE, {"max": value})
    assert told == str(error.value.errors()[0]["ctx"]["error"])


@pytest.mark.parametrize(
    "values",
    [
        {"max": True},
        {"max": 1.5},
        {"selectors": [{}]},
        {"selectors": [{"component": "a b"}]},
        {"selectors": [{"component": ""}]},
        {"selectors": [{"a b": "x"}]},
    ],
    ids=str,
)
def test_settings_without_sense_are_refused(values):
    """A map without labels would end every GPU pod."""
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


def test_a_list_without_selectors_is_refused_because_it_would_disable_the_rule_without_a_word():
    with pytest.raises(ValidationError, match="selects no pod; write at least one map of labels, or disable the rule"):
        settings_of(RULE, {"selectors": []})


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ({}, "names no label; write one such as component: singleuser-server"),
        ({"matchLabels": {"a": "b"}}, "has matchLabels; write the labels themselves, such as component: "),
        ({"matchExpressions": []}, "has matchExpressions; write the labels themselves, such as component: "),
    ],
    ids=["empty", "matchLabels", "matchExpressions"],
)
def test_selectors_written_as_kubernetes_has_them_are_told_how_they_are_written_here(selector, told):
    with pytest.raises(ValidationError, match=told):
        settings_of(RULE, {"selectors": [selector]})


def test_a_label_may_have_the_name_of_a_selector():
    assert not is_left_alone(RULE, notebook(labels={"matchLabels": "b"}), {"selectors": [{"matchLabels": "b"}]})


@pytest.mark.parametrize(
    ("owner", "remedy"),
    [("", "Set it to 43200 or less."), ("StatefulSet", "Leave it out."), ("ReplicaSet", "Leave it out.")],
)
def test_nobody_is_told_to_write_a_limit_where_kubernetes_refuses_it(owner, remedy):
    (message,) = messages(RULE, notebook(owner=owner, activeDeadlineSeconds=TWO_DAYS))
    assert message.endswith(f"at most. {remedy}")


def _server(raw):
    return {**raw, "metadata": {**raw["metadata"], "labels": {**raw["metadata"]["labels"], **HUB}}}


CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=_server(raw), breaks=spec_with(_server(raw), "activeDeadlineSeconds", 1_000_000)),
    values=st.fixed_dictionaries(
        {
            "max": st.sampled_from(("12h", "2h", "1m")),
            "missing": st.sampled_from(("inject", "refuse")),
            "longer": st.sampled_from(("cap", "cap", "refuse")),
        },
        optional={"selectors": st.lists(st.sampled_from(({"component": "singleuser-*"}, {"app": "*"})), min_size=1)},
    ),
    enforced={},
    injecting={"max": "8h"},
    fuzzed={
        "selectors": [{"component": "singleuser-server"}, {"notebook-name": "*"}],
        "max": "2h",
        "missing": "inject",
        "longer": "refuse",
    },
)

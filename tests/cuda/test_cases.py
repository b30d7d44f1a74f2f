"""Worked cases from the name of an image to the verdict."""

from pathlib import Path

import pytest

from tests import quick_yaml
from webhook.cuda.checks import Verdict
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import BuiltFor, Compat
from webhook.cuda.offer import offer_from
from webhook.cuda.verdict import judge
from webhook.model.image import ImageConfig, ImageInfo

CASES = quick_yaml.load(Path(__file__).with_name("cases.yaml").read_text())


def by_configuration(case):
    env = case.get("env")
    info = ImageInfo() if env is None else ImageInfo(ImageConfig("sha256:0", env))
    return need_of(case["image"], ImageContext(info=info))


def by_container(case):
    return need_of(case["image"], ImageContext(env=tuple(case.get("env", {}).items())))


def assert_as_expected(case, need):
    assert need.spelled == case["cuda"]
    judgement = judge(need, offer_from(**case["node"]))
    assert judgement.verdict in (case["verdict"], *case.get("also", ()))
    assert judgement.gate == case["gate"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_an_image_is_judged_on_a_node(case):
    assert_as_expected(case, by_configuration(case))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if "env" in case])
def test_variables_of_the_container_count_like_those_of_the_image(case):
    assert_as_expected(case, by_container(case))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["cuda"] != "none"])
def test_cuda_compat_in_an_image_is_known_or_left_open(case):
    assert by_configuration(case).compat in (Compat(case["compat"]), Compat.UNKNOWN)


def test_the_cases_cover_every_verdict():
    needs = [by_configuration(case) for case in CASES]
    assert {need.kind for need in needs} == set(BuiltFor)
    assert {case["verdict"] for case in CASES} == set(Verdict)
    assert {case["gate"] for case in CASES} == set(Gate)

"""Tables with rows of a platform: their effect on verdicts. Two tables never mix."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.strategies import checked, examples
from webhook.cuda.assessment import assess, expected_labels
from webhook.cuda.checks import Verdict
from webhook.cuda.compiled_code import Kernels
from webhook.cuda.cuda_messages import remedy_for
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import offer_from, offer_of
from webhook.cuda.verdict import judge
from webhook.gpus.steering import Cause
from webhook.model.node import NodeClass
from webhook.model.versions import parse_version

WHO = {"source": "me", "date": "unknown"}
CUDA_14 = {"cuda": "14.0.0", "driver": "650.10.02", **WHO}
CUDA_14_1 = {"cuda": "14.1.0", "driver": "660.20.01", **WHO}
BRANCH_650 = {"branch": 650, "cuda": "14.0", **WHO}
BRANCH_660 = {"branch": 660, "cuda": "14.1", **WHO}
FLOOR_14 = {"major": 14, "driver": "650.10.02", "reported": "14.0", **WHO}
NEXT_GPU = {"compute": "14.0", "family": "feynman", "firstCuda": "14.0", "firstBranch": 650, **WHO}

WITH_14 = SHIPPED.merged({"toolkits": [CUDA_14], "drivers": [BRANCH_650]})
WITH_14_1 = SHIPPED.merged({"toolkits": [CUDA_14, CUDA_14_1], "drivers": [BRANCH_650, BRANCH_660]})


def image(cuda: str, compat: Compat = Compat.NO) -> Need:
    return Need(BuiltFor.CUDA, parse_version(cuda), "", compat=compat)


def verdict(cuda, driver, tables, compat=Compat.NO):
    return judge(image(cuda, compat), offer_from(driver=driver, compute="9.0"), tables).verdict


def test_rows_of_a_platform_leave_the_tables_of_the_release_as_they_are():
    before = len(SHIPPED.toolkits.rows), SHIPPED.drivers.newest
    SHIPPED.merged({"toolkits": [CUDA_14], "drivers": [BRANCH_650]})
    assert (len(SHIPPED.toolkits.rows), SHIPPED.drivers.newest) == before


@golden
def test_a_row_makes_a_newer_cuda_known(driver, before, after):
    assert verdict("14.0.0", driver, SHIPPED) == before
    assert verdict("14.0.0", driver, WITH_14) == after


@golden
def test_minor_version_compatibility_is_unknown_without_a_floor(driver, without_floor, with_floor):
    """A platform may know a release without the floor of its major version. That refuses no pod."""
    with_a_floor = SHIPPED.merged(
        {"toolkits": [CUDA_14, CUDA_14_1], "drivers": [BRANCH_650, BRANCH_660], "floors": [FLOOR_14]}
    )
    assert verdict("14.1.0", driver, WITH_14_1) == without_floor
    assert verdict("14.1.0", driver, with_a_floor) == with_floor


def test_a_release_alone_refuses_no_driver_of_its_major_version():
    """Without a row for 14.0 it is not known whether 14.1 runs on the drivers of 14.0."""
    alone = SHIPPED.merged({"toolkits": [CUDA_14_1], "drivers": [BRANCH_650, BRANCH_660]})
    assert verdict("14.1.0", "650.10.02", alone) is Verdict.UNKNOWN
    assert verdict("14.1.0", "615.43.01", alone) is Verdict.INCOMPATIBLE


def test_a_driver_branch_of_the_platform_reports_its_cuda():
    tables = SHIPPED.merged({"drivers": [BRANCH_650]})
    labels = expected_labels({}, offer_from(driver="650.10.02"), tables)
    assert labels["nvidia.com/cuda.runtime-version.full"] == "14.0"
    assert "nvidia.com/cuda.runtime-version.full" not in expected_labels({}, offer_from(driver="650.10.02"))


def test_a_row_of_a_compute_capability_makes_a_newer_gpu_known():
    tables = SHIPPED.merged(
        {"toolkits": [CUDA_14], "drivers": [BRANCH_650], "floors": [FLOOR_14], "computeCapabilities": [NEXT_GPU]}
    )
    offer = offer_from(driver="650.10.02", compute="14.0")
    assert judge(image("14.0.0"), offer).verdict is Verdict.UNKNOWN
    assert judge(image("14.0.0"), offer, tables).verdict is Verdict.COMPATIBLE
    old = Need(BuiltFor.CUDA, parse_version("12.4"), "", kernels=Kernels.WITHOUT_PTX)
    assert judge(old, offer, tables).cause is Cause.GPU
    too_old = judge(image("14.0.0"), offer_from(driver="615.43.01", compute="14.0"), tables)
    assert too_old.verdict is Verdict.INCOMPATIBLE
    assert too_old.reason == "compute capability 14.0 needs driver branch 650 or newer; the node has 615.43.01"


def test_the_tag_of_an_unknown_image_may_name_a_release_of_the_platform():
    name = "team/app:14.0.0-base-ubuntu26.04"
    assert need_of(name, ImageContext()).cuda is None
    assert str(need_of(name, ImageContext(tables=WITH_14)).cuda) == "14.0.0"


@pytest.mark.parametrize("order", [(SHIPPED, WITH_14), (WITH_14, SHIPPED)], ids=["release first", "platform first"])
def test_answers_kept_for_one_table_do_not_count_for_another(order):
    need, classes = image("14.0.0"), (NodeClass(labels={"nvidia.com/cuda.driver-version.full": "650.05.01"}),)
    found = [assess((need,), classes, tables, is_forward_compat_allowed=True).verdicts[0].result for tables in order]
    assert {fate.verdict for fate in found} == {Verdict.UNKNOWN, Verdict.INCOMPATIBLE}
    offers = [offer_from(driver="650.05.01", compute="9.0")]
    remedies = [remedy_for("team/app:1", need, offers, tables) for tables in order]
    assert len(set(remedies)) == 2


def test_tables_of_the_same_rows_are_equal_only_to_themselves():
    """Tables are parts of cache keys, and comparing their rows would slow every look-up."""
    assert SHIPPED.merged({"toolkits": [CUDA_14]}) != SHIPPED.merged({"toolkits": [CUDA_14]})


NEXT = {"name": "F100", "compute": "14.0", "dataCenter": True, "brands": ["nvidia"], "product": "NVIDIA-F100", **WHO}


def test_a_gpu_of_the_platform_is_known_by_its_name():
    """Its nodes need no label of their compute capability."""
    tables = SHIPPED.merged({"drivers": [BRANCH_650], "computeCapabilities": [NEXT_GPU], "gpus": [NEXT]})
    labels = {"nvidia.com/gpu.product": "NVIDIA-F100-80GB", "nvidia.com/cuda.driver-version.full": "650.10.02"}
    assert offer_of(labels).compute is None
    offer = offer_of(labels, tables.gpus)
    assert (str(offer.compute), offer.is_data_center) == ("14.0", True)
    old = Need(BuiltFor.CUDA, parse_version("12.4"), "", kernels=Kernels.WITHOUT_PTX)
    assert judge(old, offer, tables).verdict is Verdict.INCOMPATIBLE


def test_the_driver_of_a_gpu_of_the_platform_is_never_certain():
    known = SHIPPED.merged({"gpus": [{**NEXT, "compute": "9.0", "firstDriver": "560.10.01"}]})
    offer = offer_from(product="NVIDIA-F100", driver="550.54.15", gpus=known.gpus)
    assert judge(image("12.4"), offer, known).verdict is Verdict.UNKNOWN


GEFORCE = "NVIDIA-GeForce-RTX-4090"


@each("driver", {"that branch": "650.10.02", "one between it and ours": "640.10"})
def test_a_branch_without_a_row_of_its_toolkit_gives_unknown(driver):
    """The driver reports CUDA 14.0, so it is not too old for CUDA 14.0."""
    tables = SHIPPED.merged({"drivers": [BRANCH_650]})
    answer = judge(image("14.0.0"), offer_from(driver=driver, product=GEFORCE), tables)
    assert answer.verdict is Verdict.UNKNOWN
    assert answer.reason.startswith("which driver CUDA 14.0.0 needs is not known here")
    old = judge(image("14.0.0"), offer_from(driver="615.43.01", product=GEFORCE), tables)
    assert old.verdict is Verdict.INCOMPATIBLE


@each("toolkits", {"no toolkit": [], "its first one": [CUDA_14]})
def test_a_floor_does_not_tell_about_earlier_major_versions(toolkits):
    floor = {"major": 16, "driver": "700.10", "reported": "16.0", **WHO}
    tables = SHIPPED.merged({"floors": [floor], "toolkits": toolkits})
    offer = offer_from(driver="660.10", product=GEFORCE)
    for version in ("14.1", "15.0"):
        assert judge(image(version), offer, tables).verdict is not Verdict.INCOMPATIBLE


def test_a_toolkit_of_the_platform_does_not_tell_about_unknown_gpus():
    """The GPUs may need any CUDA that is newer than this release."""
    tables = SHIPPED.merged({"toolkits": [CUDA_14]})
    need = Need(BuiltFor.CUDA, SHIPPED.toolkits.newest.cut(2), "", kernels=Kernels.WITHOUT_PTX)
    offer = offer_from(driver="650.10.02", compute="15.1")
    assert judge(need, offer, tables).verdict is Verdict.UNKNOWN


VERSIONS = ["12.4", "12.4.1", "13.4.3", "13.5.0", "14", "14.0", "14.0.0", "14.1.0", "15.2", "20.0.1"]
DRIVERS = ["535.54.03", "580", "615.43", "640.1", "650", "650.05.01", "650.10.02", "660.20.01", "700.1", "900.2"]
COMPUTES = ["7.5", "9.0", "12.1", "14.0", "15.1"]


def _rows(*keys: str, **pools: list[object]) -> st.SearchStrategy[list[dict[str, object]]]:
    """Rows with some of these values, and with distinct first values."""
    row = st.fixed_dictionaries(
        {key: st.sampled_from(pools[key]) for key in keys},
        optional={key: st.sampled_from(values) for key, values in pools.items() if key not in keys},
    )
    return st.lists(row.map(lambda one: {**one, **WHO}), max_size=3, unique_by=lambda one: one[keys[0]])


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "toolkits": _rows("cuda", "driver", cuda=["13.5.0", "14.0.0", "14.1.0", "20.0.1"], driver=DRIVERS),
        "floors": _rows("major", "driver", "reported", major=[14, 20], driver=DRIVERS, reported=["14.0", "20.0"]),
        "drivers": _rows("branch", "cuda", branch=[640, 650, 660, 900], cuda=["13.4", "14.0", "14.1", "20.0"]),
        "computeCapabilities": _rows(
            "compute",
            "family",
            "firstCuda",
            compute=COMPUTES,
            family=["feynman"],
            firstCuda=["13.5", "14.0"],
            firstBranch=[640, 650],
            lastBranch=[660],
        ),
        "images": _rows("image", "cuda", image=["team/*", "nvidia/cuda"], cuda=["13.5", "14.0"], compat=[True, False]),
    },
)


@settings(checked, max_examples=examples(60))
@given(SPECS, st.sampled_from(list(Compat)))
def test_any_rows_of_a_platform_give_every_question_an_answer(spec, compat):
    """Tenants ask the questions. The rows include some that loading refuses."""
    tables = SHIPPED.merged(spec)
    for cuda in VERSIONS:
        need = image(cuda, compat)
        for driver in DRIVERS:
            for compute in COMPUTES:
                offer = offer_from(driver=driver, compute=compute)
                judgement = judge(need, offer, tables)
                assert judgement.reason
        offers = [offer_from(driver=driver, compute="9.0") for driver in DRIVERS[:3]]
        assert remedy_for("nvidia/cuda:14.0.0-base-ubuntu26.04", need, offers, tables)


@settings(checked, max_examples=examples(60))
@given(SPECS)
def test_rows_about_newer_things_change_no_verdict_about_what_the_release_knows(spec):
    """Rows only add knowledge about their own subject."""
    rows = {key: value for key, value in spec.items() if key in ("toolkits", "drivers", "floors")}
    tables = SHIPPED.merged(rows)
    for cuda in ("11.8", "12.4.1", "12", "13.0.1", "13.4.3"):
        for driver in ("470.82.01", "535.54.03", "580.95.05", "615.43"):
            offer = offer_from(driver=driver, compute="8.0")
            assert judge(image(cuda), offer, tables) == judge(image(cuda), offer)

"""Verdicts about images on nodes: what decides, and laws that hold for all verdicts."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cuda.test_gate import ENVS
from tests.golden import each
from tests.strategies import checked
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.gate import Gate
from webhook.cuda.need import BuiltFor, Compat, ImageEnv, Need
from webhook.cuda.offer import Offer, offer_from
from webhook.cuda.verdict import judge
from webhook.gpus.gpu_table import GPUS
from webhook.gpus.steering import Cause
from webhook.model.versions import Version, parse_version

TOOLKITS = SHIPPED.toolkits
BRANCHES = SHIPPED.drivers.rows
CAPABILITIES = SHIPPED.capabilities

V100, A100, T4 = "Tesla-V100-SXM2-32GB", "NVIDIA-A100-SXM4-80GB", "Tesla-T4"


def cuda_need(cuda, **facts):
    return Need(BuiltFor.CUDA, None if cuda is None else parse_version(cuda), "", **facts)


@each(
    "need, node, verdict, cause",
    {
        "for the CPU": (Need(BuiltFor.NONE, None, ""), {}, Verdict.COMPATIBLE, Cause.NONE),
        "for another GPU": (Need(BuiltFor.OTHER, None, "", platform="ROCm"), {}, Verdict.INCOMPATIBLE, Cause.IMAGE),
        "for what?": (Need(BuiltFor.UNKNOWN, None, ""), {"driver": "550.54.15"}, Verdict.UNKNOWN, Cause.IMAGE),
        "some CUDA": (cuda_need(None), {"driver": "550.54.15"}, Verdict.UNKNOWN, Cause.IMAGE),
        "the framework decides without the CUDA": (
            cuda_need(None, compute_floor=parse_version("7.5")),
            {"product": V100},
            Verdict.INCOMPATIBLE,
            Cause.GPU,
        ),
        "the CPU decides without the CUDA": (
            Need(BuiltFor.UNKNOWN, None, "", architectures=("amd64",)),
            {"arch": "arm64"},
            Verdict.INCOMPATIBLE,
            Cause.ARCHITECTURE,
        ),
        "the GPU decides without the driver": (cuda_need("13.0"), {"product": V100}, Verdict.INCOMPATIBLE, Cause.GPU),
        "what is certain outweighs what is not": (
            cuda_need("13.0", compat=Compat.NO),
            {"product": "NVIDIA-GB10", "driver": "570.26"},
            Verdict.INCOMPATIBLE,
            Cause.DRIVER,
        ),
        "what is not known outweighs what is right": (
            cuda_need("12.8.1", compute_floor=parse_version("7.5"), is_floor_verified=False),
            {"product": V100, "driver": "570.124.06"},
            Verdict.UNKNOWN,
            Cause.GPU,
        ),
        "the first of several faults is named": (
            cuda_need("13.0", architectures=("arm64",)),
            {"product": V100, "arch": "amd64", "driver": "470.82.01"},
            Verdict.INCOMPATIBLE,
            Cause.ARCHITECTURE,
        ),
        "all fits": (cuda_need("12.4.1"), {"product": A100, "driver": "550.54.15"}, Verdict.COMPATIBLE, Cause.NONE),
        "a CUDA nobody has read, where its major version is enough": (
            cuda_need("12.1.1", is_cuda_verified=False),
            {"product": A100, "driver": "535.54.03"},
            Verdict.COMPATIBLE,
            Cause.NONE,
        ),
        "a CUDA nobody has read, where its minor version matters": (
            cuda_need("11.7.0", is_cuda_verified=False),
            {"product": "NVIDIA-H100-PCIe", "driver": "535.54.03"},
            Verdict.UNKNOWN,
            Cause.GPU,
        ),
    },
)
def test_a_verdict_has_its_cause(need, node, verdict, cause):
    judgement = judge(need, offer_from(**node))
    assert (judgement.verdict, judgement.cause) == (verdict, cause)


@each(
    "need, gate",
    {
        "for the CPU": (Need(BuiltFor.NONE, None, "", env=ImageEnv.of({"NVIDIA_REQUIRE_CUDA": "x"})), "n/a"),
        "for another GPU": (Need(BuiltFor.OTHER, None, ""), "n/a"),
        "nothing required": (Need(BuiltFor.UNKNOWN, None, "", env=ImageEnv.of({})), "n/a"),
        "nothing known": (Need(BuiltFor.UNKNOWN, None, ""), "unknown"),
        "passes": (cuda_need("13.0", env=ImageEnv.of({"NVIDIA_REQUIRE_CUDA": "cuda>=9.0"})), "pass"),
        "fails": (cuda_need("12.4", env=ImageEnv.of({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"})), "fail"),
    },
)
def test_the_container_toolkits_own_check_is_apart_from_the_verdict(need, gate):
    judgement = judge(need, offer_from(product=V100, driver="535.54.03"))
    assert judgement.gate is Gate(gate)


def test_an_image_for_another_platform_is_refused_by_its_name():
    judgement = judge(Need(BuiltFor.OTHER, None, "", platform="ROCm"), offer_from(product=T4))
    assert judgement.reason == "the image is built for ROCm, not for NVIDIA GPUs"


_some = st.sampled_from
CUDAS = _some(
    [
        *(toolkit.cuda for toolkit in TOOLKITS.rows),
        *TOOLKITS.minors,
        *dict.fromkeys(minor.cut(1) for minor in TOOLKITS.minors),
    ]
    + [parse_version(odd) for odd in ("6.5", "9.9", "12.7", "12.9.9", "13.9", "14", "14.0", "15.1.2")]
)
FLOORS = st.none() | _some([row.compute for row in CAPABILITIES.rows])
ARCHS = ("", "amd64", "arm64")
NEEDS = st.builds(
    Need,
    st.just(BuiltFor.CUDA),
    CUDAS,
    st.just(""),
    compat=_some(Compat),
    compute_floor=FLOORS,
    is_floor_verified=st.booleans(),
    architectures=_some([(), ("amd64",), ("amd64", "arm64")]),
    is_cuda_verified=st.booleans(),
)
NUMBERS = [branch.number for branch in BRANCHES] + [340, 540, 620, 700]
DRIVERS = st.one_of(
    st.builds(lambda *numbers: Version(numbers), _some(NUMBERS), st.integers(10, 130)),
    st.builds(lambda *numbers: Version(numbers), _some(NUMBERS), st.integers(10, 130), st.integers(0, 10)),
    _some([toolkit.driver for toolkit in TOOLKITS.rows if toolkit.has_exact_driver]),
)
NAMES = _some(["", *sorted({" ".join(sorted(model.words)) for model in GPUS.models if model.traits})])
COMPUTES = st.none() | _some([row.compute for row in CAPABILITIES.rows])
REPORTED = _some([branch.cuda for branch in BRANCHES] + [parse_version(odd) for odd in ("12", "13.9", "14.1")])
OFFERS = st.builds(
    Offer, driver=DRIVERS, product=NAMES, compute=COMPUTES, arch=_some(ARCHS), is_data_center=_some([True, False, None])
)
ORDER = [Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.COMPATIBLE]


def is_dropped(offer):
    """Whether the branch of the driver no longer supports the GPU."""
    row = CAPABILITIES.generation_of(offer.compute) if offer.compute is not None else None
    return row is not None and row.last_branch is not None and offer.driver.major > row.last_branch


@checked
@given(NEEDS, OFFERS, DRIVERS)
def test_a_newer_driver_is_never_worse_without_cuda_compat(need, offer, driver):
    need, newer = replace(need, compat=Compat.NO), replace(offer, driver=driver)
    assume(driver.at_least(offer.driver) and is_dropped(offer) == is_dropped(newer))
    assert ORDER.index(judge(need, offer).verdict) <= ORDER.index(judge(need, newer).verdict)


@checked
@given(NEEDS, OFFERS, DRIVERS)
def test_a_newer_driver_runs_all_that_an_older_one_runs_unless_it_dropped_the_gpu(need, offer, driver):
    newer = replace(offer, driver=driver)
    assume(driver.at_least(offer.driver) and judge(need, offer).verdict is Verdict.COMPATIBLE)
    assert judge(need, newer).verdict is (Verdict.INCOMPATIBLE if is_dropped(newer) else Verdict.COMPATIBLE)


@checked
@given(NEEDS, OFFERS, CUDAS)
def test_for_the_driver_an_older_cuda_of_a_major_version_is_never_worse(need, offer, cuda):
    need, offer = replace(need, compat=Compat.NO, is_cuda_verified=True), replace(offer, compute=None)
    older = replace(need, cuda=cuda)
    assume(cuda.major == need.cuda.major and len(cuda.parts) == len(need.cuda.parts) and need.cuda.at_least(cuda))
    assert ORDER.index(judge(older, offer).verdict) >= ORDER.index(judge(need, offer).verdict)


@checked
@given(NEEDS, OFFERS)
def test_cuda_compat_only_ever_helps_data_centre_gpus_whose_driver_is_too_old(need, offer):
    with_it = judge(replace(need, compat=Compat.YES), offer).verdict
    without = judge(replace(need, compat=Compat.NO), offer).verdict
    perhaps = judge(replace(need, compat=Compat.UNKNOWN), offer).verdict
    if with_it is not without:
        assert without is Verdict.INCOMPATIBLE
        assert perhaps is Verdict.UNKNOWN
        assert offer.is_data_center is not False
    else:
        assert perhaps is without


@checked
@given(NEEDS, OFFERS)
def test_a_verdict_about_a_branch_holds_for_all_its_drivers(need, offer):
    branch = replace(offer, driver=offer.driver.cut(1), is_driver_exact=False)
    said = judge(need, branch).verdict
    assert said in (Verdict.UNKNOWN, judge(need, offer).verdict)


@checked
@given(NEEDS, OFFERS, _some(TOOLKITS.rows), st.integers(1, 2))
def test_a_verdict_about_a_partial_cuda_version_holds_for_all_its_releases(need, offer, toolkit, length):
    need = replace(need, is_cuda_verified=True)
    said = judge(replace(need, cuda=toolkit.cuda.cut(length)), offer).verdict
    assert said in (Verdict.UNKNOWN, judge(replace(need, cuda=toolkit.cuda), offer).verdict)


@checked
@given(NEEDS, OFFERS)
def test_a_verdict_about_an_unverified_cuda_holds_for_its_whole_major_version(need, offer):
    said = judge(replace(need, is_cuda_verified=False), offer).verdict
    for toolkit in TOOLKITS.toolkits_of(need.cuda.cut(1)):
        known = judge(replace(need, cuda=toolkit.cuda, is_cuda_verified=True), offer).verdict
        assert said in (Verdict.UNKNOWN, known)


@checked
@given(NEEDS, OFFERS, _some(TOOLKITS.minors[5:]))
def test_a_verdict_by_the_reported_cuda_holds_for_the_driver_of_that_cuda(need, offer, reported):
    shipped = TOOLKITS.toolkits_of(reported)[-1]
    told = replace(offer, driver=None, cuda=reported)
    exact = replace(
        offer, driver=shipped.driver if shipped.has_exact_driver else Version((shipped.driver.major, 71, 9))
    )
    assert judge(need, told).verdict in (Verdict.UNKNOWN, judge(need, exact).verdict)


@checked
@given(NEEDS, OFFERS, st.sets(_some(["driver", "compute", "is_data_center", "product"])))
def test_an_incompatibility_stays_once_more_is_known(need, offer, unknown):
    blank = Offer()
    less = replace(offer, **{name: getattr(blank, name) for name in unknown})
    if judge(need, less).verdict is Verdict.INCOMPATIBLE:
        assert judge(need, offer).verdict is Verdict.INCOMPATIBLE


@checked
@given(
    st.builds(Need, _some(BuiltFor), st.none() | CUDAS, st.text(), env=st.none() | ENVS, compute_floor=FLOORS),
    st.builds(
        Offer,
        driver=st.none() | DRIVERS,
        is_driver_exact=st.booleans(),
        cuda=st.none() | REPORTED,
        product=st.text(),
        compute=COMPUTES,
        arch=st.text(max_size=5),
        problems=st.lists(st.text(), max_size=2).map(tuple),
    ),
)
def test_every_verdict_has_a_cause_and_a_reason(need, offer):
    judgement = judge(need, offer)
    assert (judgement.cause is Cause.NONE) == (judgement.verdict is Verdict.COMPATIBLE)
    assert judgement.reason
    assert not judgement.reason.endswith(".")
    assert judge(need, offer) == judgement

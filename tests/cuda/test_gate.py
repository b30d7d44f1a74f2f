"""The container toolkit's own check of images on nodes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.test_requirement import REQUIREMENTS
from tests.golden import each, golden
from tests.strategies import checked
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.gate import Gate, legacy_gate
from webhook.cuda.need import ImageEnv
from webhook.cuda.offer import offer_from
from webhook.model.versions import parse_version

COMPAT = SHIPPED.forward_compat

A100, H100, V100, T4, L4 = (
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3",
    "Tesla-V100-SXM2-32GB",
    "Tesla-T4",
    "NVIDIA-L4",
)


def base(cuda, **changes):
    return ImageEnv.of(*({**env, **changes} for env in COMPAT.base_image_env(parse_version(cuda))))


def env(**variables):
    return ImageEnv.of(variables)


@each(
    "image, product, driver, gate",
    {
        "a branch of the brand": (base("12.4.1"), A100, "535.161.08", Gate.PASS),
        "a branch not listed, though CUDA would run": (base("12.4.1"), A100, "545.23.08", Gate.FAIL),
        "another branch not listed": (base("12.4.0"), V100, "530.30.02", Gate.FAIL),
        "the CUDA of the driver": (base("12.4.1"), T4, "550.54.15", Gate.PASS),
        "no term for the brand": (base("12.6.3"), "NVIDIA-GeForce-RTX-4090", "550.120", Gate.FAIL),
        "a branch of an older major version": (base("13.0.0"), H100, "570.124.06", Gate.PASS),
        "a branch between two that are listed": (base("13.0.0"), H100, "560.35.03", Gate.FAIL),
        "the longest that is known": (base("13.4.3"), H100, "615.71.09", Gate.PASS),
        "an image without a requirement": (env(CUDA_VERSION="11.6.2"), A100, "470.82.01", Gate.FAIL),
        "and a driver for it": (env(CUDA_VERSION="11.6.2"), A100, "510.47.03", Gate.PASS),
        "switched off by true": (base("12.4.0", NVIDIA_DISABLE_REQUIRE="true"), V100, "530.30.02", Gate.PASS),
        "switched off by 1": (base("12.4.0", NVIDIA_DISABLE_REQUIRE="1"), V100, "530.30.02", Gate.PASS),
        "yes is not true": (base("12.4.0", NVIDIA_DISABLE_REQUIRE="yes"), V100, "530.30.02", Gate.FAIL),
        "nothing is not true": (base("12.4.0", NVIDIA_DISABLE_REQUIRE=""), V100, "530.30.02", Gate.FAIL),
        "all variables must hold": (
            env(NVIDIA_REQUIRE_CUDA="cuda>=11.6", NVIDIA_REQUIRE_BRAND="brand=tesla"),
            A100,
            "550.54.15",
            Gate.FAIL,
        ),
        "and": (env(NVIDIA_REQUIRE_CUDA="cuda>=12.0,arch>=8.0"), T4, "550.54.15", Gate.FAIL),
        "or": (env(NVIDIA_REQUIRE_CUDA="cuda>=12.0 arch>=8.0"), T4, "550.54.15", Gate.PASS),
        "an unknown name": (env(NVIDIA_REQUIRE_CUDA="foo=bar cuda>=11.0"), T4, "550.54.15", Gate.FAIL),
        "behind what holds": (env(NVIDIA_REQUIRE_CUDA="cuda>=11.0 foo=bar"), T4, "550.54.15", Gate.PASS),
        "the whole driver": (env(NVIDIA_REQUIRE_CUDA="cuda>=12.4,driver!=550.54.14"), L4, "550.54.15", Gate.PASS),
        "no operator": (env(NVIDIA_REQUIRE_CUDA="cuda==12.4"), T4, "550.54.15", Gate.FAIL),
        "NGC's constant says nothing": (
            env(CUDA_VERSION="13.3.1.008", NVIDIA_REQUIRE_CUDA="cuda>=9.0"),
            V100,
            "535.183.01",
            Gate.PASS,
        ),
        "any name after the prefix": (env(NVIDIA_REQUIRE_FOO="cuda>=12.5"), T4, "550.54.15", Gate.FAIL),
        "Jetson's": (env(NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS="csv-mounts=all"), T4, "550.54.15", Gate.NOT_APPLICABLE),
        "no requirement": (env(), T4, "550.54.15", Gate.NOT_APPLICABLE),
        "nothing of NVIDIA's": (env(PATH="/bin"), T4, None, Gate.NOT_APPLICABLE),
        "nothing known of the image": (None, T4, "550.54.15", Gate.UNKNOWN),
        "nothing known of the node": (base("12.4.1"), "", None, Gate.UNKNOWN),
        "some brand, perhaps one listed": (base("12.4.1"), "NVIDIA-R100", "535.54.03", Gate.UNKNOWN),
        "some brand, of which one would not": (base("12.6.3"), "", "550.54.15", Gate.UNKNOWN),
        "a virtual GPU": (base("12.6.3"), "GRID-T4-16Q", "535.161.05", Gate.PASS),
        "a branch is enough": (base("12.6.3"), A100, "550", Gate.PASS),
        "a branch is not enough": (env(NVIDIA_REQUIRE_CUDA="driver>=550.54"), A100, "550", Gate.UNKNOWN),
        "every build passes": (base("11.8.0"), T4, "470.82.01", Gate.PASS),
        "one build passes": (base("11.8.0"), T4, "450.80.02", Gate.UNKNOWN),
        "no build passes": (base("11.8.0"), T4, "460.32.03", Gate.FAIL),
        "a version not seen, on its own driver": (base("13.4.1"), H100, "615.71.09", Gate.PASS),
        "a version not seen, on an old driver": (base("13.4.1"), H100, "535.54.03", Gate.UNKNOWN),
        "a version not seen, on a very old driver": (base("13.4.1"), H100, "525.60.13", Gate.FAIL),
    },
)
def test_a_container_passes_or_not(image, product, driver, gate):
    assert legacy_gate(image, offer_from(driver=driver, product=product, arch="amd64")) is gate


@golden
def test_a_requirement_is_made_of_the_cuda_version_where_the_image_has_an_empty_one(version, gate):
    image = env(CUDA_VERSION=version, NVIDIA_REQUIRE_CUDA="")
    assert legacy_gate(image, offer_from(driver="550.54.15", product=T4)) == gate


@golden
def test_an_incomplete_environment_is_certain_only_if_it_passes(driver, gate):
    image = ImageEnv.of({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, is_complete=False)
    assert legacy_gate(image, offer_from(driver=driver, product=A100)) == gate


def test_an_incomplete_environment_without_variables_is_unknown():
    assert legacy_gate(ImageEnv.of({}, is_complete=False), offer_from(driver="550.54.15")) is Gate.UNKNOWN
    assert legacy_gate(ImageEnv.of(), offer_from(driver="550.54.15")) is Gate.UNKNOWN


@golden
def test_builds_for_another_architecture_do_not_count(arch, gate):
    node = offer_from(driver="525.60.13", product=A100, arch=arch)
    assert legacy_gate(base("12.2.2"), node) == gate


def test_a_build_that_says_it_is_for_another_architecture_counts_where_it_is_the_only_one():
    image = env(NVARCH="sbsa", NVIDIA_REQUIRE_CUDA="cuda>=12.4")
    assert legacy_gate(image, offer_from(driver="535.54.03", arch="amd64")) is Gate.FAIL


def test_the_cuda_that_the_node_reports_counts_before_that_of_its_branch():
    image = env(NVIDIA_REQUIRE_CUDA="cuda>=12.6")
    assert legacy_gate(image, offer_from(driver="540.4.0", cuda="12.6")) is Gate.PASS
    assert legacy_gate(image, offer_from(driver="540.4.0")) is Gate.UNKNOWN


def test_variants_that_agree_in_starting_pass():
    assert (
        legacy_gate(ImageEnv.of({}, {"NVIDIA_REQUIRE_CUDA": "cuda>=9.0"}), offer_from(driver="550.54.15")) is Gate.PASS
    )


@golden
def test_requirements_longer_than_any_real_one_are_not_evaluated(requirement):
    node = offer_from(driver="550.54.15", product=T4)
    half = requirement * (4096 // len(requirement) // 2)
    assert legacy_gate(env(NVIDIA_REQUIRE_A=half), node) is Gate.FAIL
    assert legacy_gate(env(NVIDIA_REQUIRE_A=half, NVIDIA_REQUIRE_B=half + requirement * 3), node) is Gate.UNKNOWN


NAMES = st.sampled_from(["NVIDIA_REQUIRE_CUDA", "NVIDIA_REQUIRE_X", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION", "NVARCH"])
ENVS = st.builds(
    lambda variants, is_complete: ImageEnv.of(*variants, is_complete=is_complete),
    st.lists(st.dictionaries(NAMES, REQUIREMENTS | st.text(max_size=20)), max_size=3),
    st.booleans(),
)


@checked
@given(st.none() | ENVS, st.sampled_from([None, "535", "550.54.15"]), st.sampled_from([A100, "", "NVIDIA-R100"]))
def test_any_environment_has_a_result(image, driver, product):
    assert legacy_gate(image, offer_from(driver=driver, product=product)) in Gate

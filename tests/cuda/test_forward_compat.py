"""The drivers from which cuda-compat runs a CUDA."""

from itertools import pairwise

import pytest

from webhook.cuda.cuda_tables import SHIPPED
from webhook.model.versions import parse_version

TOOLKITS = SHIPPED.toolkits
DRIVERS = SHIPPED.drivers
COMPAT = SHIPPED.forward_compat

KNOWN = {branch.number for branch in DRIVERS.rows}


def test_every_listing_is_newer_than_the_one_before_and_of_a_known_toolkit():
    assert all(one.cuda < other.cuda for one, other in pairwise(COMPAT.rows))
    assert {row.cuda for row in COMPAT.rows} <= set(TOOLKITS.minors)


def test_branches_are_known_ones():
    assert {branch for row in COMPAT.rows for build in row.builds for branch in build.branches} <= KNOWN


def test_every_release_of_a_listing_has_a_build():
    for row in COMPAT.rows:
        assert all(row.builds_of(toolkit.cuda) for toolkit in TOOLKITS.toolkits_of(row.cuda))


@pytest.mark.parametrize(
    ("cuda", "branch", "arch", "answer"),
    [
        pytest.param("13.0.0", 535, "amd64", True, id="listed"),
        pytest.param("13.0.0", 560, "amd64", False, id="not listed"),
        pytest.param("12.9.1", 470, "amd64", False, id="470 is dropped from 12.9 on"),
        pytest.param("12.8.1", 470, "amd64", True, id="470 before that"),
        pytest.param("12.4.1", 470, "arm64", True, id="arm64 as amd64"),
        pytest.param("12.2.2", 470, "arm64", False, id="arm64 without"),
        pytest.param("12.2.2", 470, "amd64", True, id="amd64 of the same"),
        pytest.param("12.2.2", 470, "", True, id="an unknown architecture is amd64"),
        pytest.param("12.0.1", 515, "amd64", True, id="dropped in a rebuild only"),
        pytest.param("10.2.89", 418, "amd64", True, id="listed in every build"),
        pytest.param("10.2.89", 440, "amd64", None, id="listed in some builds"),
        pytest.param("10.2.89", 430, "amd64", False, id="listed in none"),
        pytest.param("11.5.0", 418, "amd64", True, id="listed for a release"),
        pytest.param("11.5.2", 418, "amd64", None, id="listed for other releases"),
        pytest.param("11.5", 418, "amd64", None, id="listed for some releases"),
        pytest.param("11.5", 470, "amd64", True, id="listed for all releases"),
        pytest.param("13.3.0", 535, "amd64", True, id="what sources agree on"),
        pytest.param("13.3.0", 550, "amd64", None, id="what one source says"),
        pytest.param("13.3.0", 470, "amd64", False, id="what no source says"),
        pytest.param("13.4.1", 535, "amd64", None, id="a version not seen"),
        pytest.param("13.4.1", 470, "amd64", False, id="a version not seen, a branch long dropped"),
        pytest.param("14.0", 580, "amd64", None, id="a newer major version"),
        pytest.param("14.0", 525, "amd64", False, id="a newer major version, a branch long dropped"),
        pytest.param("12", 470, "amd64", None, id="some 12, of which the last dropped it"),
        pytest.param("12", 460, "amd64", False, id="none of 12"),
        pytest.param("11", 418, "amd64", None, id="some 11"),
        pytest.param("13", 470, "amd64", False, id="none of 13"),
        pytest.param("13", 535, "amd64", None, id="some 13, of which one is not seen"),
        pytest.param("9.2", 384, "amd64", False, id="before there was cuda-compat"),
    ],
)
def test_cuda_compat_runs_on_the_branches_that_images_list(cuda, branch, arch, answer):
    assert SHIPPED.is_base(parse_version(cuda), branch, arch) is answer


@pytest.mark.parametrize(
    ("cuda", "branches"),
    [
        pytest.param("13.0.1", (535, 550, 565, 570, 575), id="listed"),
        pytest.param("11.5.2", (470,), id="by release"),
        pytest.param("13.4", (), id="not seen"),
        pytest.param("12", (), id="several"),
    ],
)
def test_the_branches_of_a_version_can_be_named(cuda, branches):
    assert COMPAT.base_branches(parse_version(cuda)) == branches


@pytest.mark.parametrize(
    ("cuda", "requires"),
    [
        pytest.param("10.0", ["cuda>=10.0 brand=tesla,driver>=384,driver<385"], id="one term"),
        pytest.param("11.3.1", ["cuda>=11.3 brand=tesla,driver>=418,driver<419 driver>=450"], id="any brand"),
        pytest.param(
            "10.1.243",
            [
                "cuda>=10.1 brand=tesla,driver>=418,driver<419",
                "cuda>=10.1 brand=tesla,driver>=396,driver<397 brand=tesla,driver>=410,driver<411"
                " brand=tesla,driver>=418,driver<419",
            ],
            id="two builds",
        ),
    ],
)
def test_base_images_carry_a_requirement(cuda, requires):
    found = COMPAT.base_image_env(parse_version(cuda))
    assert [env["NVIDIA_REQUIRE_CUDA"] for env in found] == requires
    assert all(env["CUDA_VERSION"] == cuda for env in found)


def test_builds_for_architectures_are_told_apart_where_they_differ():
    cuda = parse_version("12.2.2")
    assert [env["NVARCH"] for env in COMPAT.base_image_env(cuda)] == ["x86_64", "sbsa"]
    assert [env["NVIDIA_REQUIRE_CUDA"] for env in COMPAT.base_image_env(cuda, "arm64")] == ["cuda>=12.2"]
    assert all("driver>=525,driver<526" in env["NVIDIA_REQUIRE_CUDA"] for env in COMPAT.base_image_env(cuda, "amd64"))
    assert COMPAT.base_image_env(parse_version("12.4.1"), "arm64") == COMPAT.base_image_env(parse_version("12.4.1"))


def test_consumer_brands_are_gone_from_12_5_on():
    def brands(cuda):
        return {env["NVIDIA_REQUIRE_CUDA"].count("brand=geforce") for env in COMPAT.base_image_env(parse_version(cuda))}

    assert 0 not in brands("12.4")
    assert {0} == brands("12.5") == brands("13.2")


def test_a_version_that_is_not_listed_lies_between_two_extremes():
    least, most = (env["NVIDIA_REQUIRE_CUDA"] for env in COMPAT.base_image_env(parse_version("13.4.1")))
    assert least == "cuda>=13.4"
    assert most.startswith("cuda>=13.4 brand=unknown,driver>=535,driver<536 ")


def test_a_version_without_its_second_number_has_no_requirement():
    assert COMPAT.base_image_env(parse_version("12")) == ()


def test_changing_an_answer_changes_no_other():
    COMPAT.base_image_env(parse_version("12.4"))[0]["NVIDIA_REQUIRE_CUDA"] = ""
    assert COMPAT.base_image_env(parse_version("12.4"))[0]["NVIDIA_REQUIRE_CUDA"]

"""The drivers from which cuda-compat runs a CUDA."""

from itertools import pairwise

from tests.golden import golden
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


@golden
def test_cuda_compat_runs_on_the_branches_that_images_list(cuda, branch, arch, answer):
    assert SHIPPED.is_base(parse_version(cuda), branch, arch) is answer


@golden
def test_the_branches_of_a_version_can_be_named(cuda, branches):
    assert COMPAT.base_branches(parse_version(cuda)) == branches


@golden
def test_base_images_carry_a_requirement(cuda, requires):
    found = COMPAT.base_image_env(parse_version(cuda))
    assert [env["NVIDIA_REQUIRE_CUDA"] for env in found] == list(requires)
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

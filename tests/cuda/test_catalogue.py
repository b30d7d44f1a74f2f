"""Products with versions of their own: the CUDA that tables know, and the tags that they leave open."""

from itertools import pairwise

import pytest

from tests.golden import golden
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.families import look_up
from webhook.cuda.need import BuiltFor, Compat
from webhook.cuda.releases import RAPIDS, RELEASES
from webhook.model.image import ImageConfig, ImageInfo, parse_reference
from webhook.model.versions import parse_version

TOOLKITS = SHIPPED.toolkits


def looked_up(image):
    return look_up(parse_reference(image))


@golden
def test_the_version_of_a_product_tells_the_cuda_that_it_is_built_with(image, cuda):
    found = looked_up(image)
    assert (found.kind, str(found.cuda), found.is_verified) == (BuiltFor.CUDA, cuda, True)


@golden
def test_unverified_versions_stay_marked(image, cuda):
    found = looked_up(image)
    assert (str(found.cuda), found.is_verified) == (cuda, False)


@golden
def test_other_tags_leave_the_version_open(image):
    assert looked_up(image).cuda is None


@golden
def test_images_that_use_only_the_driver_or_no_gpu_need_no_cuda(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.NONE, None)


@golden
def test_images_that_may_need_cuda_are_not_said_to_need_none(image):
    assert looked_up(image).kind is not BuiltFor.NONE


def configured(**env):
    return ImageContext(info=ImageInfo(config=ImageConfig("sha256:0", env)))


def test_the_base_of_an_exporter_does_not_tell_its_need():
    """dcgm-exporter is on nvidia/cuda, and reads the driver."""
    need = need_of("registry.corp/nvidia/dcgm-exporter:4.6.0-4.8.3-ubuntu22.04", configured(CUDA_VERSION="13.2.1"))
    assert (need.kind, need.cuda) == (BuiltFor.NONE, None)


def test_the_configuration_of_other_images_for_the_cpu_still_counts():
    need = need_of("registry.corp/kubeflownotebookswg/jupyter-scipy:v1.9.2", configured(CUDA_VERSION="12.4.1"))
    assert (need.kind, str(need.cuda)) == (BuiltFor.CUDA, "12.4.1")


def test_aws_removed_cuda_compat_from_its_tests_of_nccl():
    found = looked_up("public.ecr.aws/hpc-cloud/nccl-tests:cuda12.8.1-efa1.42.0")
    assert found.base.compat is not Compat.YES


WENT_BACK = {"text-embeddings-inference", "llama-cpp", "ollama", "localai-12", "localai-11"}
"""Products that were once built with an older CUDA than the release before."""


@pytest.mark.parametrize(("product", "rows"), RELEASES.items(), ids=RELEASES)
def test_rows_stand_in_order_and_their_cuda_was_released(product, rows):
    assert all(TOOLKITS.toolkits_of(row.cuda) for row in rows)
    for before, after in pairwise(rows):
        assert before.last is not None
        assert not before.covers(after.first)
        assert after.first.at_least(before.last)
        assert after.cuda.at_least(before.cuda.cut(len(after.cuda.parts))) or product in WENT_BACK


def test_every_release_of_rapids_has_one_version_of_each_cuda():
    for release, versions in RAPIDS.items():
        majors = [parse_version(cuda).major for cuda in versions]
        assert majors == sorted(set(majors)), release
        assert all(TOOLKITS.toolkits_of(parse_version(cuda)) for cuda in versions), release

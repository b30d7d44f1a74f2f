"""Images whose tags are versions of a product, and the tables with its CUDA."""

from itertools import pairwise

import pytest

from tests.golden import golden
from webhook.cuda.compiled_code import Kernels, Way
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.families import look_up
from webhook.cuda.need import BuiltFor
from webhook.cuda.releases import RELEASES
from webhook.model.image import parse_reference
from webhook.model.versions import parse_version

TGI, TEI = "ghcr.io/huggingface/text-generation-inference", "ghcr.io/huggingface/text-embeddings-inference"


def looked_up(image):
    return look_up(parse_reference(image))


@golden
def test_the_version_in_a_tag_tells_the_cuda(image, expected):
    found = looked_up(image)
    assert (found.kind, str(found.cuda)) == (BuiltFor.CUDA, expected)


@golden
def test_a_tag_without_a_row_has_an_unknown_cuda_version(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.CUDA, None)


@golden
def test_variants_for_the_cpu_need_no_cuda(image):
    assert looked_up(image).kind is BuiltFor.NONE


@golden
def test_images_with_no_cuda_or_several_are_unknown(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.UNKNOWN, None)


@golden
def test_text_embeddings_inference_runs_on_a_closed_list_of_gpus(tag, gpus):
    (library,) = looked_up(f"{TEI}:{tag}").libraries
    assert {str(one) for one in library.code if library.way(one) is Way.CODE} == set(gpus.split())
    others = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")
    assert {one for one in others if library.way(parse_version(one)) is not Way.NONE} <= set(gpus.split())


@golden
def test_the_base_of_a_release_tells_whether_cuda_compat_comes_with_it(image, compat):
    assert looked_up(image).base.compat == compat


@golden
def test_the_code_of_a_release_for_newer_gpus_is_known_or_left_open(image, kernels):
    assert need_of(image, ImageContext()).kernels == kernels


def test_an_image_of_an_unknown_version_may_have_ptx():
    """The PyTorch in the latest text-generation-inference is newer than its CUDA_VERSION."""
    need = need_of(f"{TGI}:latest", ImageContext(env=(("CUDA_VERSION", "12.4.0"),)))
    assert need.kernels is Kernels.UNKNOWN


@pytest.mark.parametrize("table", RELEASES.values(), ids=RELEASES)
def test_the_rows_of_a_table_stand_in_order_and_name_their_source(table):
    assert all(
        row.source and row.covers(row.first) and row.last.at_least(row.first.cut(len(row.last.parts))) for row in table
    )
    assert all(
        not earlier.covers(later.first) and later.first.at_least(earlier.first) for earlier, later in pairwise(table)
    )

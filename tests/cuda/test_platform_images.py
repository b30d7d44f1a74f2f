"""Rows of a platform about images: which row counts for an image, and how strong it is."""

import time

import pytest

from tests.golden import golden
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.need import BuiltFor

WHO = {"source": "me", "date": "unknown"}


def table_of(*images: tuple[str, str]) -> CudaTables:
    return SHIPPED.merged({"images": [{"image": glob, "cuda": cuda, **WHO} for glob, cuda in images]})


@golden
def test_a_glob_is_compared_with_every_name_of_an_image(glob, image):
    need = need_of(image, ImageContext(tables=table_of((glob, "14.0"))))
    assert (str(need.cuda), need.evidence) == ("14.0", f"_cuda.yaml images: {glob}")


@pytest.mark.parametrize("image", ["other/app:7", "team/application", "team/app/x", ""])
def test_an_image_without_a_matching_glob_is_read_by_its_name(image):
    known = table_of(("team/app", "14.0"), ("team/app:*", "14.0"))
    assert need_of(image, ImageContext(tables=known)) == need_of(image, ImageContext())


def test_the_most_specific_row_counts():
    known = table_of(("*", "11.8"), ("team/*", "12.1"), ("team/app:*", "12.4"), ("team/app:7", "12.6"))
    found = [
        str(need_of(image, ImageContext(tables=known)).cuda) for image in ("x", "team/x:1", "team/app:1", "team/app:7")
    ]
    assert found == ["11.8", "12.1", "12.4", "12.6"]


def test_a_policy_beats_the_table_and_the_table_beats_the_pod():
    known = table_of(("team/*", "12.1"))
    env = (("CUDA_VERSION", "12.8"),)
    assert str(need_of("team/app", ImageContext(env=env, annotation="12.9", tables=known)).cuda) == "12.1"
    of_policy = ImageContext(mapping=(("team/*", "11.8"),), env=env, tables=known)
    assert str(need_of("team/app", of_policy).cuda) == "11.8"


def test_a_row_may_say_that_images_need_no_cuda():
    known = SHIPPED.merged({"images": [{"image": "nvidia/cuda", "cpuOnly": True, **WHO}]})
    need = need_of("nvidia/cuda:12.4.1-base-ubuntu22.04", ImageContext(tables=known))
    assert (need.kind, need.cuda) == (BuiltFor.NONE, None)


@golden
def test_a_row_may_say_only_what_images_contain(row, compat, kernels):
    known = SHIPPED.merged({"images": [{"image": "nvidia/cuda", **row, **WHO}]})
    need = need_of("nvidia/cuda:12.4.1-base-ubuntu22.04", ImageContext(tables=known))
    assert (str(need.cuda), need.evidence) == ("12.4.1", "tag 12.4.1-base-ubuntu22.04 of nvidia/cuda")
    assert (need.compat, need.kernels) == (compat, kernels)


def test_a_name_made_for_the_globs_takes_no_longer_than_some_milliseconds():
    """Tenants choose names. There are as many globs as a file may have, and each searches the whole name."""
    known = table_of(*((f"*a{n}*b{n}*c{n}*", "12.4") for n in range(200)))
    name = "a1b1" * 250
    began = time.process_time()
    assert need_of(name, ImageContext(tables=known)).cuda is None
    assert time.process_time() - began < 0.25

"""Names of images as people write them, and the CUDA that they say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import quick_yaml
from tests.golden import golden
from tests.strategies import checked
from webhook.cuda.families import look_up
from webhook.cuda.forward_compat import Base
from webhook.cuda.need import BuiltFor
from webhook.model.image import parse_reference

NAMES = quick_yaml.load(Path(__file__).with_name("names.yaml").read_text())
SILENT = NAMES["silent"]
FAMILIES = [*NAMES["cuda"], *NAMES["others"], *NAMES["some"], *NAMES["none"]]
"""Images that the end of the path tells, so that a mirror may stand before it."""


def looked_up(image):
    return look_up(parse_reference(image))


@pytest.mark.parametrize(("image", "expected"), NAMES["cuda"].items())
def test_a_name_says_the_cuda_of_its_image(image, expected):
    found = looked_up(image)
    assert (found.kind, str(found.cuda)) == (BuiltFor.CUDA, expected)


@golden
def test_the_processors_of_an_image_are_known_by_word_or_release(image, architectures):
    assert looked_up(image).architectures == architectures


@pytest.mark.parametrize("image", NAMES["some"])
def test_a_name_may_say_cuda_without_a_version(image):
    found = looked_up(image)
    assert (found.kind, found.cuda) == (BuiltFor.CUDA, None)


@pytest.mark.parametrize("image", NAMES["none"])
def test_images_for_the_cpu_are_known(image):
    assert looked_up(image).kind is BuiltFor.NONE


def test_an_official_image_is_known_directly_beneath_its_mirror_and_not_by_its_name_alone():
    """An organisation's own `ubuntu` may have CUDA."""
    assert looked_up("mirror.corp:5000/ubuntu:22.04").kind is BuiltFor.NONE
    assert looked_up("mirror.corp:5000/team/ubuntu:22.04").kind is BuiltFor.UNKNOWN


@pytest.mark.parametrize(("image", "platform"), NAMES["others"].items())
def test_images_for_other_accelerators_are_known_whatever_else_their_names_say(image, platform):
    found = looked_up(image)
    assert (found.kind, found.platform) == (BuiltFor.OTHER, platform)


@pytest.mark.parametrize("image", SILENT)
def test_a_name_that_says_nothing_gives_unknown(image):
    found = looked_up(image)
    assert (found.kind, found.cuda, found.evidence) == (BuiltFor.UNKNOWN, None, "none")


PREFIXES = st.lists(st.sampled_from(("mirror", "docker-hub", "docker.io", "proxy-1", "a_b")), max_size=2)


@checked
@given(
    st.sampled_from(FAMILIES),
    st.sampled_from(("", "registry.corp/", "localhost:5000/", "1.dkr.ecr.eu-west-1.amazonaws.com/")),
    PREFIXES,
    st.booleans(),
)
def test_no_registry_mirror_or_digest_changes_what_a_family_says(image, registry, prefix, has_digest):
    reference = parse_reference(image)
    path = "/".join((*prefix, reference.repository))
    digest = f"@sha256:{'ab' * 32}" if has_digest else ""
    tag = f":{reference.tag}" if reference.tag else ""
    moved, stayed = looked_up(f"{registry or 'docker.io/'}{path}{tag}{digest}"), looked_up(image)
    assert (moved.kind, moved.cuda, moved.base, moved.platform) == (
        stayed.kind,
        stayed.cuda,
        stayed.base,
        stayed.platform,
    )


@golden
def test_the_base_tells_whether_cuda_compat_comes_with_it(image, compat):
    assert looked_up(image).base.compat == compat


@golden
def test_frameworks_begin_at_a_compute_capability(image, floor, is_verified, certain):
    found = looked_up(image)
    assert (str(found.floor), found.is_floor_verified, str(found.certain_floor)) == (floor, is_verified, certain)


@golden
def test_unverified_rows_stay_marked(image, is_verified):
    assert looked_up(image).is_verified is is_verified


@golden
def test_some_names_tell_the_architecture(image, expected):
    assert looked_up(image).architectures == expected


@golden
def test_doubts_are_noted(image, note):
    assert looked_up(image).notes == (note,)


def test_long_names_are_cut_in_the_evidence():
    found = looked_up(f"{'a' * 200}/app:{'b' * 100}-cu124")
    assert str(found.cuda) == "12.4"
    assert len(found.evidence) < 200


@checked
@given(st.sampled_from(FAMILIES + SILENT), st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", max_size=30))
def test_no_tag_of_any_family_raises(image, tail):
    reference = parse_reference(image)
    found = looked_up(f"{reference.registry}/{reference.repository}:{(reference.tag + tail)[:128]}")
    assert found.cuda is None or found.kind is BuiltFor.CUDA
    assert found.base in Base

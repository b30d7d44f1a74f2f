"""The need of an image follows from the strongest evidence, which it names, and never from weaker evidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.strategies import checked
from webhook.cuda.evidence import ImageContext, cuda_version, need_of, toolkit_env
from webhook.cuda.need import BuiltFor, Compat, ImageEnv
from webhook.model.image import ImageConfig, ImageInfo
from webhook.model.shape import FormatError

IMAGE = "nvcr.io/nvidia/pytorch:24.09-py3"
SILENT = "registry.corp.example/team/app:3"
NGC_GATE = ImageEnv.of({"NVIDIA_REQUIRE_CUDA": "cuda>=9.0"})


def info(env=None, *architectures):
    return ImageInfo(ImageConfig("sha256:" + "0" * 64, env or {}, architectures))


POLICY, ENV, NOTE = (("nvcr.io/*", "11.1"),), (("CUDA_VERSION", "11.2.3.4"),), "11.3"
SEEN = info({"CUDA_VERSION": "11.4.5.006"})


@each(
    "claims, expected, evidence",
    {
        "policy": (ImageContext(POLICY, ENV, NOTE, SEEN), "11.1", "policy images: nvcr.io/*"),
        "container": (ImageContext((), ENV, NOTE, SEEN), "11.2.3", "env CUDA_VERSION=11.2.3.4"),
        "annotation": (ImageContext((), (), NOTE, SEEN), "11.3", "annotation"),
        "registry": (ImageContext((), (), None, SEEN), "11.4.5", "image configuration: CUDA_VERSION=11.4.5.006"),
        "tables": (ImageContext(), "12.6.1", "tag 24.09-py3 of nvidia/pytorch"),
    },
)
def test_stronger_evidence_beats_weaker_evidence(claims, expected, evidence):
    need = need_of(IMAGE, claims)
    assert (need.kind, str(need.cuda), need.evidence) == (BuiltFor.CUDA, expected, evidence)


@each(
    "claims, expected, note",
    {
        "env": (ImageContext((), (("CUDA_VERSION", "latest"),), "12.4"), "annotation", 'CUDA_VERSION: "latest" is not'),
        "annotation": (ImageContext(annotation="newest", info=SEEN), "image", 'annotation: "newest" is not'),
        "configuration": (ImageContext(info=info({"CUDA_VERSION": "12-4"})), "tag", 'CUDA_VERSION: "12-4" is not'),
        "registry": (
            ImageContext(info=ImageInfo(problem="no answer in 10 s")),
            "tag",
            "the look-up in its registry failed: no answer",
        ),
        "policy": (ImageContext((("*", "118"),)), "tag", 'policy images: *: "118" is no version'),
    },
)
def test_evidence_that_cannot_be_read_is_noted_and_the_next_counts(claims, expected, note):
    need = need_of(IMAGE, claims)
    assert need.evidence.startswith(expected)
    assert [text[: len(note)] for text in need.notes] == [note]


def test_a_need_is_pending_until_the_registry_answers_or_stronger_evidence_decides():
    pending = ImageInfo(is_pending=True)
    need = need_of(IMAGE, ImageContext(info=pending))
    assert (need.kind, need.cuda, need.is_pending) == (BuiltFor.UNKNOWN, None, True)
    assert not need_of(IMAGE, ImageContext(annotation="12.4", info=pending)).is_pending
    refreshed = ImageInfo(SEEN.config, is_pending=True)
    assert str(need_of(IMAGE, ImageContext(info=refreshed)).cuda) == "11.4.5"


def test_a_configuration_without_cuda_leaves_the_answer_to_the_tables():
    need = need_of(IMAGE, ImageContext(info=info({})))
    assert str(need.cuda) == "12.6.1"
    assert need_of(SILENT, ImageContext(info=info({}))).kind is BuiltFor.UNKNOWN


@golden
def test_the_policys_longest_glob_decides(mapping, expected):
    assert need_of(SILENT, ImageContext(tuple(mapping.items()))).spelled == expected


@pytest.mark.parametrize("image", ["team/app:1", "docker.io/team/app:1", "index.docker.io/team/app:1", "team/app"])
@pytest.mark.parametrize("glob", ["team/*", "docker.io/team/*", "team/app"])
def test_a_glob_finds_an_image_however_docker_hub_is_spelled(glob, image):
    assert need_of(image, ImageContext(((glob, "11.2"),))).spelled == "11.2"


def test_a_glob_still_finds_an_image_by_its_digest():
    digest = f"@sha256:{'ab' * 32}"
    for image in (f"team/app{digest}", f"team/app:1{digest}"):
        assert need_of(image, ImageContext((("team/app", "11.2"),))).spelled == "11.2"


@pytest.mark.parametrize("word", ["none", " none "])
def test_an_annotation_may_say_that_there_is_no_cuda(word):
    assert need_of(IMAGE, ImageContext(annotation=word)).kind is BuiltFor.NONE


@golden
def test_the_environment_alone_tells_need_compat_and_gate(image, env, expected, compat, gate):
    """Variables of the container and of the registry count alike."""
    need = need_of(image, ImageContext(env=tuple(env.items())))
    assert (str(need.cuda), need.compat) == (expected, compat)
    assert need.env == (ImageEnv.of(gate) if gate else None)
    read = need_of(image, ImageContext(info=info(env)))
    assert (read.cuda, read.compat, read.env) == (need.cuda, compat, ImageEnv.of(env))


def test_a_version_in_the_container_counts_for_the_toolkit_unless_the_image_has_a_requirement():
    env = {"CUDA_VERSION": "11.6.2"}
    need = need_of(SILENT, ImageContext(env=tuple(env.items())))
    assert (str(need.cuda), need.compat) == ("11.6.2", Compat.UNKNOWN)
    assert need.env == ImageEnv.of(env, {"NVIDIA_REQUIRE_CUDA": "cuda>=9.0", **env})
    assert need_of(SILENT, ImageContext(info=info(env))).env == ImageEnv.of(env)


@each(
    "image, expected",
    {
        "CUDA from pip": ("pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime", ImageEnv.of({})),
        "NVIDIA's constant": ("nvcr.io/nvidia/pytorch:27.03-py3", NGC_GATE),
        "a part": (
            "rapidsai/base:25.04-cuda11.8-py3.11",
            ImageEnv.of({"NVIDIA_REQUIRE_CUDA": "cuda>=11.8"}, is_complete=False),
        ),
        "no second number": ("rapidsai/base:26.08-cuda13-py3.13", None),
        "no family": ("team/app:7-cu124", None),
        "for others": ("rocm/pytorch:latest", ImageEnv.of({})),
    },
)
def test_the_family_tells_what_the_container_toolkit_reads(image, expected):
    assert need_of(image, ImageContext()).env == expected


def test_images_of_nvidia_cuda_have_the_environment_of_their_builds():
    need = need_of("nvidia/cuda:12.4.1-base-ubuntu22.04", ImageContext())
    requirements = [dict(variant)["NVIDIA_REQUIRE_CUDA"] for variant in need.env.variants]
    assert need.env.is_complete
    assert requirements
    assert all(text.startswith("cuda>=12.4 brand=") for text in requirements)


def test_the_containers_variables_change_the_gate_and_not_the_base():
    need = need_of(IMAGE, ImageContext(env=(("NVIDIA_DISABLE_REQUIRE", "1"),)))
    assert need.env == ImageEnv.of({"NVIDIA_DISABLE_REQUIRE": "1"})
    assert (str(need.cuda), need.compat) == ("12.6.1", Compat.YES)


def test_a_false_version_does_not_change_the_floor_of_the_framework():
    need = need_of("nvcr.io/nvidia/pytorch:25.03-py3", ImageContext(env=(("CUDA_VERSION", "11.0"),)))
    assert (str(need.cuda), str(need.compute_floor)) == ("11.0", "7.5")


def test_an_image_built_on_a_monthly_release_has_its_floor():
    env = {"CUDA_VERSION": "12.6.3.004", "NVIDIA_PYTORCH_VERSION": "24.11"}
    need = need_of(SILENT, ImageContext(info=info(env)))
    assert (str(need.cuda), str(need.compute_floor), need.is_floor_verified) == ("12.6.3", "7.5", False)
    assert str(need.certain_floor) == "6.0"


def test_unverified_evidence_is_marked():
    need = need_of("nvcr.io/nvidia/pytorch:23.10-py3", ImageContext())
    assert (need.evidence, need.is_cuda_verified) == ("tag 23.10-py3 of nvidia/pytorch, unverified", False)
    assert need_of("nvcr.io/nvidia/pytorch:23.10-py3", ImageContext(annotation="12.2")).is_cuda_verified


def test_the_registry_knows_the_architectures_better_than_the_name():
    image = "lmsysorg/sglang:v0.5.9-cu129-amd64"
    assert need_of(image, ImageContext()).architectures == ("amd64",)
    assert need_of(image, ImageContext(info=info({}, "amd64", "arm64"))).architectures == ("amd64", "arm64")


def test_a_variable_of_unknown_value_hides_the_literal_before_it():
    env = (("CUDA_VERSION", "11.0"), ("CUDA_VERSION", None))
    assert str(need_of(IMAGE, ImageContext(env=env)).cuda) == "12.6.1"


@pytest.mark.parametrize("image", ["", "Not An Image", " python", "python:", "a" * 100_000, "\ud800", "x@y@z"])
def test_a_text_that_is_no_image_is_unknown_and_noted(image):
    need = need_of(image, ImageContext())
    assert (need.kind, need.evidence) == (BuiltFor.UNKNOWN, "none")
    assert need.notes[0].startswith(f'"{image[:50]}')
    assert str(need_of(image, ImageContext(annotation="12.4")).cuda) == "12.4"


@golden
def test_three_numbers_of_a_version_count(text, expected):
    assert str(cuda_version(text)) == expected


@pytest.mark.parametrize(
    "text",
    ["latest", "", "118", "0", "12-4", "12.4.1-1", "$(CUDA)", "12..4", "\u0661\u0662.4", "9" * 100_000, "12.4\x00"],
)
def test_a_text_that_is_no_version_of_cuda_is_refused(text):
    with pytest.raises(FormatError, match="version") as caught:
        cuda_version(text)
    assert len(str(caught.value)) < 250


def of_container(env):
    return need_of(SILENT, ImageContext(env=tuple(env.items())))


@golden
def test_the_strongest_variable_decides(env, expected, variable):
    need = of_container(env)
    assert (str(need.cuda), need.evidence) == (expected, f"env {variable}" if variable else "none")


@golden
def test_variables_that_cannot_be_read_are_noted(env, note):
    assert [text[: len(note)] for text in of_container(env).notes] == [note]


def test_a_hostile_requirement_leaves_few_notes():
    assert len(of_container({"NVIDIA_REQUIRE_CUDA": ",".join(["cuda>=x"] * 10_000)}).notes) < 10


@golden
def test_the_variables_of_nvidia_cuda_stand_for_its_packages(env, expected):
    assert of_container(env).compat == expected


@golden
def test_variables_of_the_container_override_those_of_the_image(image, container, expected):
    def env(said):
        return None if said is None else ImageEnv.of(*said["variants"], is_complete=said["is_complete"])

    assert toolkit_env(env(image), container) == env(expected)


IMAGES = st.sampled_from(
    (IMAGE, SILENT, "nvidia/cuda:13.0.0-base-ubuntu24.04", "rocm/vllm:latest", "python")
) | st.text(max_size=60)
VERSIONS = st.sampled_from(("12.4.1", "13.0.2.006", "9", "latest", "", " 11.8 ", "v12", "118", "none", "12.4\x00"))
NAMES = st.sampled_from(
    (
        "CUDA_VERSION",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_REQUIRE_X",
        "NVIDIA_DISABLE_REQUIRE",
        "NVIDIA_PYTORCH_VERSION",
        "TRITON_SERVER_VERSION",
        "_CUDA_COMPAT_PATH",
        "PATH",
    )
)
VALUES = VERSIONS | st.text(max_size=20) | st.text("cuda>=<,. 0123456789", max_size=40)
ENVS = st.lists(st.tuples(NAMES, st.none() | VALUES), max_size=6).map(tuple)
SIGHTS = st.builds(
    ImageInfo,
    st.none()
    | st.builds(ImageConfig, st.just("sha256:0"), st.dictionaries(NAMES, VALUES, max_size=5), st.just(("amd64",))),
    st.booleans(),
    st.sampled_from(("", "no answer")),
)
MAPPINGS = st.lists(
    st.tuples(st.sampled_from(("*", "nvcr.io/*", "nvidia/cuda*", "?")), st.sampled_from(("12.4", "none", "x"))),
    max_size=3,
).map(tuple)
CLAIMS = st.builds(ImageContext, MAPPINGS, ENVS, st.none() | VALUES, SIGHTS)


@checked
@given(IMAGES, CLAIMS)
def test_no_evidence_raises(image, claims):
    need = need_of(image, claims)
    assert need.cuda is None or (need.kind is BuiltFor.CUDA and 1 <= len(need.cuda.parts) <= 3)
    assert hash(need) == hash(need_of(image, claims))
    assert not (need.is_pending and need.kind is not BuiltFor.UNKNOWN)


ORDER = ("policy images: *", "env CUDA_VERSION=12.2", "annotation", "image configuration: CUDA_VERSION=12.4")


@checked
@given(IMAGES, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_the_strongest_evidence_that_is_there_decides_whatever_the_image(image, mapped, in_env, noted, seen):
    claims = ImageContext(
        (("*", "12.1"),) if mapped else (),
        (("CUDA_VERSION", "12.2"),) if in_env else (),
        "12.3" if noted else None,
        info({"CUDA_VERSION": "12.4"}) if seen else ImageInfo(),
    )
    expected = next((at for at, is_there in enumerate((mapped, in_env, noted, seen)) if is_there), None)
    if expected is not None:
        need = need_of(image, claims)
        assert (str(need.cuda), need.evidence) == (f"12.{expected + 1}", ORDER[expected])


@checked
@given(IMAGES.filter(lambda image: "@" not in image), CLAIMS)
def test_a_digest_behind_a_tag_changes_nothing(image, claims):
    tagged = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
    with_digest = need_of(f"{tagged}@sha256:{'ab' * 32}", claims)
    without = need_of(tagged, claims)
    assert (with_digest.kind, with_digest.cuda, with_digest.env) == (without.kind, without.cuda, without.env)


def test_only_small_answers_are_kept():
    """Otherwise tenants could fill the memory with long values."""
    from webhook.cuda.evidence import _answered

    before = _answered.cache_info().misses
    need = need_of(SILENT, ImageContext(env=(("NVIDIA_REQUIRE_CUDA", "cuda>=12.4 " + "x" * 10_000),)))
    assert str(need.cuda) == "12.4"
    assert _answered.cache_info().misses == before
    need_of(SILENT, ImageContext(env=(("NVIDIA_REQUIRE_CUDA", "cuda>=12.4 a_small_one"),)))
    assert _answered.cache_info().misses == before + 1

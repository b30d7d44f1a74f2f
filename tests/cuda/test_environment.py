"""Environment variables that say the CUDA of an image, and those that the container toolkit reads."""

import pytest

from webhook.cuda.environment import compat_in, cuda_variables, cuda_version, read, release_in, toolkit_env
from webhook.cuda.need import Compat, ImageEnv
from webhook.model.shape import FormatError

GATE, CUDA, OFF = "NVIDIA_REQUIRE_CUDA", "CUDA_VERSION", "NVIDIA_DISABLE_REQUIRE"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("12.4.1", "12.4.1", id="three numbers"),
        pytest.param("13.0.2.006", "13.0.2", id="NVIDIA's four"),
        pytest.param("12.4", "12.4", id="two"),
        pytest.param("12", "12", id="one"),
        pytest.param(" v12.4 ", "12.4", id="blanks and a letter"),
        pytest.param("12.04", "12.4", id="a leading zero"),
    ],
)
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


@pytest.mark.parametrize(
    ("env", "expected", "variable"),
    [
        pytest.param(
            {CUDA: "12.4.1", GATE: "cuda>=11.0"}, "12.4.1", "CUDA_VERSION=12.4.1", id="the version itself first"
        ),
        pytest.param(
            {"NVIDIA_PYTORCH_VERSION": "24.09", GATE: "cuda>=11.0"},
            "12.6.1",
            "NVIDIA_PYTORCH_VERSION=24.09",
            id="a month",
        ),
        pytest.param(
            {"TRITON_SERVER_VERSION": "2.41.0", "NVIDIA_TRITON_SERVER_VERSION": "23.12"},
            "12.3.2",
            "NVIDIA_TRITON_SERVER_VERSION=23.12",
            id="not the version of the server",
        ),
        pytest.param(
            {GATE: "cuda>=12.0 arch>=8.0"}, "12.0", f"{GATE}=cuda>=12.0 arch>=8.0", id="the first alternative"
        ),
        pytest.param(
            {GATE: "  cuda>=11.0,driver>=450,CUDA>=12.1"},
            "12.1",
            f"{GATE}=  cuda>=11.0,driver>=450,CUDA>=12.1",
            id="its largest bound",
        ),
        pytest.param({CUDA: "latest", GATE: "cuda>=12.4"}, "12.4", f"{GATE}=cuda>=12.4", id="the next after nonsense"),
        pytest.param({GATE: "cuda>=9.0"}, "None", "", id="NVIDIA's constant says nothing"),
        pytest.param({GATE: "brand=tesla,driver>=470 cuda>=12.4"}, "None", "", id="no bound in the first alternative"),
        pytest.param({GATE: "cuda<=12.4"}, "None", "", id="no lower bound"),
        pytest.param({"NVIDIA_PYTORCH_VERSION": "27.03"}, "None", "", id="an unknown month"),
        pytest.param({CUDA: " "}, "None", "", id="empty"),
        pytest.param({}, "None", "", id="nothing"),
    ],
)
def test_the_strongest_variable_decides(env, expected, variable):
    found = read(env)
    assert (str(found.cuda), found.variable) == (expected, variable)


@pytest.mark.parametrize(
    ("env", "note"),
    [
        pytest.param({CUDA: "latest"}, 'CUDA_VERSION: "latest" is not a version', id="CUDA_VERSION"),
        pytest.param({GATE: "cuda>=twelve"}, 'NVIDIA_REQUIRE_CUDA: "twelve" is not a version', id="a bound"),
    ],
)
def test_variables_that_cannot_be_read_are_noted(env, note):
    assert [text[: len(note)] for text in read(env).notes] == [note]


def test_a_hostile_requirement_leaves_few_notes():
    assert len(read({GATE: ",".join(["cuda>=x"] * 10_000)}).notes) < 10


def test_an_unverified_month_stays_marked():
    assert not read({"NVIDIA_PYTORCH_VERSION": "23.10"}).is_verified
    assert release_in({"NVIDIA_TENSORFLOW_VERSION": "24.09"}).month == "24.09"
    assert release_in({CUDA: "12.4"}) is None


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({"_CUDA_COMPAT_PATH": "/usr/local/cuda/compat"}, Compat.YES, id="its path"),
        pytest.param({"NV_CUDA_COMPAT_PACKAGE": "cuda-compat-12-4"}, Compat.YES, id="its package"),
        pytest.param({CUDA: "12.4.1", GATE: "cuda>=12.4"}, Compat.YES, id="what nvidia/cuda sets"),
        pytest.param({CUDA: "12.4.1", "NVARCH": "x86_64"}, Compat.YES, id="what nvidia/cuda sets, too"),
        pytest.param({CUDA: "12.4.1"}, Compat.UNKNOWN, id="what anybody sets"),
        pytest.param({GATE: "cuda>=12.4"}, Compat.UNKNOWN, id="a requirement alone"),
        pytest.param({}, Compat.UNKNOWN, id="nothing"),
    ],
)
def test_the_variables_of_nvidia_cuda_stand_for_its_packages(env, expected):
    assert compat_in(env) is expected


def of(*variants, is_complete=True):
    return ImageEnv.of(*variants, is_complete=is_complete)


IMAGE = {CUDA: "12.4.1", GATE: "cuda>=12.4"}


@pytest.mark.parametrize(
    ("image", "container", "expected"),
    [
        pytest.param(of(IMAGE), (), of(IMAGE), id="the image's alone"),
        pytest.param(of(IMAGE), ((GATE, "cuda>=11"),), of({**IMAGE, GATE: "cuda>=11"}), id="the container's wins"),
        pytest.param(of(IMAGE), ((GATE, "a"), (GATE, "b")), of({**IMAGE, GATE: "b"}), id="the last of two"),
        pytest.param(
            of(IMAGE, {}),
            (("NVIDIA_REQUIRE_X", "x"),),
            of({**IMAGE, "NVIDIA_REQUIRE_X": "x"}, {"NVIDIA_REQUIRE_X": "x"}),
            id="over every variant",
        ),
        pytest.param(of(IMAGE), ((GATE, None),), None, id="a requirement that nobody sees"),
        pytest.param(of(IMAGE), (("NVIDIA_REQUIRE_JETPACK", None),), of(IMAGE), id="one that nobody evaluates"),
        pytest.param(of(IMAGE), ((OFF, None),), of(IMAGE, is_complete=False), id="a switch that nobody sees"),
        pytest.param(of(IMAGE), ((CUDA, None),), of(IMAGE), id="a version that does not matter"),
        pytest.param(of({CUDA: "12.4"}), ((CUDA, None),), None, id="a version that matters"),
        pytest.param(
            of(IMAGE, is_complete=False), ((CUDA, "1"),), of({**IMAGE, CUDA: "1"}, is_complete=False), id="a part"
        ),
        pytest.param(of(IMAGE), tuple((f"{GATE}_{at}", "x") for at in range(65)), None, id="more than anybody sets"),
        pytest.param(of(IMAGE), ((f"{GATE}{'_' * 4600}", "x"),), None, id="a longer name than anybody sets"),
        pytest.param(of(IMAGE), ((GATE, "x" * 4600),), None, id="a longer value than anybody sets"),
        pytest.param(of(IMAGE), ((OFF, "1"), (GATE, "x" * 4600)), of({OFF: "1"}), id="whatever it holds, switched off"),
        pytest.param(of(IMAGE), ((OFF, "1"), (GATE, None)), of({OFF: "1"}), id="one that nobody sees, switched off"),
        pytest.param(None, (), None, id="nothing known"),
        pytest.param(
            None, ((CUDA, "12.4"),), of({CUDA: "12.4"}, {CUDA: "12.4", GATE: "cuda>=9.0"}), id="the container's version"
        ),
        pytest.param(None, ((GATE, "cuda>=12"),), of({GATE: "cuda>=12"}), id="the container's requirement"),
        pytest.param(None, (("NVIDIA_REQUIRE_X", "x"),), None, id="another requirement says too little"),
        pytest.param(None, ((OFF, "true"),), of({OFF: "true"}), id="the checks switched off"),
        pytest.param(None, ((OFF, "yes"),), None, id="which yes does not do"),
        pytest.param(None, ((CUDA, "12.4"), ("NVIDIA_REQUIRE_X", None)), None, id="one that nobody sees"),
        pytest.param(
            None,
            ((CUDA, "1"), (OFF, None)),
            of({CUDA: "1"}, {CUDA: "1", GATE: "cuda>=9.0"}, is_complete=False),
            id="a switch alone",
        ),
    ],
)
def test_variables_of_the_container_override_those_of_the_image(image, container, expected):
    assert toolkit_env(image, container) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CUDA_VERSION", True),
        ("NVIDIA_REQUIRE_ANYTHING", True),
        ("NVIDIA_REQUIRE_JETPACK_HOST", False),
        ("PATH", False),
    ],
)
def test_other_variables_are_ignored(name, expected):
    assert bool(cuda_variables(((name, "1"),))) is expected

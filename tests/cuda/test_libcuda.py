"""Which libcuda a container loads, and what CUDA makes of it on the driver of a node."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from webhook.cuda.checks import Verdict
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.libcuda import PATH, Start, start_of
from webhook.cuda.offer import offer_of
from webhook.cuda.verdict import Effect, Judgement, LibcudaFinding, judge
from webhook.model.image import ImageConfig, ImageInfo

PAIRS = yaml.safe_load(Path(__file__).with_name("libcuda_pairs.yaml").read_text())
VLLM, TEI = "vllm/vllm-openai:v0.15.0", "ghcr.io/huggingface/text-embeddings-inference"
CUDA_128 = "nvidia/cuda:12.8.1-base-ubuntu22.04"
NGC = "nvcr.io/nvidia/pytorch:25.10-py3"
COMPAT, SYSTEM = "/usr/local/cuda/compat", "/usr/lib/x86_64-linux-gnu"


def judged(
    image: str,
    driver: str,
    product: str = "NVIDIA-H100-80GB-HBM3",
    *,
    env: dict[str, str | None] | None = None,
    start: Start = Start.ENTRY_POINT,
    config: dict[str, str] | None = None,
    **labels: str,
) -> Judgement:
    """`labels` are more labels of the node, by the names below."""
    names = {"gke": "cloud.google.com/gke-accelerator", "own": "gke-no-default-nvidia-gpu-device-plugin"}
    said = {
        "nvidia.com/gpu.product": product,
        "nvidia.com/cuda.driver-version.full": driver,
        "kubernetes.io/arch": "amd64",
    }
    said |= {names.get(name, f"kubernetes.io/{name}"): value for name, value in labels.items()}
    info = ImageInfo(ImageConfig("sha256:0", config)) if config is not None else ImageInfo()
    need = need_of(image, ImageContext(env=tuple((env or {}).items()), info=info, start=start))
    return judge(need, offer_of(said))


def found(*arguments: Any, **keywords: Any) -> LibcudaFinding:
    finding = judged(*arguments, **keywords).libcuda
    assert finding is not None
    return finding


def error_of(judgement: Judgement) -> str:
    """The error in what goes wrong, with `may` if it is not certain; `unknown`; or empty if nothing goes wrong."""
    finding = judgement.libcuda
    if finding is None:
        return ""
    if finding.effect is Effect.DOUBT:
        return "unknown"
    error = next((number for number in ("803", "804") if number in finding.reason), "other")
    return error if finding.effect is Effect.FAILS else f"may {error}"


@pytest.mark.parametrize("pair", [pytest.param(pair, id=f"{at}: {pair['image']}") for at, pair in enumerate(PAIRS)])
def test_the_answer_is_what_people_saw_and_what_dockerfiles_say(pair: dict[str, Any]) -> None:
    gke = {"gke": "nvidia-l4"} if pair.get("gke") else {}
    judgement = judged(pair["image"], pair["driver"], pair["product"], env=pair.get("env"), **gke)
    said = {"ok": "", "needs-compat": "may other"}.get(pair["verdict"], pair["verdict"])
    assert error_of(judgement) == said, judgement
    if pair["verdict"] in ("ok", "needs-compat"):
        runs = (Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY) if said == "" else (Verdict.FORWARD_COMPAT_ONLY,)
        assert judgement.verdict in runs, judgement
    if pair["verdict"] in ("803", "804"):
        assert judgement.counting(Effect.FAILS).verdict is Verdict.INCOMPATIBLE


def test_enough_pairs_are_judged() -> None:
    assert len(PAIRS) >= 40


@golden
def test_a_pods_own_path_can_put_cuda_compat_first_in_any_image(path: str | None, error: str) -> None:
    assert error_of(judged(CUDA_128, "580.105.08", env={PATH: path})) == error


@golden
def test_a_pods_own_path_can_end_what_its_image_does(path: str | None, error: str) -> None:
    assert error_of(judged(VLLM, "580.105.08", env={PATH: path})) == error


def test_the_way_out_that_is_named_works() -> None:
    for image, driver, product in (
        (VLLM, "580.105.08", "NVIDIA-B200"),
        (VLLM, "570.211.01", "NVIDIA-GeForce-RTX-4090"),
        (f"{TEI}:89-1.9.0", "580.95.05", "NVIDIA-L4"),
        ("quay.io/ramalama/cuda:0.15.0", "580.95.05", "NVIDIA-L4"),
        ("nvidia/cuda:13.1.1-base-ubuntu24.04", "580.126.09", "NVIDIA-GeForce-RTX-5090"),
    ):
        for gke in ({}, {"gke": "nvidia-l4"}):
            finding = judged(image, driver, product, **gke).libcuda
            if finding is not None:
                path = finding.remedy.rpartition(f"{PATH}=")[2]
                assert error_of(judged(image, driver, product, env={PATH: path}, **gke)) == "", (image, gke)


@pytest.mark.parametrize("release", ["0.15", "latest", "v0.15.0rc1", "nightly", "v0.15.x", "0.15.99999999999999999999"])
def test_a_tag_that_is_no_release_matches_no_row(release: str) -> None:
    assert error_of(judged(f"vllm/vllm-openai:{release}", "580.105.08")) == ""


def test_a_mirror_and_a_suffix_change_nothing() -> None:
    for image in ("registry.corp/hub/vllm/vllm-openai:v0.15.1-x86_64", f"{VLLM}@sha256:{'0' * 64}"):
        assert error_of(judged(image, "580.105.08")) == "803"
    assert error_of(judged("vllm/vllm-openai:v0.15.0-cu130", "590.44.01")) == "803"
    assert error_of(judged("vllm/vllm-openai:v0.15.0-cu130", "580.105.08")) == "unknown"


def test_a_processor_that_the_row_is_not_about_is_not_judged_by_it() -> None:
    assert error_of(judged(VLLM, "580.105.08", arch="arm64")) == ""


def test_forced_cuda_compat_of_workstations_is_unknown_on_older_drivers() -> None:
    """Forward compatibility serves some of their cards, and nobody lists them."""
    assert error_of(judged(VLLM, "570.195.03", "Quadro-RTX-6000")) == "unknown"
    assert error_of(judged(VLLM, "580.105.08", "Quadro-RTX-6000")) == "803"


def test_an_image_without_cuda_compat_cannot_load_it() -> None:
    assert error_of(judged("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", "580.105.08", env={PATH: COMPAT})) == ""


def test_what_a_registry_says_of_the_path_counts() -> None:
    config = {"CUDA_VERSION": "12.8.1", "NVARCH": "x86_64", PATH: f"{COMPAT}:/usr/local/cuda/lib64"}
    assert error_of(judged("registry.corp/team/app:1", "580.105.08", config=config)) == "803"
    assert error_of(judged("registry.corp/team/app:1", "580.105.08", config=config, env={PATH: SYSTEM})) == ""


def test_a_command_replaces_an_entry_point_that_loads_cuda_compat() -> None:
    tei = f"{TEI}:89-1.9.2"
    assert error_of(judged(tei, "570.133.20", "NVIDIA-GeForce-RTX-4090")) == "804"
    assert error_of(judged(tei, "570.133.20", "NVIDIA-GeForce-RTX-4090", start=Start.COMMAND)) == "may 804"
    assert error_of(judged(NGC, "535.183.06", start=Start.SHELL)) == ""
    finding = found(NGC, "535.183.06", start=Start.COMMAND)
    assert "replaces the entry point" in finding.reason
    assert "args instead of command" in finding.remedy


def test_what_env_of_an_image_or_a_file_of_it_does_holds_whatever_is_started() -> None:
    assert error_of(judged(VLLM, "580.105.08", start=Start.COMMAND)) == "803"
    assert error_of(judged(VLLM, "580.105.08", start=Start.UNKNOWN)) == "unknown"


@golden
def test_what_a_container_starts_is_told_by_its_command(command: list[str], args: list[str], start: Start) -> None:
    assert start_of(command, args) == start


@golden
def test_an_image_on_gke_needs_the_directory_of_the_driver_in_its_path(
    image: str, env: dict[str, str | None], says: str
) -> None:
    finding = judged(image, "580.95.05", "NVIDIA-L4", env=env, gke="nvidia-l4").libcuda
    assert says in finding.reason if says and finding is not None else finding is None
    assert judged(image, "580.95.05", "NVIDIA-L4", env=env, gke="nvidia-l4", own="true").libcuda is None


@given(
    st.text("$():/abcdefghijklmnoprstu-_64", max_size=60) | st.none(), st.sampled_from([VLLM, CUDA_128, f"{TEI}:1.9.1"])
)
def test_a_path_with_variables_never_refuses(path: str | None, image: str) -> None:
    own = path if path is None else f"{path}$(X)"
    for gke in ({}, {"gke": "nvidia-l4"}):
        for after in ("", f":{COMPAT}"):
            value = None if own is None else own + after
            finding = judged(image, "590.44.01", env={PATH: value}, **gke).libcuda
            assert finding is None or finding.effect is not Effect.FAILS

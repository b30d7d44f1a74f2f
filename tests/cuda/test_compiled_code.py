"""Whether the code in an image runs on a GPU, by the release of its framework: 39 pairs that were judged by hand."""

from pathlib import Path

import pytest
import yaml

from webhook.cuda.checks import Verdict
from webhook.cuda.compiled_code import BUILT, Library, Way
from webhook.cuda.cuda_messages import remedy_for
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.offer import offer_from
from webhook.cuda.releases import ReleaseRange
from webhook.cuda.verdict import judge
from webhook.gpus.steering import Cause
from webhook.model.shape import FormatError
from webhook.model.versions import parse_version
from webhook.yaml_files.shipped_tables import read_rows

V100, T4, A100 = "Tesla-V100-SXM2-32GB", "Tesla-T4", "NVIDIA-A100-SXM4-80GB"
H100, B200, RTX5090 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200", "NVIDIA-GeForce-RTX-5090"
PAIRS = [
    pytest.param(pair, id=f"{pair['image'].rpartition('/')[2]} on {pair['product']} with {pair['driver']}")
    for pair in yaml.safe_load(Path(__file__).with_name("compiled.yaml").read_text())
]
MEANT = {
    "ok": {Verdict.COMPATIBLE},
    "no-code": {Verdict.INCOMPATIBLE},
    "driver": {Verdict.INCOMPATIBLE, Verdict.FORWARD_COMPAT_ONLY, Verdict.UNKNOWN},
    "cpu": {Verdict.UNKNOWN},
}


def judged(image, product, driver="580.95.05", arch="amd64", **env):
    need = need_of(image, ImageContext(env=tuple(env.items())))
    offer = offer_from(driver=driver, product=product, arch=arch)
    return judge(need, offer), remedy_for(image, need, (offer,))


@pytest.mark.parametrize("pair", PAIRS)
def test_the_verdict_is_that_of_people(pair):
    found, _ = judged(pair["image"], pair["product"], pair["driver"])
    assert found.verdict in MEANT[pair["verdict"]], found
    if pair["verdict"] == "no-code":
        assert found.cause is Cause.GPU
    if "needs" in pair:
        assert (found.cause, found.is_on_cpu) == (Cause.DRIVER, pair["verdict"] == "cpu")
        assert f"needs driver {pair['needs']} or newer" in found.reason


@pytest.mark.parametrize(
    ("image", "product", "driver", "arch", "verdict"),
    [
        pytest.param("vllm/vllm-openai:v0.21.0", A100, "580.95.05", "amd64", Verdict.COMPATIBLE, id="as for x86"),
        pytest.param("vllm/vllm-openai:v0.10.2", A100, "580.95.05", "arm64", Verdict.INCOMPATIBLE, id="not so on Arm"),
        pytest.param("vllm/vllm-openai:v0.10.2", A100, "580.95.05", "", Verdict.COMPATIBLE, id="processor not known"),
        pytest.param("vllm/vllm-openai:v0.10.1", A100, "580.95.05", "arm64", Verdict.INCOMPATIBLE, id="amd64 alone"),
        pytest.param("vllm/vllm-openai:v0.9.0", RTX5090, None, "amd64", Verdict.UNKNOWN, id="no driver"),
        pytest.param("ollama/ollama:0.12.3", B200, "570.133.20", "amd64", Verdict.UNKNOWN, id="no library"),
        pytest.param("ollama/ollama:0.12.3", B200, "580.95.05", "amd64", Verdict.COMPATIBLE, id="a library for it"),
        pytest.param("ollama/ollama:0.12.3", H100, "535.183.06", "amd64", Verdict.COMPATIBLE, id="the older library"),
        pytest.param(
            "ghcr.io/ggml-org/llama.cpp:server-cuda-b6000",
            "NVIDIA-GeForce-RTX-2080-Ti",
            "535.230.02",
            "amd64",
            Verdict.INCOMPATIBLE,
            id="PTX, and a GPU that forward compatibility does not serve",
        ),
        pytest.param(
            "ghcr.io/huggingface/text-embeddings-inference:120-1.9",
            "NVIDIA-GB10",
            "580.95.05",
            "amd64",
            Verdict.INCOMPATIBLE,
            id="12.0 is not 12.1",
        ),
        pytest.param("openmmlab/lmdeploy:v0.7.0-cu12", H100, "580.95.05", "amd64", Verdict.COMPATIBLE, id="LMDeploy"),
        pytest.param("pytorch/pytorch:2.13.0-cuda13.2-cudnn9-devel", T4, "610.43.02", "", Verdict.COMPATIBLE, id="T4"),
        pytest.param("vllm/vllm-openai:v0.99.0", V100, "580.95.05", "amd64", Verdict.UNKNOWN, id="beyond the table"),
    ],
)
def test_other_pairs(image, product, driver, arch, verdict):
    found, _ = judged(image, product, driver, arch)
    assert found.verdict is verdict, found


def test_another_cuda_than_that_of_the_name_says_nothing_of_the_code():
    """Whoever says that the image has another CUDA has built another image."""
    found, _ = judged("pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime", V100, CUDA_VERSION="12.6.3")
    assert found.verdict is Verdict.COMPATIBLE


@pytest.mark.parametrize(
    ("image", "product", "driver", "named"),
    [
        pytest.param("vllm/vllm-openai:v0.20.0", V100, "580.95.05", "vllm/vllm-openai:v0.19.0", id="vLLM"),
        pytest.param(
            "pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime",
            V100,
            "580.95.05",
            "pytorch/pytorch:2.11.0-cuda12.6-cudnn9-runtime",
            id="PyTorch on an old GPU",
        ),
        pytest.param(
            "pytorch/pytorch:2.9.1-cuda12.6-cudnn9-devel",
            B200,
            "575.57.08",
            "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-devel",
            id="PyTorch on a new GPU",
        ),
        pytest.param(
            "mirror.corp/huggingface/text-embeddings-inference:1.8",
            H100,
            "580.95.05",
            "mirror.corp/huggingface/text-embeddings-inference:hopper-1.8",
            id="Text Embeddings Inference",
        ),
        pytest.param("lmsysorg/sglang:v0.5.11-cu130", T4, "580.95.05", "", id="none"),
        pytest.param("ollama/ollama:0.30.5", V100, "535.183.01", "", id="no older CUDA instead of older code"),
    ],
)
def test_a_remedy_names_an_image_only_if_it_runs_there(image, product, driver, named):
    _, remedy = judged(image, product, driver)
    assert (f"Use {named} or another image" in remedy) if named else (":" not in remedy and "CUDA" not in remedy)
    if named:
        assert judged(named, product, driver)[0].verdict is Verdict.COMPATIBLE


@pytest.mark.parametrize(
    ("row", "compute", "way"),
    [
        pytest.param({"code": "8.0", "ptx": ""}, "8.9", Way.CODE, id="a higher minor number"),
        pytest.param({"code": "8.6", "ptx": ""}, "8.0", Way.NONE, id="a lower one"),
        pytest.param({"code": "8.0", "ptx": ""}, "9.0", Way.NONE, id="another major number"),
        pytest.param({"code": "8.0", "ptx": ""}, "8.7", Way.UNKNOWN, id="a board"),
        pytest.param({"code": "8.7", "ptx": ""}, "8.9", Way.NONE, id="the code of a board"),
        pytest.param({"code": "10.0a", "ptx": ""}, "10.3", Way.NONE, id="code for one GPU"),
        pytest.param({"code": "8.0", "ptx": "8.0"}, "9.0", Way.PTX, id="PTX"),
        pytest.param({"code": "8.0", "ptx": "9.0"}, "7.5", Way.NONE, id="PTX for newer ones"),
        pytest.param({"code": "8.0"}, "9.0", Way.UNKNOWN, id="perhaps PTX"),
        pytest.param({"code": "8.0"}, "7.5", Way.NONE, id="older than all code"),
        pytest.param({"least": "7.5"}, "7.0", Way.NONE, id="below the least"),
        pytest.param({"driver": "550"}, "7.0", Way.UNKNOWN, id="nothing known of the code"),
    ],
)
def test_the_way_in_which_code_runs_on_a_gpu(row, compute, way):
    (found,) = read_rows(Library.of, [row], "")
    assert found.way(parse_version(compute)) is way


def test_releases_of_one_image_do_not_overlap():
    """One tag never has two rows of one library."""
    for images, rows in BUILT.items():
        seen = {}
        for row in rows:
            key = (row.tags.pattern, row.cudas, row.cpu, row.cuda)
            assert row.first is None or key not in seen or row.first.at_least(seen[key]), (images, row)
            seen[key] = row.last


@pytest.mark.parametrize("read", [Library.of, ReleaseRange.of])
def test_a_row_whose_release_cannot_be_read_is_an_error_that_names_it(read):
    row = {"title": "x/y", "from": "1.0", "to": "1.x", "cuda": "12.4", "source": "s", "date": "unknown"}
    with pytest.raises(FormatError, match=r"compiled\.yaml: .*x/y.*\"1\.x\" is not a version"):
        read_rows(read, [row], "compiled.yaml")

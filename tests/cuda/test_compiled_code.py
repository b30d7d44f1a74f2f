"""Whether the code in an image runs on a GPU, by the release of its framework: 39 pairs that were judged by hand."""

from pathlib import Path

import pytest
import yaml

from tests.golden import golden
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
H100, B200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"
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


@golden
def test_other_pairs(image, product, driver, arch, verdict):
    found, _ = judged(image, product, driver, arch)
    assert found.verdict == verdict, found


def test_another_cuda_than_that_of_the_name_says_nothing_of_the_code():
    """Whoever says that the image has another CUDA has built another image."""
    found, _ = judged("pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime", V100, CUDA_VERSION="12.6.3")
    assert found.verdict is Verdict.COMPATIBLE


@golden
def test_a_remedy_names_an_image_only_if_it_runs_there(image, product, driver, named):
    _, remedy = judged(image, product, driver)
    assert (f"Use {named} or another image" in remedy) if named else (":" not in remedy and "CUDA" not in remedy)
    if named:
        assert judged(named, product, driver)[0].verdict is Verdict.COMPATIBLE


@golden
def test_the_way_in_which_code_runs_on_a_gpu(row, compute, way):
    (found,) = read_rows(Library, [row], "")
    assert found.way(parse_version(compute)) is Way[way]


def test_releases_of_one_image_do_not_overlap():
    """One tag never has two rows of one library."""
    for images, rows in BUILT.items():
        seen = {}
        for row in rows:
            key = (row.tags.pattern, row.cudas, row.cpu, row.cuda)
            assert row.first is None or key not in seen or row.first.at_least(seen[key]), (images, row)
            seen[key] = row.last


@pytest.mark.parametrize("kind", [Library, ReleaseRange])
def test_a_row_whose_release_cannot_be_read_is_an_error_that_names_it(kind):
    row = {"title": "x/y", "from": "1.0", "to": "1.x", "cuda": "12.4", "source": "s", "date": "unknown"}
    with pytest.raises(FormatError, match=r"compiled\.yaml: .*x/y.*\"1\.x\" is not a version"):
        read_rows(kind, [row], "compiled.yaml")

"""What one unit of a GPU resource weighs."""

from fractions import Fraction

import pytest

from webhook.gpus.gpu_table import GPUS
from webhook.model.accelerators import accelerator
from webhook.quota.amounts import weight
from webhook.quota.quotas import Counting

MIG = "nvidia.com/mig-"
AS_KNOWN = Counting()
PROFILES = sorted(profile for profile in GPUS.profiles if "g." in profile)


@pytest.mark.parametrize(
    ("resource", "models", "expected"),
    [
        pytest.param("nvidia.com/gpu", ("H100-80GB",), 1, id="a whole GPU"),
        pytest.param("nvidia.com/gpu", None, 1, id="a whole GPU of any model"),
        pytest.param("nvidia.com/gpu.shared", ("T4",), 1, id="a share of unknown size"),
        pytest.param("nvidia.com/pgpu", None, 1, id="a GPU for a virtual machine"),
        pytest.param("nvidia.com/GA102GL_A10", None, 1, id="a GPU for a virtual machine, by its name"),
        pytest.param("gpu.intel.com/i915", None, 1, id="Intel"),
        pytest.param("amd.com/gpu", ("MI300X",), 1, id="AMD"),
        pytest.param(MIG + "1g.5gb", ("A100-40GB",), "1/7", id="the smallest slice of an A100"),
        pytest.param(MIG + "3g.20gb", ("A100-40GB",), "1/2", id="two fit, although three sevenths are less"),
        pytest.param(MIG + "4g.20gb", ("A100-40GB",), 1, id="only one fits"),
        pytest.param(MIG + "2g.10gb", ("A100-40GB",), "1/3", id="three fit"),
        pytest.param(MIG + "1g.10gb", ("A100-40GB",), "1/4", id="of 40 GB four fit"),
        pytest.param(MIG + "1g.10gb", ("A100-80GB",), "1/7", id="of 80 GB seven fit"),
        pytest.param(MIG + "1g.10gb", ("H100-80GB",), "1/7", id="of an H100 seven fit"),
        pytest.param(MIG + "1g.10gb", ("A100-40GB", "A100-80GB"), "1/4", id="the heaviest of the pod's models"),
        pytest.param(MIG + "1g.10gb", None, "1/4", id="the heaviest of all where the model is open"),
        pytest.param(MIG + "1g.10gb", ("T4",), "1/4", id="the heaviest of all where the model has none"),
        pytest.param(MIG + "1g.10gb", (), "1/4", id="the heaviest of all where the model is not known"),
        pytest.param(MIG + "1g.10gb", ("H100-80GB", "T4"), "1/7", id="models without the profile do not count"),
        pytest.param(MIG + "1g.6gb", ("A30",), "1/4", id="an A30 has four"),
        pytest.param(MIG + "7g.141gb", ("H200",), 1, id="all slices of an H200"),
        pytest.param(MIG + "3g.95gb", ("GB200",), "1/2", id="the other way to cut a GB200"),
        pytest.param(MIG + "1g.10gb.me", ("H100-80GB",), 1, id="with media extensions only one fits"),
        pytest.param(MIG + "1g.10gb+me", ("H100-80GB",), 1, id="spelled like the profile"),
        pytest.param(MIG + "1g.24gb.me.all", ("RTX-PRO-6000",), 1, id="all media extensions"),
        pytest.param(MIG + "1g.24gb-me", ("RTX-PRO-6000",), "1/4", id="without media extensions"),
        pytest.param(MIG + "2g.48gb.gfx", ("RTX-PRO-6000",), "1/2", id="with graphics"),
        pytest.param(MIG + "1g.10gb.shared", ("H100-80GB",), "1/7", id="a share of a slice"),
        pytest.param(MIG + "1g.10gb.me.shared", ("H100-80GB",), 1, id="a share of a slice with media extensions"),
        pytest.param(MIG + "1c.3g.20gb", ("A100-40GB",), "1/6", id="three compute instances in each of two"),
        pytest.param(MIG + "2c.4g.20gb", ("A100-40GB",), "1/2", id="two compute instances in the only one"),
        pytest.param(MIG + "2c.3g.20gb", ("A100-40GB",), "1/2", id="one compute instance of two thirds"),
        pytest.param(MIG + "3c.7g.80gb", ("H100-80GB",), "1/2", id="two of three sevenths"),
        pytest.param(MIG + "4c.3g.20gb", ("A100-40GB",), 1, id="more compute than there is"),
        pytest.param(MIG + "0c.3g.20gb", ("A100-40GB",), 1, id="no compute at all"),
        pytest.param(MIG + "9g.999gb", None, 1, id="a profile that nobody knows"),
        pytest.param(MIG + "1g.10gb.new", ("H100-80GB",), 1, id="an ending that nobody knows"),
        pytest.param("amd.com/cpx_nps4", ("MI300X",), "1/8", id="eight partitions of an MI300X"),
        pytest.param("amd.com/cpx_nps1", ("MI300A",), "1/6", id="six partitions of an MI300A"),
        pytest.param("amd.com/cpx_nps1", None, "1/6", id="the heaviest partition where the model is open"),
        pytest.param("amd.com/dpx_nps2", ("MI300X",), "1/2", id="two partitions"),
        pytest.param("amd.com/spx_nps1", None, 1, id="one partition is the GPU"),
    ],
)
def test_a_unit_weighs_the_part_of_a_gpu_that_it_is(resource, models, expected):
    assert accelerator(resource) is not None
    assert weight(resource, models, AS_KNOWN) == Fraction(expected)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", MIG + "1g.10gb", "nvidia.com/gpu"], ids=str)
def test_the_weights_of_the_policy_come_first(resource):
    counting = Counting(weights={resource: Fraction(1, 5)})
    assert weight(resource, ("H100-80GB",), counting) == Fraction(1, 5)
    assert weight("amd.com/gpu", None, counting) == 1


@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_an_open_model_is_never_lighter_than_any_that_it_can_be(profile):
    resource = MIG + profile.replace("+", ".")
    assert accelerator(resource) is not None
    weights = [weight(resource, (model,), AS_KNOWN) for model in GPUS.profiles[profile]]
    assert weight(resource, None, AS_KNOWN) == max(weights)
    assert all(0 < one <= 1 for one in weights)

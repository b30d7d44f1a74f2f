"""Which GPUs people may use: what is named, and what follows for units of which not everything is known."""

import pytest

from tests.golden import golden
from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.gpus.gpu_kinds import Bar, Unit, UsableGpus, kind_of
from webhook.gpus.gpu_table import GPUS
from webhook.model.accelerators import Vendor

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def usable(allowed: str | None = None, denied: str = "") -> UsableGpus:
    """By names between spaces."""
    kinds = {names: tuple(kind_of(name, CATALOGUE) for name in names.split()) for names in (allowed, denied) if names}
    return UsableGpus(kinds[allowed] if allowed else None, kinds[denied] if denied else ())


def unit(
    models: str = "", profile: str | None = "", resource: str = GPU, vendor: Vendor | None = Vendor.NVIDIA
) -> Unit:
    return Unit(resource, vendor, frozenset(models.split()), profile)


ALLOWED, DENIED = Bar.NOT_ALLOWED, Bar.DENIED


@pytest.mark.parametrize(
    ("gpus", "one", "expected"),
    [
        pytest.param(usable(), unit("H100-80GB"), None, id="everything"),
        pytest.param(usable("T4 L4"), unit("L4"), None, id="a model that is allowed"),
        pytest.param(usable("T4 L4"), unit("H100-80GB"), ALLOWED, id="a model that is not"),
        pytest.param(usable("T4 L4"), unit(), None, id="an open model may be one that is allowed"),
        pytest.param(usable("A100"), unit("A100-40GB"), None, id="a model of an allowed family"),
        pytest.param(
            usable("A100-80GB"), unit("A100-40GB A100-80GB"), None, id="labels that may mean an allowed model"
        ),
        pytest.param(usable("T4"), unit("A100-40GB A100-80GB"), ALLOWED, id="labels that mean no allowed model"),
        pytest.param(usable(None, "H100"), unit("H100-NVL"), DENIED, id="a model of a denied family"),
        pytest.param(usable(None, "A100-40GB"), unit("A100-40GB A100-80GB"), None, id="labels that may mean another"),
        pytest.param(usable("A100", "A100-40GB"), unit("A100-40GB"), DENIED, id="denied wins"),
        pytest.param(
            usable("A100-40GB T4", "A100-40GB"),
            unit("A100-40GB A100-80GB"),
            ALLOWED,
            id="one model is denied, and the other not allowed",
        ),
        pytest.param(usable(None, "T4"), unit(), None, id="an open model may be none that is denied"),
        pytest.param(
            usable("T4"), unit(resource="amd.com/gpu", vendor=Vendor.AMD), ALLOWED, id="another vendor's GPUs"
        ),
        pytest.param(usable("T4"), unit(resource="example.com/vgpu", vendor=None), None, id="an unknown vendor's GPUs"),
        pytest.param(usable("amd.com/*"), unit("T4"), ALLOWED, id="another resource"),
        pytest.param(usable("nvidia.com/mig-*"), unit("A100-80GB", "1g.10gb", SLICE), None, id="a glob of resources"),
        pytest.param(usable(None, "nvidia.com/mig-*"), unit("", "1g.10gb", SLICE), DENIED, id="a denied resource"),
        pytest.param(usable("*"), unit("H100-80GB"), None, id="every resource"),
        pytest.param(usable("1g.10gb"), unit("A100-80GB", "1g.10gb", SLICE), None, id="a slice of an allowed profile"),
        pytest.param(usable("1g.10gb"), unit("A100-80GB", "1g.10gb"), None, id="a slice that is called a GPU"),
        pytest.param(usable("1g.10gb"), unit("A100-80GB", "2g.20gb"), ALLOWED, id="a slice of another profile"),
        pytest.param(usable("1g.10gb"), unit("A100-80GB"), ALLOWED, id="a whole GPU, where slices are allowed"),
        pytest.param(usable("1g.10gb"), unit("A100-80GB", None), None, id="a unit that may be a slice"),
        pytest.param(usable(None, "1g.10gb"), unit("A100-80GB", None), None, id="a unit that may be no denied slice"),
        pytest.param(usable("A100"), unit("A100-80GB", "1g.10gb"), None, id="a slice of an allowed model"),
        pytest.param(usable("T4 1g.10gb"), unit("", "2g.20gb", SLICE), None, id="a slice of an open model"),
    ],
)
def test_a_unit_is_barred_only_where_that_is_certain(gpus, one, expected):
    assert gpus.bar(one) is expected


@golden
def test_an_allowed_name_is_left_unless_it_is_wholly_denied(allowed, denied, left):
    assert [one.name for one in usable(allowed, denied).left] == list(left)


def test_every_model_of_the_table_is_of_its_own_kind_and_of_its_family():
    for model in GPUS.in_quotas:
        one = Unit("x/y", model.vendor, frozenset({model.name}), "")
        assert usable(model.name).bar(one) is usable(model.family).bar(one) is None
        assert usable(None, model.family).bar(one) is Bar.DENIED

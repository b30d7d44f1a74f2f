"""Which GPUs people may use: what is named, and what follows for units of which not everything is known."""

from tests.golden import each, golden
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


@each(
    "gpus, one, expected",
    {
        "everything": (usable(), unit("H100-80GB"), None),
        "a model that is allowed": (usable("T4 L4"), unit("L4"), None),
        "a model that is not": (usable("T4 L4"), unit("H100-80GB"), ALLOWED),
        "an open model may be one that is allowed": (usable("T4 L4"), unit(), None),
        "a model of an allowed family": (usable("A100"), unit("A100-40GB"), None),
        "labels that may mean an allowed model": (usable("A100-80GB"), unit("A100-40GB A100-80GB"), None),
        "labels that mean no allowed model": (usable("T4"), unit("A100-40GB A100-80GB"), ALLOWED),
        "a model of a denied family": (usable(None, "H100"), unit("H100-NVL"), DENIED),
        "labels that may mean another": (usable(None, "A100-40GB"), unit("A100-40GB A100-80GB"), None),
        "denied wins": (usable("A100", "A100-40GB"), unit("A100-40GB"), DENIED),
        "one model is denied, and the other not allowed": (
            usable("A100-40GB T4", "A100-40GB"),
            unit("A100-40GB A100-80GB"),
            ALLOWED,
        ),
        "an open model may be none that is denied": (usable(None, "T4"), unit(), None),
        "another vendor's GPUs": (usable("T4"), unit(resource="amd.com/gpu", vendor=Vendor.AMD), ALLOWED),
        "an unknown vendor's GPUs": (usable("T4"), unit(resource="example.com/vgpu", vendor=None), None),
        "another resource": (usable("amd.com/*"), unit("T4"), ALLOWED),
        "a glob of resources": (usable("nvidia.com/mig-*"), unit("A100-80GB", "1g.10gb", SLICE), None),
        "a denied resource": (usable(None, "nvidia.com/mig-*"), unit("", "1g.10gb", SLICE), DENIED),
        "every resource": (usable("*"), unit("H100-80GB"), None),
        "a slice of an allowed profile": (usable("1g.10gb"), unit("A100-80GB", "1g.10gb", SLICE), None),
        "a slice that is called a GPU": (usable("1g.10gb"), unit("A100-80GB", "1g.10gb"), None),
        "a slice of another profile": (usable("1g.10gb"), unit("A100-80GB", "2g.20gb"), ALLOWED),
        "a whole GPU, where slices are allowed": (usable("1g.10gb"), unit("A100-80GB"), ALLOWED),
        "a unit that may be a slice": (usable("1g.10gb"), unit("A100-80GB", None), None),
        "a unit that may be no denied slice": (usable(None, "1g.10gb"), unit("A100-80GB", None), None),
        "a slice of an allowed model": (usable("A100"), unit("A100-80GB", "1g.10gb"), None),
        "a slice of an open model": (usable("T4 1g.10gb"), unit("", "2g.20gb", SLICE), None),
    },
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

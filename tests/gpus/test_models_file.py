"""The table of this release: its rows are consistent, and each names its source."""

import re
from collections import Counter

import pytest
import yaml

from webhook.cuda.cuda_tables import SHIPPED
from webhook.gpus.gpu_names import INSTANCE_TYPES
from webhook.gpus.gpu_table import DATA, GPUS
from webhook.model.accelerators import Vendor
from webhook.model.globs import is_glob
from webhook.yaml_files.shipped_tables import read_table
from webhook.yaml_files.yaml_lines import read_yaml

TABLE = read_table(DATA)
ROWS = {row["name"]: row for row in TABLE["gpus"]}
WITH_TRAITS = [model for model in GPUS.models if model.traits is not None]
CUT = [model for model in GPUS.models if model.slices]
NVIDIA = [model for model in GPUS.in_quotas if model.vendor is Vendor.NVIDIA]
MACHINES = GPUS.values_of(INSTANCE_TYPES[0])
VALUES = [(key, glob) for key in sorted(GPUS.keys) for glob in GPUS.values_of(key)]


def name(model):
    return model.name


def test_the_table_is_strict_yaml():
    """No repeated keys, no tags, no ambiguous numbers."""
    assert read_yaml(DATA.read_bytes(), DATA.name).plain() == TABLE
    assert TABLE.keys() == {"sources", "dataCenterOnly", "gpus"}


def test_a_name_is_of_one_row_or_of_one_family():
    names = Counter(model.name for model in GPUS.models)
    assert [name for name, rows in names.items() if rows > 1] == []
    assert set(names).isdisjoint(model.family for model in GPUS.models if model.family != model.name)
    sizes = Counter(model.family for model in GPUS.in_quotas)
    assert all(model.family == model.name or sizes[model.family] > 1 for model in GPUS.in_quotas)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row["name"])
def test_every_source_is_explained(row):
    words = re.split(r", ", row["source"]) + [word for key in row.get("machines", ()) for word in key.split(", ")]
    unexplained = set(words) - {*TABLE["sources"], "unverified"}
    assert unexplained == set(), "say under `sources` what this is"


def test_every_source_that_is_explained_is_used():
    used = {
        word for row in TABLE["gpus"] for key in (row["source"], *row.get("machines", ())) for word in key.split(", ")
    }
    of_slices = {"MIGP", "AMDSMI"}
    assert set(TABLE["sources"]) - of_slices - used == set()


@pytest.mark.parametrize("model", WITH_TRAITS, ids=name)
def test_no_row_with_traits_hides_a_later_one(model):
    """The row of a series comes after those of its models, and before that of its brand."""
    before = WITH_TRAITS[: WITH_TRAITS.index(model)]
    assert [row.name for row in before if row.words < model.words] == []


@pytest.mark.parametrize("model", [model for model in WITH_TRAITS if model.traits.is_data_center], ids=name)
def test_a_cloud_may_call_any_gpu_of_a_data_centre_a_tesla(model):
    """The row of that brand comes after all of theirs."""
    assert GPUS.traits_of("-".join(["tesla", *sorted(model.words)])).words == model.words


@pytest.mark.parametrize("model", WITH_TRAITS, ids=name)
def test_models_with_the_same_words_have_the_same_traits(model):
    """CUDA knows a GPU by its words alone."""
    alike = [row for row in GPUS.models if row.words == model.words and row.traits != model.traits]
    assert alike == [], "write the same compute, dataCenter, brands, firstDriver and arch into these rows"


@pytest.mark.parametrize("model", NVIDIA, ids=name)
def test_cuda_knows_every_gpu_of_nvidia(model):
    """By its own row, or by that of its series."""
    traits = GPUS.traits_of(model.product or "-".join(sorted(model.words | model.marks)))
    assert traits is not None, "write compute, dataCenter and brands into the row, or add a row for the series"
    assert traits.compute is not None


def test_every_compute_capability_named_is_known_or_of_a_board():
    known = {row.compute for row in SHIPPED.capabilities.rows}
    named = {model.name: model.traits.compute for model in WITH_TRAITS if not model.traits.arch}
    unknown = {name: str(compute) for name, compute in named.items() if compute and compute not in known}
    assert unknown == {}, "add it to webhook/cuda/data/compute_capabilities.yaml"


def test_compute_capabilities_of_data_centre_gpus_belong_to_no_other():
    others = [model.traits for model in WITH_TRAITS if model.traits.compute and not model.traits.is_data_center]
    assert GPUS.data_center_only.isdisjoint(traits.compute.parts for traits in others)
    assert GPUS.data_center_only <= {model.traits.compute.parts for model in WITH_TRAITS if model.traits.compute}


@pytest.mark.parametrize("model", [model for model in GPUS.in_quotas if model.example], ids=name)
def test_the_label_that_stands_for_a_model_says_that_model_and_no_other(model):
    assert GPUS.models_at(*model.example) == {model.name}, f"a name of it has the words {sorted(model.words)}"


@pytest.mark.parametrize("model", GPUS.in_quotas, ids=name)
def test_a_model_is_said_by_its_words_and_one_of_its_marks(model):
    for mark in sorted(model.marks) or [""]:
        assert GPUS.models_at("gpu-type", "-".join([*sorted(model.words), mark]).strip("-")) == {model.name}


@pytest.mark.parametrize(("key", "glob"), [pytest.param(*value, id=" ".join(value)) for value in VALUES])
def test_a_value_of_a_label_means_the_models_that_have_it(key, glob):
    assert not is_glob(glob.replace("*", ""))
    assert GPUS.models_at(key, glob.replace("*", "0")) == GPUS.values_of(key)[glob]


@pytest.mark.parametrize(
    ("glob", "models"), [pytest.param(*one, id=one[0]) for one in MACHINES.items() if len(one[1]) > 1]
)
def test_a_machine_type_of_several_models_is_in_the_rows_of_all_their_family(glob, models):
    """The source does not say which model of the family the machine has, so every model has its type."""
    having = {model.name for model in GPUS.models if (INSTANCE_TYPES[0], glob) in model.values}
    (family,) = {model.family for model in GPUS.models if model.name in models}
    assert GPUS.names[family] == having, f"write {glob} into each row of {family}"


def test_no_row_has_a_machine_type_twice():
    for row in TABLE["gpus"]:
        globs = [glob for globs in row.get("machines", {}).values() for glob in globs]
        assert len(set(globs)) == len(globs), row["name"]


@pytest.mark.parametrize("model", [model for model in CUT if model.vendor is Vendor.NVIDIA], ids=name)
def test_slices_of_one_profile_fit_together_on_a_gpu(model):
    """The leading number of a profile is in compute slices, of which a GPU has as many as its largest profile."""
    in_all = max(int(profile.split("g.")[0]) for profile in model.slices)
    assert all(int(profile.split("g.")[0]) * most <= in_all for profile, most in model.slices.items())


def test_the_table_stays_small():
    """A key or a value costs some two microseconds at each start."""
    nodes = sum(isinstance(event, yaml.NodeEvent) for event in yaml.parse(DATA.read_bytes(), Loader=yaml.CSafeLoader))
    assert nodes < 4_000

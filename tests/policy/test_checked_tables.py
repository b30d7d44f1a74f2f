"""Tables and models of ConfigMaps that strangers send to be checked: nothing of them is kept."""

import gc
import weakref

from tests.policy.checked_config_maps import DEFAULT, checked
from tests.policy.conftest import policy_text
from webhook.gpus.gpu_catalogue import CATALOGUE, Catalogue
from webhook.gpus.gpu_table import GpuTable

_KEPT_AT_MOST = 64
QUOTA = "gpuQuota: {{mode: enforce, byModel: {{F100: 1}}, models: {{Other: {{team.example.com/gpu: [{}]}}}}}}"
ROWS = """apiVersion: gpupolicy.dev/v1alpha1
kind: GPUCudaTables
metadata: {{name: _cuda}}
spec:
  gpus: [{{name: F100, labels: {{team.example.com/gpu: [fast-{}]}}, source: me, date: unknown}}]
"""


def _alive(kind: type) -> "weakref.WeakSet[object]":
    gc.collect()
    return weakref.WeakSet(one for one in gc.get_objects() if isinstance(one, kind))


def test_no_table_of_gpus_is_kept_by_those_who_count_them():
    before = len(_alive(GpuTable))
    for number in range(5):
        files = {"_default.yaml": policy_text("_default", QUOTA.format("slow")), "_cuda.yaml": ROWS.format(number)}
        assert not checked(files, old=DEFAULT, mounted=DEFAULT).errors
    assert len(_alive(GpuTable)) == before


def test_models_that_a_policy_adds_are_remembered_in_bounds():
    few = [CATALOGUE.extended({"Own": {"team.example.com/gpu": [f"few-{number}"]}}) for number in range(99)]
    assert CATALOGUE.extended({"Own": {"team.example.com/gpu": ["few-98"]}}) is few[-1]
    assert len(CATALOGUE.table.cached) <= _KEPT_AT_MOST
    many = {"A100": {"team.example.com/gpu": [f"many-{number}" for number in range(1000)]}}
    assert isinstance(CATALOGUE.extended(many), Catalogue)
    assert CATALOGUE.extended(many) is not CATALOGUE.extended(many)

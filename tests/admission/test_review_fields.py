"""The texts of a request are as Kubernetes defines them: they become parts of paths at the API server and of keys."""

from typing import Any

import orjson
import pytest

from tests.build import pod, review
from webhook.admission.admission_review import MOST_GROUPS, UnansweredError, parse


def _parsed(change: dict[str, Any]) -> Any:
    body = review(pod(1))
    body["request"] |= change
    return parse(orjson.dumps(body))


def _kind(**parts: str) -> dict[str, Any]:
    return {"kind": {"group": "", "version": "v1", "kind": "Pod", **parts}}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param({"namespace": "tenant-x/../../../api/v1/secrets"}, "namespace", id="namespace that is a path"),
        pytest.param({"namespace": ".."}, "namespace", id="namespace of dots"),
        pytest.param({"namespace": "tenant%2fx"}, "namespace", id="namespace with a quoted slash"),
        pytest.param({"namespace": "Team"}, "namespace", id="namespace in capitals"),
        pytest.param({"namespace": "team\n"}, "namespace", id="namespace with a line end"),
        pytest.param({"namespace": "team-"}, "namespace", id="namespace that ends in a hyphen"),
        pytest.param({"namespace": "t" * 64}, "namespace", id="namespace of 64 characters"),
        pytest.param({"namespace": "té"}, "namespace", id="namespace with an accent"),
        pytest.param({"uid": "u" * 129}, "uid", id="uid of 129 characters"),
        pytest.param({"uid": "a\nb"}, "uid", id="uid with a line end"),
        pytest.param({"uid": "a\x1b[31m"}, "uid", id="uid with a control character"),
        pytest.param({"name": "n" * 254}, "name", id="name of 254 characters"),
        pytest.param({"name": "a/b"}, "name", id="name with a slash"),
        pytest.param({"name": ".."}, "name", id="name of dots"),
        pytest.param({"name": "a%2fb"}, "name", id="name with a percent sign"),
        pytest.param({"operation": "C" * 33}, "operation", id="long operation"),
        pytest.param({"subResource": "resize/../x"}, "subResource", id="subresource with a slash"),
        pytest.param({"subResource": "s" * 64}, "subResource", id="subresource of 64 characters"),
        pytest.param(_kind(kind="P" * 64), "kind.kind", id="kind of 64 characters"),
        pytest.param(_kind(kind="Pod\n"), "kind.kind", id="kind with a line end"),
        pytest.param(_kind(version="v1/../x"), "kind.version", id="version with a slash"),
        pytest.param(_kind(version="v" * 64), "kind.version", id="version of 64 characters"),
        pytest.param(_kind(group="apps/v1"), "kind.group", id="group with a slash"),
        pytest.param(_kind(group="g" * 254), "kind.group", id="group of 254 characters"),
    ],
)
def test_a_text_that_no_api_server_sends_is_refused_with_place_found_and_allowed(change, place):
    with pytest.raises(UnansweredError, match=rf"^request\.{place}: found .*, expected ") as caught:
        _parsed(change)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"namespace": ""}, id="object of no namespace"),
        pytest.param({"namespace": "0" + "a" * 61 + "9"}, id="namespace of 63 characters"),
        pytest.param({"name": ""}, id="generated name in the mutating phase"),
        pytest.param({"name": "n" * 253}, id="name of 253 characters"),
        pytest.param({"name": "system:node:a.b"}, id="name with colons and dots"),
        pytest.param({"name": "..."}, id="name that begins with dots"),
        pytest.param({"uid": "705ab4f5-6393-11e8-b7cc-42010a800002"}, id="uid"),
        pytest.param({"uid": "u" * 128}, id="uid of 128 characters"),
        pytest.param({"operation": "CONNECT"}, id="operation"),
        pytest.param({"subResource": "ephemeralcontainers"}, id="subresource"),
        pytest.param(_kind(group="kubeflow.org", version="v1alpha1", kind="PyTorchJob"), id="kind of a project"),
        pytest.param({"userInfo": {"groups": ["g"] * MOST_GROUPS}}, id="many groups"),
    ],
)
def test_what_api_servers_send_is_read(change):
    assert _parsed(change) is not None


def test_the_number_of_groups_is_bounded():
    with pytest.raises(UnansweredError, match=f"found {MOST_GROUPS + 1} groups, expected {MOST_GROUPS} at most"):
        _parsed({"userInfo": {"groups": ["g"] * (MOST_GROUPS + 1)}})

"""The pods of the Deployment: what they run, with which rights, and when they are replaced."""

import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from deploy.generate import CHART, helm
from tests.certificate_files import CertificateFiles
from tests.deploy.manifests import Objects, Raw, needs_helm, rendered, shipped
from tests.deploy.value_sets import AUTHORITY, LOOKING_UP, TEAM, value_sets
from tests.golden import each
from tests.replicas import Replica
from webhook.commands.main import main
from webhook.policy.loader import load

DIGEST = "sha256:" + "a" * 64


def mounts(objects: Objects) -> dict[str, str]:
    """Name of each volume -> where it is mounted."""
    return {mount["name"]: mount["mountPath"] for mount in objects.container["volumeMounts"]}


def volume(objects: Objects, name: str) -> Raw:
    (found,) = [volume for volume in objects.pod["volumes"] if volume["name"] == name]
    return {key: value for key, value in found.items() if key != "name"}


@needs_helm
@value_sets
def test_the_server_takes_every_argument_that_it_is_given(values: dict[str, Any]) -> None:
    name, *arguments = rendered(values, namespace="platform").container["args"]
    main.commands[name].make_context(name, list(arguments))


@needs_helm
@value_sets
def test_every_file_that_an_argument_names_is_mounted(values: dict[str, Any]) -> None:
    objects = rendered(values, namespace="platform")
    folders = set(mounts(objects).values())
    for _, value in objects.options:
        if value.startswith("/"):
            assert {value, str(Path(value).parent)} & folders
    assert {one["name"] for one in objects.pod["volumes"]} == set(mounts(objects))


@needs_helm
@value_sets
def test_pods_are_hardened(values: dict[str, Any]) -> None:
    objects = rendered(values, namespace="platform")
    assert objects.pod["securityContext"]["runAsNonRoot"] is True
    assert objects.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert objects.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    writable = [one for one in objects.container["volumeMounts"] if not one.get("readOnly")]
    assert {volume(objects, one["name"])["emptyDir"]["medium"] for one in writable} == {"Memory"}
    assert not [one for one in objects.container["volumeMounts"] if "subPath" in one]


def test_the_token_is_mounted_where_it_is_used_and_nowhere_else() -> None:
    objects = shipped()
    assert objects.one("ServiceAccount")["automountServiceAccountToken"] is False
    assert objects.pod["automountServiceAccountToken"] is True
    assert objects.pod["serviceAccountName"] == objects.one("ServiceAccount")["metadata"]["name"]


# Coming, staying and going


def test_a_replica_has_an_hour_to_wait_for_the_api_server_its_certificate_and_policies_without_mistakes() -> None:
    probe = shipped().container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 3600
    assert probe["httpGet"]["path"] == shipped().container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert shipped().container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@needs_helm
@pytest.mark.parametrize("seconds", [0, 10, 300])
def test_the_kubelet_waits_longer_than_a_replica_needs_to_drain_and_to_stop(seconds: int) -> None:
    objects = rendered({"drainSeconds": seconds})
    assert ("--drain-seconds", str(seconds)) in objects.options
    assert objects.pod["terminationGracePeriodSeconds"] > seconds + 13


@needs_helm
@each(
    "values, restarts",
    {
        "a policy": ({"policies": {"inline": {"team-vision.yaml": TEAM}}}, False),
        "failurePolicy": ({"webhook": {"validate": {"failurePolicy": "Ignore"}}}, False),
        "timeout": ({"webhook": {"mutate": {"timeoutSeconds": 9}}}, False),
        "excluded namespaces": ({"webhook": {"namespaceSelector": {"exclude": ["a"]}}}, False),
        "replicas": ({"replicas": 5}, False),
        "disruption budget": ({"podDisruptionBudget": {"enabled": False}}, False),
        "network policy": ({"networkPolicy": {"enabled": False}}, False),
        "image": ({"image": {"tag": "0.2.0"}}, True),
        "an argument": ({"logLevel": "debug"}, True),
        "another volume": ({"policies": {"configMaps": ["more"]}}, True),
        "look-ups": (LOOKING_UP, True),
    },
)
def test_pods_are_replaced_only_for_what_they_cannot_take_up_as_they_run(
    values: dict[str, Any], restarts: bool
) -> None:
    before, after = (rendered(one).one("Deployment")["spec"]["template"] for one in ({}, values))
    assert (before != after) is restarts


# Policies

SHARED_QUOTAS = """
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUSharedQuotas
metadata: {name: _quotas}
spec: {quotas: [{name: research, namespaces: [physics, "research-*"], gpus: 16}]}
"""


@needs_helm
def test_all_policies_are_files_of_one_directory(tmp_path: Path) -> None:
    values = {"policies": {"inline": {"team-vision.yaml": TEAM}, "configMaps": ["base", "teams"]}}
    objects = rendered(values)
    sources = [source["configMap"] for source in volume(objects, "policies")["projected"]["sources"]]
    assert sources == [{"name": "gpu-policy-policies"}, {"name": "base"}, {"name": "teams"}]
    for name, text in objects.one("ConfigMap", "gpu-policy-policies")["data"].items():
        (tmp_path / name).write_text(text)
    assert {policy.name for policy in load(tmp_path).policies} == {"_default", "gpu-operator", "team-vision"}


@needs_helm
def test_shared_quotas_of_quota_are_given_like_any_other_file_and_none_is_there_before(tmp_path: Path) -> None:
    for values, shared_quotas in (({}, []), ({"policies": {"inline": {"_quotas.yaml": SHARED_QUOTAS}}}, ["research"])):
        data = rendered(values).one("ConfigMap", "gpu-policy-policies")["data"]
        for name, text in data.items():
            (tmp_path / name).write_text(text)
        assert [bound.quota.name for bound in load(tmp_path).shared_quotas] == shared_quotas


# Placement


@needs_helm
@each(
    "values, expected",
    {
        "default": ({}, ["system-cluster-critical"]),
        "a class of one's own": ({"priorityClassName": "mine"}, []),
        "no class": ({"priorityClassName": ""}, []),
        "switched off": ({"priorityClassQuota": {"enabled": False}}, []),
    },
)
def test_a_quota_allows_the_priority_class_of_the_system(values: dict[str, Any], expected: list[str]) -> None:
    objects = rendered(values)
    quotas = objects.of("ResourceQuota")
    assert [quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"] for quota in quotas] == [
        [name] for name in expected
    ]
    assert objects.pod.get("priorityClassName", "") == values.get("priorityClassName", "system-cluster-critical")


@needs_helm
@each(
    "image, expected",
    {
        "default": ({}, "gpu-policy-webhook:0.1.0"),
        "tag": ({"tag": "0.2.0"}, "gpu-policy-webhook:0.2.0"),
        "digest": ({"tag": "0.2.0", "digest": DIGEST}, f"gpu-policy-webhook@{DIGEST}"),
    },
)
def test_the_image_is_named_by_the_most_exact_that_is_known(image: dict[str, str], expected: str) -> None:
    assert rendered({"image": image}).container["image"] == expected


@needs_helm
def test_pods_on_the_nodes_network_resolve_names_as_others_do_and_no_network_policy_claims_them() -> None:
    objects = rendered({"hostNetwork": True})
    assert (objects.pod["hostNetwork"], objects.pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert objects.of("NetworkPolicy") == []


@needs_helm
def test_helm_test_asks_a_replica_as_the_api_server_does(tmp_path: Path) -> None:
    shown = ("--show-only=templates/test.yaml", "--kube-version=1.36.0", "--values=-")
    (pod,) = Objects.read(helm("template", "gpu-policy", str(CHART), *shown, values={}))
    (container,) = pod["spec"]["containers"]
    files = CertificateFiles(tmp_path / "tls", ["localhost"])
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(files.cert_file, files.key_file)
    server = make_server("localhost", 0, Replica(tmp_path / "policies").client.application, ssl_context=trust)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = container["args"][0].replace("gpu-policy.default.svc", f"localhost:{server.port}")
    for authority, status in ((files.ca_file.read_text(), 0), (AUTHORITY, 1)):
        command, given = [sys.executable, *container["command"][1:], script], {"AUTHORITY": authority}
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, "'uid': 'helm-test'" in done.stdout) == (status, status == 0), done.stderr
    server.shutdown()


@needs_helm
def test_there_is_no_test_pod_where_the_network_lets_nobody_else_ask() -> None:
    closed = {"networkPolicy": {"ingress": {"cidrs": ["10.0.0.1/32"]}}}
    made = helm("template", "gpu-policy", str(CHART), "--kube-version=1.36.0", "--values=-", values=closed)
    assert "helm.sh/hook" not in made

"""Installations as people make them: together they set every value of the chart."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from certs.authority import new_authority
from deploy.generate import CHART, INSTALL_VALUES

AUTHORITY = new_authority(datetime.now(UTC)).certificate_pem.decode()

SELF: dict[str, Any] = {}
CERT_MANAGER = {"certificates": {"source": "certManager"}}
EXISTING = {"certificates": {"source": "existing", "existing": {"secretName": "mine"}}}

LOOKING_UP: dict[str, Any] = {"registries": {"enabled": True}}

SILENT: dict[str, Any] = {"warnings": {"events": False}}
"""Without Events that have warnings."""

UNSHOWN: dict[str, Any] = {"policies": {"objects": False}}
"""Without objects that show policies."""

UNCOUNTED: dict[str, Any] = {"quota": {"enabled": False}}

TEAM = yaml.safe_dump(
    {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "GPUPolicy",
        "metadata": {"name": "team-vision"},
        "spec": {"rules": {"gpuLimits": {"mode": "enforce", "maxPerPod": 2}}},
    }
)


def example(name: str) -> dict[str, Any]:
    """The values of a file of deploy/chart/examples."""
    values: dict[str, Any] = yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text())
    return values


VALUE_SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "plain manifests": dict(INSTALL_VALUES),
    "a laptop": {
        "replicas": 1,
        "webhook": {
            "mutate": {"failurePolicy": "Ignore"},
            "validate": {"failurePolicy": "Ignore"},
            "nvidiaIsDefaultRuntime": True,
            "sendTolerateAll": True,
        },
        "podDisruptionBudget": {"enabled": False},
        "priorityClassName": "",
        "networkPolicy": {"enabled": False},
        "topologySpreadConstraints": [],
        "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "512Mi"}},
        "drainSeconds": 0,
        "warnings": {"events": False},
        "policies": {"objects": False, "crd": False},
        "logLevel": "debug",
        "image": {"tag": "dev", "pullPolicy": "Never"},
    },
    "a private GKE cluster": example("gke"),
    "AKS under Argo CD": example("aks-argo-cd"),
    "policies from several places": {
        "policies": {"defaults": False, "inline": {"team-vision.yaml": TEAM}, "configMaps": ["base-policies", "teams"]},
        "namespaceSeries": 10_000,
        "decisionSeconds": 0.5,
        "serviceMonitor": {"enabled": False},
        "prometheusRule": {"enabled": False},
        "grafanaDashboard": {"enabled": False},
    },
    "cert-manager with an authority of our own": {
        "certificates": {"source": "certManager", "certManager": {"duration": "720h", "renewBefore": "240h"}}
    },
    "cert-manager and an address instead of a Service": example("cert-manager"),
    "a certificate of our own": {
        "certificates": {
            "source": "existing",
            "existing": {"secretName": "corporate-tls", "caBundle": AUTHORITY},
            "clientCA": {"configMap": "apiserver-ca", "key": "client-ca.crt"},
            "clientNames": ["kube-apiserver", "kube-apiserver.example.com"],
        },
        "serviceMonitor": {"enabled": True, "tlsConfig": {"insecureSkipVerify": True}},
        "grafanaDashboard": {"labels": {"dashboards": "yes"}, "annotations": {"folder": "GPU"}},
    },
    "the nodes' network": {
        "hostNetwork": True,
        "port": 9443,
        "runAsUser": None,
        "extraArgs": ["--host=::", "--threads=8"],
        "extraEnv": [{"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.10"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}
                    ]
                }
            }
        },
        "namespace": {"create": True},
    },
    "everything closed": example("locked-down"),
    "images are looked up": dict(LOOKING_UP),
    "images are looked up in registries of our own": {
        "certificates": {"source": "certManager"},
        "registries": {
            "enabled": True,
            "presets": ["docker.io", "nvcr.io"],
            "extra": [
                {
                    "host": "registry.corp.example:5000",
                    "tokenHosts": ["auth.corp.example:8444"],
                    "blobHosts": ["*.s3.corp.example"],
                    "namespaces": ["team-*"],
                    "caFile": "corp.pem",
                },
                {"host": "*.lab.example", "plainHTTP": True},
            ],
            "authorities": {"corp.pem": AUTHORITY},
            "credentialsSecret": "registry-logins",
        },
        "networkPolicy": {"egress": {"registryPorts": [443, 8443], "registryCidrs": ["192.0.2.0/24"]}},
    },
    "no quotas": dict(UNCOUNTED),
    "audits every hour, without reports": {
        "audit": {
            "enabled": True,
            "schedule": "7 * * * *",
            "staleAfterHours": 2,
            "policyReports": "never",
            "activeDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": 0,
            "failedJobsHistoryLimit": 1,
            "resources": {"limits": {"memory": "1Gi"}},
        }
    },
    "a second release, and a patient API server": {
        "fullnameOverride": "gpu-policy-staging",
        "quota": {"enabled": True, "crd": False, "inFlightSeconds": 330},
        "flowControl": {"enabled": False, "concurrencyShares": 30},
    },
    "only refusals are needed": {
        "webhook": {"mutate": {"failurePolicy": "Ignore"}, "validate": {"failurePolicy": "Fail"}},
        "policies": {"defaults": True, "inline": {}},
    },
    "kinds of our own": {
        "workloads": {
            "enabled": True,
            "extraRules": [{"group": "ml.example.com", "resources": ["trainings"]}],
            "timeoutSeconds": 2,
        },
        "drivers": {"timeoutSeconds": 3},
    },
    "nothing is said of workloads": {"workloads": {"enabled": False}, "drivers": {"enabled": False}},
    "policies are checked when they are mounted": {"policies": {"checkAtApply": False}},
}
"""What the set is for -> its values."""

value_sets = pytest.mark.parametrize("values", [pytest.param(values, id=name) for name, values in VALUE_SETS.items()])
"""Runs a test once for each set."""

_LARGEST = sorted(VALUE_SETS, key=lambda name: len(str(VALUE_SETS[name])))[-4:]
large_sets = pytest.mark.parametrize("values", [pytest.param(VALUE_SETS[name], id=name) for name in _LARGEST])
"""Runs a test for the few sets that say most: for what no single value changes."""

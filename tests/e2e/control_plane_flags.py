"""How the parts of a control plane are called."""

from pathlib import Path

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    verbs: [get, list, watch]
  - level: Metadata
    resources:
      - {group: "", resources: [pods, pods/ephemeralcontainers, pods/resize]}
      - {group: apps}
      - {group: batch}
  - level: None
"""

CONTROLLERS = (
    "clusterrole-aggregation,cronjob,daemonset,deployment,disruption,garbagecollector,job,namespace,replicaset,"
    "replicationcontroller,resourceclaim-controller,resourcequota,statefulset"
)
"""What turns workloads into pods and templates into claims, keeps the books and adds up roles."""


def etcd(directory: Path, port: int, peer_port: int) -> list[str]:
    """A single member that forgets everything with its directory, so it need not wait for the disk."""
    client, peer = (f"http://127.0.0.1:{number}" for number in (port, peer_port))
    return [
        f"--advertise-client-urls={client}",
        f"--data-dir={directory / 'etcd'}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--listen-client-urls={client}",
        f"--listen-peer-urls={peer}",
        "--unsafe-no-fsync",
    ]


def api_server(directory: Path, port: int, etcd_port: int) -> list[str]:
    """RBAC, static tokens, an audit log, every version of claims; pods need no service account.

    The files are expected in `directory`.
    """
    return [
        "--allow-privileged=true",
        "--anonymous-auth=true",
        f"--audit-log-path={directory / 'audit.log'}",
        f"--audit-policy-file={directory / 'audit-policy.yaml'}",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory}",
        "--disable-admission-plugins=ServiceAccount",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
        f"--secure-port={port}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory / 'tls.crt'}",
        f"--service-account-signing-key-file={directory / 'tls.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--tls-cert-file={directory / 'tls.crt'}",
        f"--tls-private-key-file={directory / 'tls.key'}",
        f"--token-auth-file={directory / 'users.csv'}",
    ]


def client(kubeconfig: Path, port: int) -> list[str]:
    """A controller manager or scheduler that serves its own health over TLS at `port`."""
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--secure-port={port}",
    ]

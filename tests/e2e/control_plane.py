"""A real Kubernetes control plane on the loopback address: etcd and kube-apiserver, and its controllers when asked.

The binaries are those of Kubernetes 1.36 or newer.
"""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from certs.authority import issue, new_authority
from tests.e2e.control_plane_flags import AUDIT_POLICY, CONTROLLERS, api_server, client, etcd
from tests.e2e.daemon import Daemon

BINARIES = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
OLDEST = (1, 36)
"""The first version that has everything by default that tests use, such as device classes as extended resources."""

_MAKING_PODS = "cronjobs,daemonsets,deployments,jobs,replicasets,replicationcontrollers,statefulsets"

ADMIN_TOKEN = "admin-token"
"""May do everything (group system:masters)."""
TENANT_TOKEN = "tenant-token"
"""User `tenant`, without any rights until a test grants some."""
NODE_TOKEN = "node-token"
"""User `system:node:n1` of group system:nodes, without any rights until a test grants some."""
SCHEDULER_TOKEN = "scheduler-token"
"""User `system:kube-scheduler`, with the rights that every cluster gives it."""

_USERS = f"""\
{ADMIN_TOKEN},admin,admin,system:masters
{TENANT_TOKEN},tenant,tenant,
{NODE_TOKEN},system:node:n1,n1,system:nodes
{SCHEDULER_TOKEN},system:kube-scheduler,scheduler,
"""


class KubectlError(AssertionError):
    """kubectl ended with an error; the message has the command and what it printed."""


class ControlPlane:
    """An API server that belongs to one test session.

    `url`, `ca_file`, `kubeconfig` (of an administrator) and `token` say how to reach it. `directory` keeps logs.
    """

    def __init__(self, directory: Path, binaries: Path = BINARIES) -> None:
        self.directory = directory
        self.token = ADMIN_TOKEN
        self._binaries = binaries
        self._etcd_port, self._peer_port, self._port = _free_ports(3)
        self.url = f"https://127.0.0.1:{self._port}"
        self.ca_file = directory / "ca.crt"
        self.audit_log = directory / "audit.log"
        self.flags: list[str] = []
        """What the API server is started with besides the usual."""
        self._daemons: dict[str, Daemon] = {}
        self._write_files()
        self.kubeconfig = self.kubeconfig_for(ADMIN_TOKEN)

    @staticmethod
    def missing(binaries: Path = BINARIES) -> str | None:
        """Why no control plane can be started here, None when it can."""
        where = f"in {binaries}; KUBEBUILDER_ASSETS names the folder that holds them"
        needed = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        if absent := [name for name in needed if not (binaries / name).is_file()]:
            return f"no {', '.join(absent)} {where}"
        if (found := _version(binaries)) < OLDEST:
            return f"Kubernetes {found[0]}.{found[1]}, but {OLDEST[0]}.{OLDEST[1]} or newer is needed, {where}"
        return None

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version, such as (1, 36)."""
        return _version(self._binaries)

    def start(self) -> None:
        """Start etcd and the API server and return when requests are answered."""
        self._start_etcd()
        self.start_apiserver()

    def stop(self) -> None:
        """End every process that was started, the newest first, and drop etcd's data."""
        while self._daemons:
            self._daemons.popitem()[1].kill()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def start_apiserver(self) -> None:
        """Start the API server on the same port and the same data."""
        flags = [*api_server(self.directory, self._port, self._etcd_port), *self.flags]
        self._run("kube-apiserver", flags).wait_until(self._serves)

    def stop_apiserver(self) -> None:
        """End the API server; etcd and the controllers keep running."""
        if daemon := self._daemons.pop("kube-apiserver", None):
            daemon.stop(grace=3)

    def restart_apiserver(self) -> None:
        """End the API server and start it again on the same port and data."""
        self.stop_apiserver()
        self.start_apiserver()

    def start_controller_manager(self) -> None:
        """Start the controllers that turn workloads into pods, once."""
        if "kube-controller-manager" not in self._daemons:
            flags = [f"--controllers={CONTROLLERS}", "--use-service-account-credentials=true"]
            self._start_component("kube-controller-manager", *flags)

    def start_scheduler(self) -> None:
        """Start the scheduler, once. What earlier tests left goes, or it would take the place on the nodes."""
        for kinds in (_MAKING_PODS, "pods"):
            self.kubectl("delete", kinds, "--all", "--all-namespaces", "--force", "--grace-period=0", "--wait=false")
        if "kube-scheduler" not in self._daemons:
            own = self.kubeconfig_for(SCHEDULER_TOKEN)
            self._start_component("kube-scheduler", f"--kubeconfig={own}")

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002  # named as in subprocess.run
        check: bool = True,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl for at most 60 s; KubectlError when it fails and `check` is set."""
        command = [str(self._binaries / "kubectl"), f"--kubeconfig={kubeconfig or self.kubeconfig}"]
        command += [f"--namespace={namespace}"] if namespace else []
        done = subprocess.run(
            [*command, *arguments],
            input=input,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={"HOME": str(self.directory), "PATH": os.environ["PATH"], "GOGC": os.environ.get("GOGC", "400")},
        )
        if check and done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def raw(
        self, method: str, path: str, body: Any = None, token: str | None = None, *, content_type: str | None = None
    ) -> tuple[int, Any]:
        """One request as JSON; answers the HTTP status and the decoded body (text where it is no JSON).

        A PATCH is a merge patch unless `content_type` says otherwise; `token` defaults to the administrator's.
        """
        status, _, answer = self.exchange(method, path, body, token, content_type=content_type)
        return status, answer

    def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        *,
        content_type: str | None = None,
        impersonated: str = "",
    ) -> tuple[int, Message, Any]:
        """The same, with the header of the answer; perhaps as another user, `USER` or `USER@GROUP`."""
        default = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": content_type or default}
        user, _, group = impersonated.partition("@")
        headers |= {"Impersonate-User": user} if user else {}
        headers |= {"Impersonate-Group": group} if group else {}
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=40, context=self._tls)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            return answer.status, answer.headers, json.loads(text)
        except json.JSONDecodeError:
            return answer.status, answer.headers, text

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace."""
        metadata = {"name": name, "labels": labels or {}}
        self._demand("POST", "/api/v1/namespaces", {"metadata": metadata})
        return name

    def shared_namespace(self, name: str) -> str:
        """A namespace that several tests use; created by the first."""
        if self.raw("GET", f"/api/v1/namespaces/{name}")[0] == 404:
            self.namespace(name)
        return name

    def webhook_service(self, namespace: str, name: str, port: int) -> dict[str, Any]:
        """Create a Service through which webhook configurations reach `port` of this machine's loopback address.

        Answers the `clientConfig.service` to register; add `path`. The API server expects a certificate for
        `<name>.<namespace>.svc` and takes the port from the reference, not from the Service.
        """
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        self._demand("POST", f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": name}, "spec": spec})
        return {"namespace": namespace, "name": name, "port": port}

    def kubeconfig_for(self, token: str) -> Path:
        """A kubeconfig for the user of `token`, also one of a service account."""
        file = self.directory / f"kubeconfig-{token[-24:]}"
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        file.write_text(yaml.safe_dump(content))
        return file

    def audit_events(self) -> list[dict[str, Any]]:
        """Everything written to the audit log so far: writes to pods and workloads, without their bodies.

        An event can reach the file a moment after its answer reached the client.
        """
        lines = self.audit_log.read_text().splitlines() if self.audit_log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _serves(self) -> bool:
        try:
            return self.raw("GET", "/readyz")[0] == 200 and self.raw("GET", "/api/v1/namespaces/default")[0] == 200
        except OSError:
            return False

    def _demand(self, method: str, path: str, body: Any) -> None:
        status, answer = self.raw(method, path, body)
        if status >= 300:
            raise AssertionError(f"{method} {path}: {status} {answer}")

    def _run(self, name: str, arguments: list[str]) -> Daemon:
        log = self.directory / f"{name}.log"
        # Garbage is collected half as often as usual, for less CPU.
        self._daemons[name] = Daemon(
            [str(self._binaries / name), *arguments], log=log, env={**os.environ, "GOGC": "200"}
        )
        return self._daemons[name]

    def _start_etcd(self) -> None:
        url = f"http://127.0.0.1:{self._etcd_port}"
        flags = etcd(self.directory, self._etcd_port, self._peer_port)
        self._run("etcd", flags).wait_until(lambda: _healthy(f"{url}/health"))

    def _start_component(self, name: str, *arguments: str) -> None:
        """Start a client of the API server that reports its own health over TLS."""
        (port,) = _free_ports(1)
        flags = [*client(self.kubeconfig, port), *arguments]
        self._run(name, flags).wait_until(lambda: _healthy(f"https://127.0.0.1:{port}/healthz"))

    def _write_files(self) -> None:
        now = datetime.now(UTC)
        authority = new_authority(now)
        serving = issue(authority, ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"], now)
        self.ca_file.write_bytes(authority.certificate_pem)
        (self.directory / "tls.crt").write_bytes(serving.certificate_pem)
        (self.directory / "tls.key").write_bytes(serving.key_pem)
        (self.directory / "users.csv").write_text(_USERS)
        (self.directory / "audit-policy.yaml").write_text(AUDIT_POLICY)


@cache
def _version(binaries: Path) -> tuple[int, int]:
    done = subprocess.run([binaries / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
    major, minor = re.findall(r"v(\d+)\.(\d+)", done.stdout)[0]
    return int(major), int(minor)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def _healthy(url: str) -> bool:
    unverified = ssl._create_unverified_context()  # noqa: S323  # a health check of a process we started
    try:
        with urllib.request.urlopen(url, timeout=5, context=unverified) as answer:  # noqa: S310  # loopback only
            return bool(answer.status == 200)
    except OSError:
        return False

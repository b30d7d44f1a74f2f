"""A process that runs as a pod of install.yaml would: with its arguments, its files and its rights."""

import http.client
import ssl
from pathlib import Path

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import Daemon
from tests.e2e.installation import COMMAND, NAMESPACE
from tests.e2e.load_balancer import free_ports


class PodProcess:
    """One replica. What differs from a pod is where files and ports are, and that a kubeconfig leads to the server.

    install.yaml has to be applied; `start` returns when the replica is ready.
    """

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane = plane
        self._root = directory
        self._port, self._metrics_port = free_ports(2)
        self._daemon: Daemon | None = None

    def start(self) -> None:
        """Mount what the pod mounts and start what its container starts."""
        self._mount()
        container = shipped().container
        arguments = [argument.replace("=/", f"={self._root}/") for argument in container["args"]]
        ports = [f"--port={self._port}", f"--metrics-port={self._metrics_port}"]
        here = [f"--kubeconfig={self._kubeconfig()}", "--host=127.0.0.1", *ports, "--drain-seconds=0"]
        self._daemon = Daemon([*COMMAND, *arguments, *here], log=self._root / "replica.log")
        self._daemon.wait_until(lambda: self.get("/readyz")[0] == 200)

    def stop(self) -> None:
        """End it as the kubelet does."""
        if self._daemon is not None:
            self._daemon.stop(grace=20)

    def get(self, path: str, port: int = 0) -> tuple[int, str]:
        """Status and text of one page, perhaps on another port; status 0 where nobody answers."""
        unverified = ssl._create_unverified_context()  # noqa: S323  # what is trusted is for the test to find out
        connection = http.client.HTTPSConnection("127.0.0.1", port or self._port, timeout=5, context=unverified)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """Every sample: name with labels -> value."""
        lines = self.get("/metrics", self._metrics_port)[1].splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def _mount(self) -> None:
        objects = shipped()
        config_maps = {one["metadata"]["name"]: one["data"] for one in objects.of("ConfigMap")}
        for mount in objects.container["volumeMounts"]:
            folder = self._root / mount["mountPath"].lstrip("/")
            folder.mkdir(parents=True)
            for name, text in config_maps.get(f"gpu-policy-{mount['name']}", {}).items():
                (folder / name).write_text(text)

    def _kubeconfig(self) -> Path:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpu-policy/token"
        status, answer = self._plane.raw("POST", path, {"spec": {"audiences": []}})
        assert status == 201, answer
        return self._plane.kubeconfig_for(answer["status"]["token"])

"""Settings of one installation, as values without heavy imports: the process that supervises the server has them."""

from dataclasses import dataclass
from pathlib import Path

from certs.cluster import Kept, SecretPlace
from webhook.kubernetes.api_paths import CORE, path_of


def kept_certificates(secret: str, directory: Path | None, names: tuple[str, ...], settle_seconds: float) -> Kept:
    """What the options of a command say of kept certificates. Raises ValueError, which names the option."""
    place = SecretPlace(*_place("--certificate-secret", secret))
    if directory is None:
        raise ValueError("--certificate-secret needs --certificate-dir, a directory that this replica may write")
    if not names:
        raise ValueError("--certificate-secret needs --certificate-name, as in gpu-policy.gpu-policy.svc")
    return Kept(place, directory, names, settle_seconds)


@dataclass(frozen=True, slots=True)
class InstallationSettings:
    """Certificates and registration of this installation; `kubeconfig` is None inside the cluster."""

    certificates: Kept | None
    """None where the replicas do not keep certificates themselves."""
    certificate_file: Path
    """The served certificate, whoever keeps it."""
    registration_file: Path | None
    """The webhook configurations as they were installed."""
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapPlace:
    """Namespace and name of a ConfigMap."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        return path_of(CORE, "configmaps", namespace=self.namespace, name=self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, option: str, text: str) -> "ConfigMapPlace":
        """Make it of the options of a command. Raises ValueError, which names the option."""
        return cls(*_place(option, text))


def _place(option: str, text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"{option}: {text!r} is not of the form NAMESPACE/NAME")
    return namespace, name

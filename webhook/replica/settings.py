"""What belongs to one installation, as values that weigh nothing: the process that watches over the server has them."""

from dataclasses import dataclass
from pathlib import Path

from certs.cluster import SecretPlace
from webhook.kubernetes.api_paths import CORE, path_of


@dataclass(frozen=True, slots=True)
class KeptCertificates:
    """Certificates that the replicas keep by themselves, in a Secret that all of them share."""

    secret: SecretPlace
    directory: Path
    """Where this replica puts what it presents: tls.crt and tls.key."""
    names: tuple[str, ...]
    """DNS names and IP addresses under which the API server calls."""
    settle_seconds: float
    """How long a new authority stands in every caBundle before it issues."""

    @classmethod
    def of(
        cls, secret: str, directory: Path | None, names: tuple[str, ...], settle_seconds: float
    ) -> "KeptCertificates":
        """The same from what a command line gives; ValueError says what is wrong with it."""
        namespace, name = _place("--certificate-secret", secret)
        if directory is None:
            raise ValueError("--certificate-secret needs --certificate-dir, a directory that this replica may write")
        if not names:
            raise ValueError("--certificate-secret needs --certificate-name, as in gpu-policy.gpu-policy.svc")
        return cls(SecretPlace(namespace, name), directory, names, settle_seconds)


@dataclass(frozen=True, slots=True)
class InstallationSettings:
    """What belongs to this installation; `kubeconfig` is None inside the cluster."""

    certificates: KeptCertificates | None
    """None where somebody else keeps them."""
    certificate_file: Path
    """What is presented, whoever keeps it."""
    registration_file: Path | None
    """The webhook configurations as they were installed."""
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class ConfigMapPlace:
    """Where a ConfigMap is."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its API path."""
        return path_of(CORE, "configmaps", namespace=self.namespace, name=self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, option: str, text: str) -> "ConfigMapPlace":
        """The same from what a command line gives; ValueError says what is wrong with it."""
        return cls(*_place(option, text))


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """How the replicas look images up in their registries; `kubeconfig` is None inside the cluster."""

    registries_file: Path
    """The registries that may be asked."""
    credentials_file: Path | None
    """What is shown to them, in the format of Docker's config.json."""
    results: ConfigMapPlace | None
    """Where the replicas share what they find; None where each keeps it to itself."""
    kubeconfig: Path | None = None

    @classmethod
    def of(
        cls, registries: Path, credentials: Path | None, results: str | None, kubeconfig: Path | None
    ) -> "ImageSettings":
        """The same from what a command line gives; ValueError says what is wrong with it."""
        place = None if results is None else ConfigMapPlace.of("--image-results", results)
        return cls(registries, credentials, place, kubeconfig)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Where audits of the cluster keep their status; `kubeconfig` is None inside the cluster."""

    status: ConfigMapPlace
    namespace_series: int
    """Namespaces that are shown by name."""
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Where the replicas keep the ledgers of quotas; `kubeconfig` is None inside the cluster."""

    namespace: str
    in_flight_seconds: float
    """Longer than any admission takes from our answer to the stored pod, in seconds."""
    kubeconfig: Path | None = None


def _place(option: str, text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"{option}: {text!r} is not of the form NAMESPACE/NAME")
    return namespace, name

"""Settings of one installation, as values without heavy imports: the process that supervises the server has them."""

from dataclasses import dataclass
from pathlib import Path

from certs.cluster import SecretPlace
from webhook.kubernetes.api_paths import CORE, path_of


@dataclass(frozen=True, slots=True)
class KeptCertificates:
    """Certificates that the replicas make and renew, in a Secret that all replicas share."""

    secret: SecretPlace
    directory: Path
    """Where this replica writes the certificate that it serves: tls.crt and tls.key."""
    names: tuple[str, ...]
    """DNS names and IP addresses under which the API server calls."""
    settle_seconds: float
    """Seconds that a new authority is in every caBundle before it issues certificates."""

    @classmethod
    def of(
        cls, secret: str, directory: Path | None, names: tuple[str, ...], settle_seconds: float
    ) -> "KeptCertificates":
        """Make it of the options of a command. Raises ValueError, which names the option."""
        namespace, name = _place("--certificate-secret", secret)
        if directory is None:
            raise ValueError("--certificate-secret needs --certificate-dir, a directory that this replica may write")
        if not names:
            raise ValueError("--certificate-secret needs --certificate-name, as in gpu-policy.gpu-policy.svc")
        return cls(SecretPlace(namespace, name), directory, names, settle_seconds)


@dataclass(frozen=True, slots=True)
class InstallationSettings:
    """Certificates and registration of this installation; `kubeconfig` is None inside the cluster."""

    certificates: KeptCertificates | None
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


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Look-ups of images in their registries; `kubeconfig` is None inside the cluster."""

    registries_file: Path
    """The file that lists the registries to ask."""
    credentials_file: Path | None
    """Credentials for these registries, in the format of Docker's config.json."""
    results: ConfigMapPlace | None
    """Where the replicas share results; None where they do not share them."""
    kubeconfig: Path | None = None

    @classmethod
    def of(
        cls, registries: Path, credentials: Path | None, results: str | None, kubeconfig: Path | None
    ) -> "ImageSettings":
        """Make it of the options of a command. Raises ValueError, which names the option."""
        place = None if results is None else ConfigMapPlace.of("--image-results", results)
        return cls(registries, credentials, place, kubeconfig)


def _place(option: str, text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"{option}: {text!r} is not of the form NAMESPACE/NAME")
    return namespace, name

"""What belongs to one installation, as values that weigh nothing: the process that watches over the server has them."""

from dataclasses import dataclass
from pathlib import Path

from certs.cluster import SecretPlace


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
        namespace, _, name = secret.partition("/")
        if not namespace or not name or "/" in name:
            raise ValueError(f"--certificate-secret: {secret!r} is not of the form NAMESPACE/NAME")
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

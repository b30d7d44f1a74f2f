"""The options of `gpu-policy serve` as one value, without heavy imports: the supervising process has it, too."""

from dataclasses import dataclass
from pathlib import Path

from webhook.replica.settings import (
    AuditSettings,
    ConfigMapPlace,
    ImageSettings,
    InstallationSettings,
    KeptCertificates,
)


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The options by their parameters. Raises ValueError, which names the options, where they contradict each other."""

    policies: Path
    inventory: Path | None
    kubeconfig: Path | None
    cert: Path | None
    key: Path | None
    certificate_secret: str | None
    certificate_dir: Path | None
    certificate_names: tuple[str, ...]
    certificate_settle_seconds: float
    registration: Path | None
    registries: Path | None
    registry_credentials: Path | None
    image_results: str | None
    quota_ledgers: str | None
    quota_in_flight_seconds: float
    quota_names: str
    audit_status: str | None
    warning_events: bool
    policy_objects: str | None
    client_ca: Path | None
    client_names: tuple[str, ...]
    host: str
    port: int
    decision_seconds: float
    metrics_port: int | None
    threads: int
    drain_seconds: float
    idle_seconds: float
    namespace_series: int
    log_level: str

    def __post_init__(self) -> None:
        def refuse(is_wrong: object, message: str) -> None:
            if is_wrong:
                raise ValueError(message)

        refuse(
            self.client_names and not self.client_ca,
            "--client-name needs --client-ca, the CA of the client certificates",
        )
        twice = f"--metrics-port and --port are both {self.port}; choose another --metrics-port, or leave it out"
        refuse(self.metrics_port == self.port, twice)
        unused = "--registry-credentials and --image-results need --registries, the list of registries"
        refuse(not self.registries and (self.registry_credentials or self.image_results), unused)
        two = "--certificate-secret and --cert with --key exclude each other; name one source of certificates"
        refuse(self.certificate_secret and (self.cert or self.key), two)
        none = "no certificate to serve: name --cert and --key, or --certificate-secret"
        refuse(not self.certificate_secret and not (self.cert and self.key), none)
        if self.inventory is not None:
            it, them = (f"a cluster; leave {them} out, or leave out --inventory" for them in ("it", "them"))
            kept = self.certificate_secret or self.registration
            refuse(kept, f"--certificate-secret and --registration need {them}")
            refuse(self.image_results, f"--image-results needs {it}")
            in_memory = "--quota-ledgers needs a cluster; leave it out, because --inventory keeps ledgers in memory"
            refuse(self.quota_ledgers, in_memory)
            written = self.warning_events or self.policy_objects
            refuse(written, f"--warning-events and --policy-objects need {them}")
            refuse(self.audit_status, f"--audit-status needs {it}")
        _ = self.certificates, self.images, self.audits  # whose texts can be wrong in themselves

    @property
    def certificates(self) -> KeptCertificates | None:
        """The certificates that the replicas keep themselves; None without --certificate-secret."""
        if self.certificate_secret is None:
            return None
        settle = self.certificate_settle_seconds
        return KeptCertificates.of(self.certificate_secret, self.certificate_dir, self.certificate_names, settle)

    @property
    def served_files(self) -> tuple[Path, Path]:
        """The files of the served certificate and key, which may not exist yet."""
        if (kept := self.certificates) is not None:
            return kept.directory / "tls.crt", kept.directory / "tls.key"
        assert self.cert is not None  # noqa: S101  # see __post_init__
        assert self.key is not None  # noqa: S101  # see __post_init__
        return self.cert, self.key

    @property
    def installation(self) -> InstallationSettings | None:
        if self.certificates is None and self.registration is None:
            return None
        return InstallationSettings(self.certificates, self.served_files[0], self.registration, self.kubeconfig)

    @property
    def images(self) -> ImageSettings | None:
        """The look-ups of images; None without --registries."""
        if self.registries is None:
            return None
        return ImageSettings.of(self.registries, self.registry_credentials, self.image_results, self.kubeconfig)

    @property
    def audits(self) -> AuditSettings | None:
        if self.audit_status is None:
            return None
        place = ConfigMapPlace.of("--audit-status", self.audit_status)
        return AuditSettings(place, self.namespace_series, self.kubeconfig)

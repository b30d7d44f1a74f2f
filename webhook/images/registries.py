"""Registries, with every host that may be contacted for each.

`PRESETS` has the public registries, and the hosts to which each sends its clients for tokens and blobs. Their sources
are what registries publish for firewalls, or else the redirects that were observed. If a host is missing, look-ups fail
with its name in the text. People can then list it under spec.registries.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from webhook.images.hosts import Host, HostPattern, Url
from webhook.images.lookup_limits import ImageLookupError


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry, whose images have `host` in their name, and the hosts of its tokens and blobs.

    `endpoint` is the host that speaks the protocol, empty if that is `host`. `authorities` are certificates (PEM) that
    are trusted besides those of the system. Only `namespaces`, names and globs, are told what it says of images.
    """

    host: HostPattern
    endpoint: str = ""
    token_hosts: tuple[HostPattern, ...] = ()
    blob_hosts: tuple[HostPattern, ...] = ()
    plain_http: bool = False
    authorities: str | None = None
    namespaces: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class Site:
    """A registry under one of its host names."""

    registry: Registry
    host: Host
    """The host that speaks the protocol."""

    def url(self, target: str) -> Url:
        """The URL of a path on the registry."""
        return Url("http" if self.registry.plain_http else "https", self.host, target)

    def is_own(self, url: Url) -> bool:
        """Whether the URL leads to the registry itself, with TLS if the registry has TLS."""
        return url.host == self.host and (url.scheme == "https" or self.registry.plain_http)

    def check_redirect(self, url: Url) -> None:
        """Raise ImageLookupError unless manifests and blobs may be fetched from the URL."""
        self._check(url, self.registry.blob_hosts, "redirects to", "blobHosts")

    def check_realm(self, url: Url) -> None:
        """Raise ImageLookupError unless tokens may be requested from the URL."""
        self._check(url, self.registry.token_hosts, "sends clients for tokens to", "tokenHosts")

    def _check(self, url: Url, patterns: tuple[HostPattern, ...], what: str, key: str) -> None:
        if self.is_own(url):
            return
        if not any(pattern.matches(url.host) for pattern in patterns):
            raise ImageLookupError(
                f"the registry {what} {url.host}, which its {key} do not list; list the host there if it belongs to "
                "the registry"
            )
        if url.scheme != "https":
            raise ImageLookupError(f"the registry {what} {url.host} without TLS; that host must be used over https")


@lru_cache(maxsize=8)
def trust(authorities: str | None = None) -> ssl.SSLContext:
    """A client's TLS context that trusts the authorities of the system and those in a PEM text.

    Contexts are shared, because each takes about 1 MiB. Raises ValueError if the text has no certificate.
    """
    context = ssl.create_default_context()
    if authorities is not None:
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError as error:
            raise ValueError("no certificate in PEM") from error
    return context


_AWS_REGIONS = (
    *("af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2"),
    *("ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6"),
    *("ap-southeast-7", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1"),
    *("eu-south-2", "eu-west-1", "eu-west-3", "il-central-1", "me-central-1", "mx-central-1", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)


def _patterns(*names: str) -> tuple[HostPattern, ...]:
    return tuple(map(HostPattern, names))


def _registry(
    host: str, *, endpoint: str = "", token_hosts: tuple[str, ...] = (), blob_hosts: tuple[str, ...] = ()
) -> Registry:
    return Registry(HostPattern(host), endpoint, _patterns(*token_hosts), _patterns(*blob_hosts))


PRESETS: Mapping[str, tuple[Registry, ...]] = MappingProxyType(
    {
        # docs.docker.com/desktop/setup/allow-list; S3 answers clients inside of AWS (docker/hub-feedback issue 1318)
        "docker.io": (
            _registry(
                "docker.io",
                endpoint="registry-1.docker.io",
                token_hosts=("auth.docker.io",),
                blob_hosts=(
                    "production.cloudflare.docker.com",
                    "production.cloudfront.docker.com",
                    "docker-images-prod.6aa30f8b08e16409b46e0173d6de2f56.r2.cloudflarestorage.com",
                    "docker-images-prod.s3.amazonaws.com",
                    "docker-images-prod.s3.dualstack.us-east-1.amazonaws.com",
                ),
            ),
        ),
        # Tokens: nvcr.io/proxy_auth, formerly authn.nvidia.com/token. Blobs: 307 to layers.nvcr.io, as seen in 2026.
        "nvcr.io": (_registry("nvcr.io", token_hosts=("authn.nvidia.com",), blob_hosts=("layers.nvcr.io",)),),
        # docs.github.com, "Working with the Container registry"; aquasecurity/trivy docs, references/troubleshooting
        "ghcr.io": (_registry("ghcr.io", blob_hosts=("pkg-containers.githubusercontent.com",)),),
        # OpenShift, "Configuring your firewall": cdn.quay.io, cdn01 to cdn06, and the bucket
        "quay.io": (
            _registry(
                "quay.io",
                blob_hosts=(
                    "*.quay.io",
                    "quayio-production-s3.s3.amazonaws.com",
                    "quayio-production-s3.s3.us-east-1.amazonaws.com",
                ),
            ),
        ),
        # kubernetes/registry.k8s.io, cmd/archeio: manifests from Artifact Registry, blobs also from AWS
        "registry.k8s.io": (
            _registry(
                "registry.k8s.io",
                blob_hosts=(
                    "*.pkg.dev",
                    "storage.googleapis.com",
                    "d1be1w964nk82h.cloudfront.net",
                    "767373bbdcb8270361b96548387bf2a9ad0d48758c35-eu-west-2.s3.dualstack.eu-west-2.amazonaws.com",
                    *(f"prod-registry-k8s-io-{name}.s3.dualstack.{name}.amazonaws.com" for name in _AWS_REGIONS),
                ),
            ),
        ),
        # cloud.google.com/artifact-registry/docs: blobs from the host itself, formerly from Cloud Storage
        "gcr.io": (
            _registry("gcr.io", blob_hosts=("storage.googleapis.com",)),
            _registry("*.gcr.io", blob_hosts=("storage.googleapis.com",)),
        ),
        "pkg.dev": (_registry("*.pkg.dev", blob_hosts=("storage.googleapis.com",)),),
        # microsoft/containerregistry, docs/client-firewall-rules.md
        "mcr.microsoft.com": (_registry("mcr.microsoft.com", blob_hosts=("*.data.mcr.microsoft.com",)),),
        # anywhere.eks.amazonaws.com/docs/getting-started, the domains to allow
        "public.ecr.aws": (
            _registry("public.ecr.aws", blob_hosts=("d2glxqk2uabbnd.cloudfront.net", "d5l0dvt14r5h8.cloudfront.net")),
        ),
        # docs.gitlab.com/user/gitlab_com, "Container registry"
        "registry.gitlab.com": (
            _registry(
                "registry.gitlab.com",
                token_hosts=("gitlab.com",),
                blob_hosts=("cdn.registry.gitlab-static.net", "storage.googleapis.com"),
            ),
        ),
    }
)
"""Registries by their name under spec.presets."""

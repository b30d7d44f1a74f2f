"""One registry, with everything that may be contacted for it."""

from dataclasses import dataclass

from webhook.images.addresses import Network
from webhook.images.hosts import Host, HostPattern, Url
from webhook.images.lookup_errors import LookUpError


@dataclass(frozen=True, slots=True)
class Registry:
    """What may be contacted for images of `host`: the host itself, and those of its tokens and blobs.

    `endpoint` is the name of the host that speaks the protocol, empty where it is the one in the image's name.
    `authorities` are certificates (PEM) that are trusted besides those of the system, None where there are none.
    """

    host: HostPattern
    endpoint: str = ""
    token_hosts: tuple[HostPattern, ...] = ()
    blob_hosts: tuple[HostPattern, ...] = ()
    plain_http: bool = False
    private_addresses: tuple[Network, ...] = ()
    authorities: str | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """A registry under one of the names that it answers to."""

    registry: Registry
    host: Host
    """That speaks the protocol."""

    def url(self, target: str) -> Url:
        """Where the registry answers for a path."""
        return Url("http" if self.registry.plain_http else "https", self.host, target)

    def is_own(self, url: Url) -> bool:
        """Whether the URL leads to the registry itself, by a way that is as safe as the one to it."""
        return url.host == self.host and (url.scheme == "https" or self.registry.plain_http)

    def check_redirect(self, url: Url) -> None:
        """Raise LookUpError unless a manifest or blob may be fetched there."""
        self._check(url, self.registry.blob_hosts, "redirects to", "blobHosts")

    def check_realm(self, url: Url) -> None:
        """Raise LookUpError unless a token may be asked for there."""
        self._check(url, self.registry.token_hosts, "sends clients for tokens to", "tokenHosts")

    def _check(self, url: Url, patterns: tuple[HostPattern, ...], what: str, key: str) -> None:
        if self.is_own(url):
            return
        if not any(pattern.matches(url.host) for pattern in patterns):
            raise LookUpError(
                f"the registry {what} {url.host}, which its {key} do not list; list the host there if it belongs to "
                "the registry"
            )
        if url.scheme != "https":
            raise LookUpError(f"the registry {what} {url.host} without TLS; that host must be used over https")

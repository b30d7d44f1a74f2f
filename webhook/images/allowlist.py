"""The list of registries that may be queried, read from a file. No other registry is ever contacted.

```yaml
apiVersion: gpupolicy.dev/v1alpha1
kind: Registries
spec:
  presets: [docker.io, nvcr.io]        # public registries, with the hosts of their tokens and blobs
  registries:
    - host: registry.corp.example:5000 # as in the names of images; *.corp.example is every host below the domain
      tokenHosts: [auth.corp.example]  # may be asked for tokens, and may be sent the credentials
      blobHosts: ["*.s3.corp.example"] # may be redirected to, without credentials
      plainHTTP: false                 # the registry itself speaks HTTP without TLS
      namespaces: ["team-*"]           # may know what it says of images, which may be private; default: all
      caFile: corp.pem                 # trusted besides the authorities of the system; relative to this file
```
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from webhook.images.hosts import HTTP, HTTPS, Host, HostPattern, split_host, split_pattern
from webhook.images.http_request import ImageLookupError, Url, trust
from webhook.model.globs import matcher
from webhook.model.image import ImageInfo, ImageReference, parse_reference
from webhook.model.shape import FormatError, spelled
from webhook.model.wording import hint
from webhook.policy.document import read_as
from webhook.policy.schema import schema_of
from webhook.yaml_files.camel_model import CamelModel, readable
from webhook.yaml_files.file_errors import Faults, FileErrors, key_text
from webhook.yaml_files.shipped_tables import read_table
from webhook.yaml_files.yaml_lines import read_yaml


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry, whose images have `host` in their name, and the hosts of its tokens and blobs.

    `endpoint` is the host that speaks the protocol, empty if that is `host`. `authorities` are certificates (PEM) that
    are trusted besides the system's. Only `namespaces`, names and globs, may know what it says of images.
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
    """A registry under one of its host names. `host` speaks the protocol."""

    registry: Registry
    host: Host

    def url(self, target: str) -> Url:
        return Url("http" if self.registry.plain_http else "https", self.host, target)

    def is_own(self, url: Url) -> bool:
        """Whether the URL leads to the registry itself, with TLS if the registry has TLS."""
        return url.host == self.host and (url.scheme == "https" or self.registry.plain_http)

    def check(self, url: Url, patterns: tuple[HostPattern, ...], does: str, key: str) -> None:
        """Raise ImageLookupError unless the URL leads to the registry itself, or to a host that `key` lists."""
        if self.is_own(url):
            return
        if not any(pattern.matches(url.host) for pattern in patterns):
            raise ImageLookupError(
                f"the registry {does}, and its {key} do not list {url.host}; list the host there if it belongs to the "
                "registry"
            )
        if url.scheme != "https":
            raise ImageLookupError(f"the registry {does}, without TLS; that host must be used over https")


_ROWS = read_table(Path(__file__).with_name("data") / "presets.yaml")
PRESETS: Mapping[str, tuple[Registry, ...]] = {
    name: tuple(
        Registry(
            HostPattern(row["host"]),
            row.get("endpoint", ""),
            tuple(map(HostPattern, row.get("tokenHosts", ()))),
            tuple(map(HostPattern, row.get("blobHosts", ()))),
        )
        for row in rows
    )
    for name, rows in _ROWS.items()
}
"""Registries by their name under spec.presets."""


def _preset(name: str) -> str:
    if name not in PRESETS:
        raise ValueError(f"{spelled(name)} is not a preset; presets are {', '.join(PRESETS)}{hint(name, PRESETS)}")
    return name


def _authorities(text: str, info: ValidationInfo) -> str:
    """The PEM text in the named file. The path is relative to the list."""
    path = (info.context or {})["folder"] / text
    try:
        pem = str(path.read_text("utf-8"))
        trust(pem)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); name a file with certificates in PEM") from None
    except ValueError:
        raise ValueError(f"{path} holds no certificate; name a file with certificates in PEM") from None
    return pem


HostText = Annotated[str, AfterValidator(readable(split_pattern)), Field(examples=["registry.corp.example:5000"])]


class _Entry(CamelModel):
    """A registry as people list it."""

    host: HostText
    token_hosts: tuple[HostText, ...] = ()
    blob_hosts: tuple[HostText, ...] = ()
    plain_http: Annotated[bool, Field(alias="plainHTTP")] = False
    namespaces: tuple[str, ...] = ("*",)
    ca_file: Annotated[str, AfterValidator(_authorities), Field(examples=["corp.pem"])] | None = None

    @property
    def registry(self) -> Registry:
        return Registry(
            _pattern(self.host, HTTP if self.plain_http else HTTPS),
            token_hosts=tuple(map(_pattern, self.token_hosts)),
            blob_hosts=tuple(map(_pattern, self.blob_hosts)),
            plain_http=self.plain_http,
            authorities=self.ca_file,
            namespaces=self.namespaces,
        )


def _pattern(text: str, default: int = HTTPS) -> HostPattern:
    name, port = split_pattern(text)
    return HostPattern(name, port or default)


class _Spec(CamelModel):
    presets: tuple[Annotated[str, AfterValidator(_preset)], ...] = ()
    registries: tuple[_Entry, ...] = ()


class _File(CamelModel):
    api_version: Literal["gpupolicy.dev/v1alpha1"]
    kind: Literal["Registries"]
    spec: _Spec


class AllowList:
    """The registries that may be queried. An exact host name beats a domain, and a longer domain a shorter one."""

    def __init__(self, registries: Iterable[Registry]) -> None:
        self._registries = sorted(registries, key=lambda one: (one.host.name.startswith("*."), -len(one.host.name)))
        self.site: Callable[[str], Site | None] = lru_cache(maxsize=1_000)(self._site)
        """The registry with this name in image references; None if it may not be queried. Finding it anew takes 15
        microseconds, for each container of each pod."""

    @classmethod
    def load(cls, path: Path | str) -> "AllowList":
        """Read the list in the file at `path`. Raises FileErrors with every mistake in it."""
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            found = f"the file cannot be read ({error.strerror or error}); name a readable file"
            raise FileErrors.of(str(path), found) from None
        root, faults = read_yaml(content, str(path), "list of registries"), Faults()
        file = read_as(root, _File, schema_of(_File), faults, context={"folder": path.parent})
        if file is None:
            raise FileErrors(faults.errors)
        registries = [registry for name in file.spec.presets for registry in PRESETS[name]]
        taken = {registry.host: "a preset" for registry in registries}
        for number, entry in enumerate(file.spec.registries):
            place, registry = ("spec", "registries", number), entry.registry
            if registry.host in taken:
                message = f"{registry.host.name} is also listed by {taken[registry.host]}; keep one of the two"
                faults.add(root.file, root.at(*place).line, place, message)
            taken[registry.host] = key_text(place)
            registries.append(registry)
        if not registries:
            message = f"lists no registry; name presets ({', '.join(PRESETS)}) or registries"
            faults.add(root.file, root.at("spec").line, "spec", message)
        faults.raise_if_any()
        return cls(registries)

    def allows(self, reference: ImageReference) -> bool:
        return self.site(reference.registry) is not None

    def listed_as(self, reference: ImageReference) -> str:
        """The entry for the registry of the image, as host:port; a pattern is one entry. Empty if the list has none."""
        site = self.site(reference.registry)
        return "" if site is None else f"{site.registry.host.name}:{site.registry.host.port}"

    def withheld(self, image: str, namespace: str) -> ImageInfo | None:
        """Why a namespace may not know what the registry says of an image; None if it may."""
        try:
            registry = parse_reference(image).registry
        except FormatError:
            return None
        site = self.site(registry)
        if site is None or any(matcher(pattern).fullmatch(namespace) for pattern in site.registry.namespaces):
            return None
        whom = f"namespace {namespace}" if namespace else "objects without a namespace"
        added = "it" if namespace else '"*"'
        remedy = f"ask the platform team to add {added} to the registry's `namespaces`"
        return ImageInfo(problem=f"{whom} may not know what {registry} says of images; {remedy}")

    def _site(self, name: str) -> Site | None:
        try:
            host, port = split_host(name)
        except FormatError:
            return None
        for default in (HTTPS, HTTP):
            asked = Host(host, port or default)
            found = next((registry for registry in self._registries if registry.host.matches(asked)), None)
            if found is not None and (port or found.plain_http is (default == HTTP)):
                return Site(found, Host(found.endpoint or host, port or default))
        return None

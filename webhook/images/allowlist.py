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
      namespaces: ["team-*"]           # are told what it says of images, which may be private; default: all
      caFile: corp.pem                 # trusted besides the authorities of the system; relative to this file
```
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from webhook.images.hosts import HTTP, HTTPS, Host, HostPattern, split_host, split_pattern
from webhook.images.registries import PRESETS, Registry, Site, trust
from webhook.model.globs import matcher
from webhook.model.image import ImageInfo, ImageReference, parse_reference
from webhook.model.shape import FormatError, spelled
from webhook.model.wording import hint
from webhook.yaml_files.file_errors import key_text
from webhook.yaml_files.yaml_value import YamlValue, read_file

API_VERSION = "gpupolicy.dev/v1alpha1"
KIND = "Registries"

Value = TypeVar("Value")


class AllowList:
    """The registries that may be queried. An exact host name beats a domain, and a longer domain a shorter one."""

    def __init__(self, registries: Iterable[Registry]) -> None:
        self._exact: dict[tuple[str, int], Registry] = {}
        self._domains: list[Registry] = []
        for registry in registries:
            if registry.host.name.startswith("*."):
                self._domains.append(registry)
            else:
                self._exact[registry.host.name, registry.host.port] = registry
        self._domains.sort(key=lambda registry: len(registry.host.name), reverse=True)

    @classmethod
    def load(cls, path: Path | str) -> "AllowList":
        """Read the list in the file at `path`. Raises FileErrors with every mistake in it."""
        root = read_file(Path(path), "list of registries")
        registries = _document(root)
        root.faults.raise_if_any()
        return cls(registries)

    def allows(self, reference: ImageReference) -> bool:
        """Whether the registry of the image may be queried."""
        return self.site(reference.registry) is not None

    def listed_as(self, reference: ImageReference) -> str:
        """The entry for the registry of the image, as host:port; a pattern is one entry. Empty if the list has none."""
        site = self.site(reference.registry)
        return "" if site is None else f"{site.registry.host.name}:{site.registry.host.port}"

    def withheld(self, image: str, namespace: str) -> ImageInfo | None:
        """Why a namespace is not told what the registry says of an image; None if it is told."""
        try:
            registry = parse_reference(image).registry
        except FormatError:
            return None
        site = self.site(registry)
        if site is None or any(matcher(pattern).fullmatch(namespace) for pattern in site.registry.namespaces):
            return None
        whom = f"namespace {namespace}" if namespace else "objects without a namespace"
        problem = f"what {registry} says is not for {whom}; ask the platform team to list it with the registry"
        return ImageInfo(problem=problem)

    def site(self, name: str) -> Site | None:
        """The registry with this name in image references; None if it may not be queried."""
        try:
            host, port = split_host(name)
        except FormatError:
            return None
        for default in (HTTPS, HTTP):
            found = self._find(Host(host, port or default))
            if found is not None and (port or found.plain_http is (default == HTTP)):
                return Site(found, Host(found.endpoint or host, port or default))
        return None

    def _find(self, host: Host) -> Registry | None:
        exact = self._exact.get((host.name, host.port))
        return exact or next((registry for registry in self._domains if registry.host.matches(host)), None)


def _document(root: YamlValue) -> list[Registry]:
    entries = root.entries("apiVersion", "kind", "spec")
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if key in entries:
            entries[key].must_be(wanted)
    for key in ("apiVersion", "kind", "spec"):
        if key not in entries and not root.faults:
            root.fault(f"{key} is missing; a list of registries starts with apiVersion, kind and spec")
    return _spec(entries["spec"]) if "spec" in entries else []


def _spec(part: YamlValue) -> list[Registry]:
    spec = part.entries("presets", "registries")
    registries = [registry for item in _items(spec, "presets") for registry in _preset(item)]
    taken = {(registry.host.name, registry.host.port): "a preset" for registry in registries}
    for item in _items(spec, "registries"):
        registry = _registry(item)
        if registry is None:
            continue
        place = registry.host.name, registry.host.port
        if place in taken:
            item.fault(f"{registry.host.name} is also listed by {taken[place]}; keep one of the two")
        taken[place] = key_text(item.path)
        registries.append(registry)
    if not registries and not part.faults:
        part.fault(f"lists no registry; name presets ({', '.join(PRESETS)}) or registries")
    return registries


def _preset(item: YamlValue) -> tuple[Registry, ...]:
    name = item.text()
    if name and name not in PRESETS:
        item.fault(f"{spelled(name)} is not a preset; presets are {', '.join(PRESETS)}{hint(name, PRESETS)}")
    return PRESETS.get(name, ())


def _registry(item: YamlValue) -> Registry | None:
    before = len(item.faults.errors)
    entries = item.entries("host", "tokenHosts", "blobHosts", "plainHTTP", "namespaces", "caFile")
    plain_http = entries["plainHTTP"].boolean() if "plainHTTP" in entries else False
    if "host" not in entries:
        if len(item.faults.errors) == before:
            item.fault("host is missing; write the registry's name as it stands in the names of images")
        return None
    host = _pattern(entries["host"], HTTP if plain_http else HTTPS)
    registry = Registry(
        host or HostPattern(""),
        token_hosts=_each(entries, "tokenHosts", _pattern),
        blob_hosts=_each(entries, "blobHosts", _pattern),
        plain_http=plain_http,
        authorities=_authorities(entries["caFile"]) if "caFile" in entries else None,
        namespaces=_each(entries, "namespaces", YamlValue.text) if "namespaces" in entries else ("*",),
    )
    return registry if host is not None else None


def _pattern(part: YamlValue, default: int = HTTPS) -> HostPattern | None:
    text = part.text()
    try:
        name, port = split_pattern(text)
    except FormatError as error:
        if text:
            part.fault(str(error))
        return None
    return HostPattern(name, port or default)


def _authorities(part: YamlValue) -> str | None:
    """The PEM text in the named file. The path is relative to the list."""
    text = part.text()
    if not text:
        return None
    path = Path(part.node.file).parent / text
    try:
        pem = path.read_text("utf-8")
        trust(pem)
    except OSError as error:
        part.fault(f"{path} cannot be read ({error.strerror}); name a file with certificates in PEM")
        return None
    except ValueError:
        part.fault(f"{path} holds no certificate; name a file with certificates in PEM")
        return None
    return pem


def _each(entries: Mapping[str, YamlValue], key: str, read: Callable[[YamlValue], Value | None]) -> tuple[Value, ...]:
    found = [read(item) for item in _items(entries, key)]
    return tuple(value for value in found if value is not None)


def _items(entries: Mapping[str, YamlValue], key: str) -> Iterable[YamlValue]:
    return entries[key].items() if key in entries else ()

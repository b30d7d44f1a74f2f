"""Ways in which certificates of an installation were broken before, elsewhere and in thought."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import issue, new_authority, read_certificate
from certs.material import Material, data_of, material_of
from tests.e2e.kept_certificates import KINDS, KeptSite

NOW = datetime.now(UTC)
GARBAGE = base64.b64encode(b"garbage").decode()
Damage = Callable[[KeptSite], None]


def aged(site: KeptSite, *, authority_ended: bool) -> dict[str, str]:
    """What an installation would hold that nobody looked after for long."""
    long_ago = NOW - timedelta(days=400)
    authority = new_authority(long_ago, lifetime=timedelta(days=399 if authority_ended else 3650))
    serving = issue(authority, [f"{site.name}.{site.name}.svc"], long_ago)
    bundle = (read_certificate(authority.certificate_pem),)
    return data_of(Material(authority, serving, bundle))


def write_aged(site: KeptSite, *, authority_ended: bool) -> None:
    data = aged(site, authority_ended=authority_ended)
    site.write_secret(data)
    for kind in KINDS:
        site.write_bundle(kind, data["ca-bundle.crt"])


def damage_part(site: KeptSite, *names: str) -> None:
    data = (site.secret() or {}).get("data") or {}
    site.write_secret({**data, **dict.fromkeys(names or data, GARBAGE)})


DAMAGES: list[object] = [
    pytest.param(lambda site: write_aged(site, authority_ended=True), id="A20 the authority and the leaf have ended"),
    pytest.param(lambda site: write_aged(site, authority_ended=False), id="the leaf has ended"),
    pytest.param(lambda site: site.write_secret(None), id="Secret deleted"),
    pytest.param(lambda site: site.write_secret({}), id="Secret blanked"),
    pytest.param(damage_part, id="Secret garbage"),
    pytest.param(lambda site: damage_part(site, "ca.key"), id="key of the authority garbage"),
    pytest.param(lambda site: damage_part(site, "tls.crt"), id="leaf garbage"),
    pytest.param(lambda site: [site.write_bundle(kind, "") for kind in KINDS], id="caBundle blanked"),
    pytest.param(
        lambda site: site.write_bundle("validating", aged(site, authority_ended=False)["ca.crt"]),
        id="caBundle of a stranger",
    ),
]


def is_whole(site: KeptSite) -> bool:
    """The Secret is complete and unspoilt, every replica serves what it holds, and every entry of both configurations
    trusts it.
    """
    material = material_of((site.secret() or {}).get("data") or {})
    if material.faults or material.authority is None or material.serving is None or not material.bundle:
        return False
    serial = str(read_certificate(material.serving.certificate_pem).serial_number).encode()
    trusted = {str(one.serial_number).encode() for one in material.bundle}
    is_new = read_certificate(material.serving.certificate_pem).not_valid_after_utc > datetime.now(UTC)
    return is_new and set(site.served()) == {serial} and all(bundle == trusted for bundle in site.bundles())

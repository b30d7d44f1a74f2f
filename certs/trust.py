"""What a client that trusts a bundle of authorities accepts, and until when."""

from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import CertificateError, read_certificate, signed


def read_bundle(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Every certificate in a PEM text, in its order; CertificateError when there is none or one cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise CertificateError("not a PEM bundle of certificates") from error


def join_bundle(certificates: tuple[x509.Certificate, ...]) -> bytes:
    """The certificates as one PEM text, each once."""
    return b"".join(dict.fromkeys(one.public_bytes(Encoding.PEM) for one in certificates))


def trusted_until(certificate_pem: bytes, bundle_pem: bytes) -> datetime | None:
    """Until when a client that trusts the bundle accepts the certificate, in UTC; None when no authority signed it.

    That is the end of the certificate or of the last authority that signed it, whichever comes first; it may lie in
    the past. Names and beginnings are not looked at. Raises CertificateError when either text cannot be read.
    """
    certificate = read_certificate(certificate_pem)
    ends = [authority.not_valid_after_utc for authority in read_bundle(bundle_pem) if signed(certificate, authority)]
    return min(certificate.not_valid_after_utc, max(ends)) if ends else None

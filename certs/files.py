"""Certificate files for a webhook server. They are made once, renewed before they end, and otherwise left alone.

The directory has ca.crt and ca.key (the authority), and tls.crt and tls.key (the serving certificate). Every file is
replaced as a whole, a key just before its certificate. For an instant a server may see a key that does not match the
certificate; it must load them only when they match.
"""

import base64
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.authority import CertificateError, KeyPair
from certs.material import Situation, Terms, material_of, plan

RENEW_BEFORE = timedelta(days=30)
_STAGED = ".new-"
"""Prefix of the names of incomplete files."""


def ensure_files(directory: Path, names: Sequence[str], *, now: datetime | None = None) -> str:
    """Make missing files in `directory`, and replace certificates that end soon or do not cover `names`; say why.

    `now` has a time zone and defaults to the clock. The serving certificate is replaced whenever it does not fit. The
    authority is replaced only if both its files are missing or it ends soon, since every caBundle that trusts it has to
    change, too. Raises CertificateError where a file of the authority cannot be used, the directory cannot be written,
    or no certificate can have these names.
    """
    situation = Situation(now or datetime.now(UTC), is_announced=True)
    terms = Terms(tuple(names), serving_renewal=RENEW_BEFORE, authority_renewal=RENEW_BEFORE)
    files = {name: directory / name for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
    with _sole_writer(directory):
        data = {name: base64.b64encode(_content(file)).decode() for name, file in files.items() if file.exists()}
        found = material = material_of(data)
        reasons = list(found.faults)
        if found.authority is None and {"ca.crt", "ca.key"} & data.keys():
            raise CertificateError(
                f"{directory}: {'; '.join(found.faults)}; put the right file back, or move ca.crt and ca.key away to "
                "get a new authority, whose ca.crt every webhook configuration then needs as its caBundle"
            )
        if found.authority is not None and (start := found.authority.certificate.not_valid_before_utc) > situation.now:
            raise CertificateError(f"{files['ca.crt']} is valid from {start:%Y-%m-%d %H:%M} UTC on; set the clock")
        for _ in range(2):  # a new authority issues at once: nobody announces files
            trusted = (material.authority.certificate,) if material.authority is not None else ()
            made = plan(replace(material, bundle=trusted), terms, situation)
            material = made.material
            reasons += made.reasons
        for stem, before, after in (
            ("ca", found.authority, material.authority),
            ("tls", found.serving, material.serving),
        ):
            if after is not None and after != before:
                _write(directory, stem, after)
        if found.authority is not None and material.authority != found.authority:
            reasons.append("every webhook configuration needs the new ca.crt as its caBundle")
    return "; ".join(reasons) or "everything is valid"


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CertificateError(f"{file} cannot be read: {error.strerror}; check its owner") from error


def replace_pair(directory: Path, stem: str, pair: KeyPair) -> bool:
    """Write the pair to `stem`.crt and `stem`.key; returns whether they changed. Raises CertificateError."""
    with _sole_writer(directory):
        files = (directory / f"{stem}.crt", directory / f"{stem}.key")
        if all(file.is_file() for file in files) and KeyPair(*map(_content, files)) == pair:
            return False
        _write(directory, stem, pair)
        return True


def _write(directory: Path, stem: str, pair: KeyPair) -> None:
    """Replace a pair. Both files are complete on disk before the first file gets its name."""
    for left_over in directory.glob(f"{_STAGED}*"):  # of a process that was killed while it wrote
        left_over.unlink(missing_ok=True)
    key = _staged(directory, pair.key_pem, mode=0o600)
    try:
        certificate = _staged(directory, pair.certificate_pem, mode=0o644)
    except OSError:
        key.unlink()
        raise
    key.replace(directory / f"{stem}.key")
    certificate.replace(directory / f"{stem}.crt")


def _staged(directory: Path, content: bytes, *, mode: int) -> Path:
    """A new file, private until it is complete, with a name that no reader looks for."""
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=_STAGED)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
    except OSError:
        Path(name).unlink()
        raise
    return Path(name)


@contextmanager
def _sole_writer(directory: Path) -> Iterator[None]:
    """Create the directory if it is missing, and lock it for other writers. The lock ends with the process."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CertificateError(
            f"{error.filename or directory} cannot be written: {error.strerror}; choose a directory of your own"
        ) from error

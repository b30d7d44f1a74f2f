"""Certificate files for a webhook server. They are made once, renewed before they end, and otherwise left alone.

The directory has ca.crt and ca.key (the authority), and tls.crt and tls.key (the serving certificate). Every file is
replaced as a whole, a key just before its certificate. For an instant a server may see a key that does not match the
certificate; it must load them only when they match.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs.authority import (
    SERVING_LIFETIME,
    CertificateError,
    KeyPair,
    belong_together,
    covers,
    general_names,
    is_authority,
    issue,
    issued_by,
    new_authority,
    not_after,
    not_before,
)

RENEW_BEFORE = timedelta(days=30)
"""Default time before its end when a certificate is replaced."""

_STAGED = ".new-"
"""Prefix of the names of incomplete files."""

_REMEDY = (
    "put the right file back, or move ca.crt and ca.key away to get a new authority, "
    "whose ca.crt every webhook configuration then needs as its caBundle"
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of `ensure_files`."""

    changed: bool
    reason: str
    """Why files were made, or that no file had to be made; for people."""
    ca_file: Path
    cert_file: Path
    key_file: Path


def ensure_files(
    directory: Path,
    names: Sequence[str],
    *,
    now: datetime | None = None,
    lifetime: timedelta = SERVING_LIFETIME,
    renew_before: timedelta = RENEW_BEFORE,
) -> Result:
    """Make missing files in `directory`, and replace certificates that end soon or do not cover `names`.

    `now` has a time zone and defaults to the clock. The serving certificate is replaced whenever it does not fit. The
    authority is replaced only if both its files are missing or it ends within `renew_before`, since every caBundle that
    trusts it has to change, too. Raises CertificateError where a file of the authority cannot be used, the directory
    cannot be written, or no certificate can have these terms or names.
    """
    if renew_before >= lifetime:
        raise CertificateError(f"renewing {renew_before} before the end needs a longer lifetime than {lifetime}")
    now = now or datetime.now(UTC)
    general_names(names)
    with _sole_writer(directory):
        authority, authority_news = _ensure_authority(directory, now, renew_before)
        serving_news = _serving_fault(directory, authority, names, now, now + renew_before)
        if serving_news:
            _write(directory, "tls", issue(authority, names, now, lifetime))
    news = "; ".join(text for text in (authority_news, serving_news) if text)
    return Result(
        changed=bool(news),
        reason=news or "everything is valid",
        ca_file=directory / "ca.crt",
        cert_file=directory / "tls.crt",
        key_file=directory / "tls.key",
    )


def _ensure_authority(directory: Path, now: datetime, renew_before: timedelta) -> tuple[KeyPair, str]:
    """The authority, and why it was made; an empty text where it existed."""
    absent = [name for name in ("ca.crt", "ca.key") if not (directory / name).exists()]
    if len(absent) == 1:
        raise CertificateError(f"{directory / absent[0]} is missing, but the other file of the pair exists; {_REMEDY}")
    if absent:
        news = "there was no authority"
    else:
        pair = _read(directory, "ca")
        _check_authority(directory, pair, now)
        end = not_after(pair.certificate_pem)
        if end > now + renew_before:
            return pair, ""
        news = f"ca.crt ends {end:%Y-%m-%d}: every webhook configuration needs the new one as its caBundle"
    made = new_authority(now)
    _write(directory, "ca", made)
    return made, news


def _check_authority(directory: Path, pair: KeyPair, now: datetime) -> None:
    """Raise CertificateError for an authority that cannot sign. It is not replaced: clients trust it."""
    certificate_file, key_file = directory / "ca.crt", directory / "ca.key"
    with _blaming(certificate_file):
        start = not_before(pair.certificate_pem)
        if not is_authority(pair.certificate_pem):
            raise CertificateError("not the certificate of an authority")
    with _blaming(key_file):
        if not belong_together(pair):
            raise CertificateError("not the key of ca.crt")
    if start > now:
        raise CertificateError(f"{certificate_file} is valid from {start:%Y-%m-%d %H:%M} UTC on; set the clock")


def _serving_fault(
    directory: Path, authority: KeyPair, names: Sequence[str], now: datetime, needed_until: datetime
) -> str:
    """Why tls.crt and tls.key have to be made; an empty text where they can be used."""
    absent = [name for name in ("tls.crt", "tls.key") if not (directory / name).exists()]
    if absent:
        return f"there was no {' and no '.join(absent)}"
    pair = _read(directory, "tls")
    certificate = pair.certificate_pem
    try:
        faults = {
            "tls.key was not the key of tls.crt": not belong_together(pair),
            "tls.crt was not issued by ca.crt": not issued_by(certificate, authority.certificate_pem),
            "tls.crt did not cover every name": not covers(certificate, names),
            f"tls.crt ends {not_after(certificate):%Y-%m-%d}": not_after(certificate) <= needed_until,
            f"tls.crt starts {not_before(certificate):%Y-%m-%d}": not_before(certificate) > now,
        }
    except CertificateError as error:
        return f"tls.crt or tls.key was {error}"
    return next((fault for fault, present in faults.items() if present), "")


def _read(directory: Path, stem: str) -> KeyPair:
    certificate_file, key_file = directory / f"{stem}.crt", directory / f"{stem}.key"
    try:
        return KeyPair(certificate_file.read_bytes(), key_file.read_bytes())
    except OSError as error:
        raise CertificateError(f"{error.filename} cannot be read: {error.strerror}; check its owner") from error


def replace_pair(directory: Path, stem: str, pair: KeyPair) -> bool:
    """Write the pair to `stem`.crt and `stem`.key; returns whether they changed. Raises CertificateError."""
    with _sole_writer(directory):
        files = (directory / f"{stem}.crt", directory / f"{stem}.key")
        if all(file.is_file() for file in files) and _read(directory, stem) == pair:
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
def _blaming(file: Path) -> Iterator[None]:
    try:
        yield
    except CertificateError as error:
        raise CertificateError(f"{file} is {error}; {_REMEDY}") from error


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

"""Why a registry could not be asked, or gave no usable answer."""

from collections.abc import Iterator
from contextlib import contextmanager


class LookUpError(Exception):
    """A look-up failed; the text says who failed and how, and holds no secret and no address of the network.

    `is_lasting`: asking again soon is useless. `retry_after`: seconds that the registry asked to be left alone for, at
    most an hour; 0 where it did not say.
    """

    def __init__(self, text: str, *, is_lasting: bool = True, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting
        self.retry_after = retry_after


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of whoever is to blame before the text of a LookUpError, unless it stands there."""
    try:
        yield
    except LookUpError as error:
        text = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise LookUpError(text, is_lasting=error.is_lasting, retry_after=error.retry_after) from error

"""What became of tests of policies, as values."""

from dataclasses import dataclass

from webhook.audit.review_objects import Item
from webhook.policy_tests.differences import Difference
from webhook.policy_tests.format import Case
from webhook.yaml_files.file_errors import FileError


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of a case: `items` are its resources; it passed where nothing differs and nothing is wrong."""

    case: Case
    items: tuple[Item, ...] = ()
    differences: tuple[Difference, ...] = ()
    errors: tuple[FileError, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything is as expected."""
        return not self.differences and not self.errors


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of the test in one file. `errors` are why none of its cases was run."""

    file: str
    name: str
    cases: tuple[CaseResult, ...] = ()
    errors: tuple[FileError, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was run, and everything that could not be, in the order of the files."""

    files: tuple[FileResult, ...]

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """Every case that was run, or was about to be."""
        return tuple(case for file in self.files for case in file.cases)

    @property
    def passed(self) -> int:
        """How many cases passed."""
        return sum(case.passed for case in self.cases)

    @property
    def failed(self) -> int:
        """How many cases were run, and something was not as expected."""
        return sum(bool(case.differences) and not case.errors for case in self.cases)

    @property
    def unusable(self) -> int:
        """How many cases could not be run, or not to their end."""
        return sum(bool(case.errors) for case in self.cases)

    @property
    def unusable_files(self) -> int:
        """How many files could not be run at all."""
        return sum(bool(file.errors) for file in self.files)

    @property
    def exit_status(self) -> int:
        """0 all passed, 1 a case failed, 2 unusable input, which beats 1."""
        return 2 if self.unusable or self.unusable_files else int(self.failed > 0)

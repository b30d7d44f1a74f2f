"""Which CUDA each driver branch reports: the newest that its drivers run.

Sources: CTK, the release notes of CUDA Toolkit 13.2 and 13.3 (which branch each toolkit ships with); DCD, the pages
"Supported Drivers and CUDA Toolkit Versions" of the data-centre driver documentation for 450, 580 and 615; field, what
nvidia-smi prints on such nodes. Rows without a source are unverified.
"""

from dataclasses import dataclass

from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch and the newest CUDA that its drivers report (nvidia.com/cuda.runtime-version.*).

    `support` is how NVIDIA calls the branch, `end` the month of its last release: empty where unknown, `ended` where
    only that is known.
    """

    number: int
    cuda: Version
    support: str
    end: str
    source: str


def _row(number: int, cuda: str, support: str, end: str, source: str = "") -> Branch:
    return Branch(number, parse_version(cuda), support, end, source)


BRANCHES: tuple[Branch, ...] = (
    _row(384, "9.0", "long-term", "ended"),
    _row(390, "9.1", "legacy", "ended"),
    _row(396, "9.2", "new feature", "ended"),
    _row(410, "10.0", "new feature", "ended", "CTK, DCD"),
    _row(418, "10.1", "long-term", "2022-03", "DCD"),
    _row(430, "10.1", "production", "ended"),
    _row(440, "10.2", "new feature", "2020-11", "DCD"),
    _row(450, "11.0", "long-term", "2023-07", "DCD"),
    _row(455, "11.1", "evaluation", "", "DCD"),
    _row(460, "11.2", "production", "2022-01", "DCD"),
    _row(465, "11.3", "new feature", "ended", "CTK, DCD"),
    _row(470, "11.4", "long-term", "2024-09", "CTK; sources disagree on the end by two months"),
    _row(495, "11.5", "new feature", "ended", "CTK, DCD"),
    _row(510, "11.6", "production", "ended", "CTK, DCD"),
    _row(515, "11.7", "production", "ended", "CTK, DCD"),
    _row(520, "11.8", "new feature", "ended", "CTK"),
    _row(525, "12.0", "production", "2023-11", "CTK"),
    _row(530, "12.1", "new feature", "ended", "CTK"),
    _row(535, "12.2", "long-term", "2026-06", "CTK, DCD"),
    _row(545, "12.3", "new feature", "2023-10", "CTK"),
    _row(550, "12.4", "production", "2025-02", "CTK; sources disagree on the end by four months"),
    _row(555, "12.5", "new feature", "ended", "CTK"),
    _row(560, "12.6", "new feature", "ended", "CTK, DCD"),
    _row(565, "12.7", "new feature", "ended", "DCD for its end; its CUDA is unverified"),
    _row(570, "12.8", "production", "2026-02", "CTK, DCD, field"),
    _row(575, "12.9", "new feature", "ended", "CTK, DCD"),
    _row(580, "13.0", "long-term", "2028-06", "CTK; two pages of DCD disagree on the end by two months"),
    _row(590, "13.1", "new feature", "ended", "CTK"),
    _row(595, "13.2", "production", "2027-03", "DCD, field"),
    _row(610, "13.3", "new feature", "2026-08", "CTK, DCD"),
    _row(615, "13.4", "", "", "DCD, field"),
)
"""Every known branch, in order."""

NEWEST_BRANCH = BRANCHES[-1].number
"""The newest known branch."""

_BY_NUMBER = {branch.number: branch for branch in BRANCHES}


def reported_by(driver: Version) -> Version | None:
    """The newest CUDA that a driver reports; None for a branch that the table lacks.

    >>> str(reported_by(parse_version("550.54.15")))
    '12.4'
    """
    branch = _BY_NUMBER.get(driver.major)
    return None if branch is None else branch.cuda


def branches_reporting(cuda: Version) -> tuple[int, ...]:
    """The branches whose drivers report this CUDA: one past the newest for a newer CUDA, none where the table lacks it.

    >>> branches_reporting(parse_version("10.1"))
    (418, 430)
    """
    if not BRANCHES[-1].cuda.at_least(cuda):
        return (NEWEST_BRANCH + 1,)
    return tuple(branch.number for branch in BRANCHES if branch.cuda.parts == cuda.parts[:2])

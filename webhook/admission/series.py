"""Series of metrics that are bounded in number, or read at a scrape only."""

import logging
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

OTHER = "_other"
"""The label of all names without series of their own; no namespace and no quota can have this name."""

_LOG = logging.getLogger("gpu_policy.metrics")

Labels = tuple[str, ...]
Values = float | Mapping[Labels, float] | Mapping[str, float] | None
"""One value, or values by label values or by the value of the only label; None while nothing is known."""


class FirstNames:
    """The first `most` names have series of their own, all others share OTHER's.

    Anybody who reaches the port can write any namespace into a review, so only namespaces that exist are labels.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()
        self.is_known: Callable[[str], bool] = bool
        """Whether a name exists; fast, and never raises."""

    def label(self, name: str) -> str:
        if name not in self._named:
            if len(self._named) >= self._most or not self.is_known(name):
                return OTHER
            self._named.add(name)
        return name


class ScrapedGauge(Collector):
    """A gauge whose values are read at each scrape; unknown values have no series.

    A fault in `read` removes only these series from the page. It is logged once until reading works again.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Labels,
        read: Callable[[], Values],
        *,
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._read = read
        self._fails = False
        registry.register(self)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        try:
            found = self._read()
            values = found if isinstance(found, Mapping) else {} if found is None else {(): found}
            for labels, value in values.items():
                family.add_metric((labels,) if isinstance(labels, str) else labels, float(value))
            self._fails = False
        except Exception:  # noqa: BLE001  # logged; one metric less is better than no page
            family.samples.clear()
            if not self._fails:
                _LOG.exception("the metric %s cannot be read and is not shown", self._name)
            self._fails = True
        yield family

"""Series of metrics for a busy webhook: found without a lock, bounded in number, or read at a scrape only."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

OTHER = "_other"
"""The label of all namespaces without series of their own; no namespace can have this name."""

_LOG = logging.getLogger("gpu_policy.metrics")

Labels = tuple[str, ...]
Values = float | Mapping[Labels, float] | Mapping[str, float] | None
"""One value, or values by label values or by the value of the only label; None while nothing is known."""


class Series(dict[Labels, Any]):
    """The series of a metric by label values. Finding a series costs a look-up instead of a lock."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: Labels) -> Any:
        series = self[labels] = self._metric.labels(*labels)
        return series


class NamespaceSeries(Series):
    """Series whose first label is a namespace: the first `most` namespaces have series of their own, others share
    OTHER's.

    Anybody who reaches the port can write any namespace into a review, so only namespaces that exist are labels.
    """

    def __init__(self, metric: Any, most: int) -> None:
        super().__init__(metric)
        self._most = most
        self._named: set[str] = set()
        self.is_known: Callable[[str], bool] = bool
        """Whether a namespace exists; fast, and never raises."""

    def __missing__(self, labels: Labels) -> Any:
        namespace, *others = labels
        if namespace not in self._named:
            if len(self._named) >= self._most or not self.is_known(namespace):
                return self._metric.labels(OTHER, *others)
            self._named.add(namespace)
        return super().__missing__(labels)


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

"""Series of metrics for a busy webhook: found without a lock, bounded in number, or read at a scrape only."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

OTHER = "_other"
"""The label of all namespaces without series of their own; no namespace can have this name."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LOG = logging.getLogger("gpu_policy.metrics")

Labels = tuple[str, ...]


class Series(dict[Labels, Any]):
    """The series of a metric by label values. Finding a series costs a look-up instead of a lock."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: Labels) -> Any:
        series = self[labels] = self._metric.labels(*labels)
        return series


class NamespaceSeries(Series):
    """Series whose first label is a namespace: `most` namespaces have series of their own, others share OTHER's.

    Anybody who reaches the port can write any namespace into a review. So texts that are no namespace names have no
    series, and a namespace that is known to exist takes the place of one that is not.
    """

    def __init__(self, metric: Any, most: int) -> None:
        super().__init__(metric)
        self._most = most
        self._named: set[str] = set()
        self._unknown: dict[str, None] = {}
        """The named namespaces that were not known to exist, in the order in which they came."""
        self._naming = Lock()
        self.is_known: Callable[[str], bool] = lambda _namespace: False
        """Whether a namespace certainly exists; fast, and never raises."""

    def __missing__(self, labels: Labels) -> Any:
        namespace, *others = labels
        with self._naming:
            if namespace in self._named or self._names(namespace):
                return super().__missing__(labels)
        return self._metric.labels(OTHER, *others)

    def _names(self, namespace: str) -> bool:
        """Give a namespace series of its own, where its name is valid and there is room; return whether it has them."""
        if not _NAMESPACE.fullmatch(namespace):
            return False
        is_known = self.is_known(namespace)
        if len(self._named) >= self._most and not (is_known and self._makes_room()):
            return False
        self._named.add(namespace)
        if not is_known:
            self._unknown[namespace] = None
        return True

    def _makes_room(self) -> bool:
        """Remove the series of the first namespace that is still not known to exist; return whether there was one."""
        while self._unknown:
            first = next(iter(self._unknown))
            del self._unknown[first]
            if not self.is_known(first):
                self._named.discard(first)
                for labels in [labels for labels in self if labels[0] == first]:
                    del self[labels]
                    self._metric.remove(*labels)
                return True
        return False


class ScrapedGauge(Collector):
    """A gauge whose values are read at each scrape, by label values; unknown values have no series.

    A fault in `read` removes only these series from the page. It is logged once until reading works again.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: Labels,
        read: Callable[[], Mapping[Labels, float]],
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
        """The metric without values, for its registration."""
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metric with its values."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        try:
            for labels, value in self._read().items():
                family.add_metric(labels, float(value))
            self._fails = False
        except Exception:  # noqa: BLE001  # logged; one metric less is better than no page
            family.samples.clear()
            if not self._fails:
                _LOG.exception("the metric %s cannot be read and is not shown", self._name)
            self._fails = True
        yield family

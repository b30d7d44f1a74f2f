"""Series as a busy webhook needs them: found again without a lock, bounded in number, or read only when scraped."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

OTHER = "_other"
"""Stands for every namespace without series of its own; no namespace can have this name."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LOG = logging.getLogger("gpu_policy.metrics")

Labels = tuple[str, ...]


class Series(dict[Labels, Any]):
    """The series of a metric by its label values; finding one again costs a look-up instead of a lock."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: Labels) -> Any:
        series = self[labels] = self._metric.labels(*labels)
        return series


class NamespaceSeries(Series):
    """The same where the first label is a namespace: the first `most` have series of their own, others share OTHER's.

    What is no name of a namespace has none: whoever reaches the port can write anything into a review.
    """

    def __init__(self, metric: Any, most: int) -> None:
        super().__init__(metric)
        self._most = most
        self._named: set[str] = set()
        self._naming = Lock()

    def __missing__(self, labels: Labels) -> Any:
        namespace, *others = labels
        if self._has_its_own(namespace):
            return super().__missing__(labels)
        return self._metric.labels(OTHER, *others)

    def _has_its_own(self, namespace: str) -> bool:
        with self._naming:
            if namespace not in self._named and len(self._named) < self._most and _NAMESPACE.fullmatch(namespace):
                self._named.add(namespace)
            return namespace in self._named


class Watched(Collector):
    """A gauge whose values are read at each scrape, by their label values; what nobody knows yet has no series.

    A fault in `read` takes these series from the page and nothing else; it is logged once until reading works again.
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
        """Name the metric, which registering it does not need to read."""
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the values."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        try:
            for labels, value in self._read().items():
                family.add_metric(labels, float(value))
            self._fails = False
        except Exception:  # noqa: BLE001  # logged; one metric less is better than no page
            family.samples.clear()
            if not self._fails:
                _LOG.exception("%s: cannot be read and is not shown", self._name)
            self._fails = True
        yield family

"""The node affinity by which a pod prefers GPU models, by labels that nodes have."""

from collections.abc import Iterator, Sequence

from webhook.gpus.gpu_catalogue import Catalogue, Models
from webhook.gpus.gpu_names import GKE_ACCELERATOR, NVIDIA_PRODUCT
from webhook.model.edits import PreferNodes
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.selectors import Expression, Operator

_HIGHEST = 100
"""The largest weight that Kubernetes accepts."""
_FIRST = (NVIDIA_PRODUCT, GKE_ACCELERATOR)
"""Labels that are taken before others."""


def preferences(
    pod: Pod, names: Sequence[str], classes: Sequence[NodeClass], catalogue: Catalogue
) -> Iterator[PreferNodes]:
    """Preferences for these models, the first name with the highest weight, by the labels of these classes of nodes.

    None for a pod that says itself which models it wants or prefers, and for a model that no label of a node says.
    """
    prefers = any(one.key in catalogue.keys for term in pod.preferred for one in term.expressions)
    if prefers or catalogue.models_of(pod) is not None:
        return
    for place, name in enumerate(names):
        weight = max(_HIGHEST * (len(names) - place) // len(names), 1)
        for expression in _of_models(catalogue.leaves(name), classes, catalogue):
            yield PreferNodes(expression, weight)


def _of_models(models: Models, classes: Sequence[NodeClass], catalogue: Catalogue) -> Iterator[Expression]:
    """Expressions that together match every class of nodes with these models, by as few labels as possible."""
    wanted = [nodes.labels for nodes in classes if (own := catalogue.models_at(nodes.labels)) and own <= models]
    while wanted:
        said: dict[str, set[str]] = {}
        for labels in wanted:
            for key in labels.keys() & catalogue.keys:
                own = catalogue.models_at({key: labels[key]})
                if own and own <= models:
                    said.setdefault(key, set()).add(labels[key])
        if not said:
            return
        best = min(said, key=lambda key: (-sum(key in labels for labels in wanted), key not in _FIRST, key))
        yield Expression(best, Operator.IN, tuple(sorted(said[best])))
        wanted = [labels for labels in wanted if labels.get(best) not in said[best]]

"""Pods of which one list or map is long."""

import random
from typing import Any

from tests.lab.fuzz.pods import container, expression, init_container

Raw = dict[str, Any]
Draw = random.Random


def grown(draw: Draw, found: Raw) -> Raw:
    """The pod with one of its lists or maps made long, up to about 100 kB."""
    spec = found["spec"]
    many = draw.choice((100, 300, 1000))
    match draw.randrange(8):
        case 0:
            spec["containers"] += [container(draw, f"m{number}") for number in range(many // 10)]
        case 1:
            one = draw.choice(spec["containers"])
            one.setdefault("env", []).extend({"name": f"E{number}", "value": "x"} for number in range(many))
        case 2:
            spec.setdefault("tolerations", []).extend(
                {"key": f"t{number}", "operator": "Exists"} for number in range(many)
            )
        case 3:
            terms = [{"matchExpressions": [expression(draw)]} for _ in range(many // 4)]
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            }
        case 4:
            values = [f"v{number}" for number in range(many)]
            terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [*values, "a"]}]}]
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            }
        case 5:
            spec.setdefault("volumes", []).extend({"name": f"w{number}", "emptyDir": {}} for number in range(many))
        case 6:
            found["metadata"].setdefault("labels", {}).update({f"l{number}": "x" for number in range(many)})
        case 7:
            spec["initContainers"] = [init_container(draw, f"n{number}") for number in range(many // 20)]
    return found

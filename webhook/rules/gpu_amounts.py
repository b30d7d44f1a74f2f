"""Whether a container writes its GPUs as Kubernetes accepts them: whole numbers, in limits."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.model.container import Container, GpuRequest
from webhook.model.shape import spelled
from webhook.model.workloads.placeholders import FILL_IN, is_placeholder


class WrongAmount(NamedTuple):
    """What is wrong with an amount of GPUs: what was found, what is allowed, and the remedy.

    `fails_validation`: the API server refuses it on its own.
    """

    found: str
    allowed: str
    remedy: str
    fails_validation: bool = True


def wrong_amounts(container: Container, *, are_repaired: bool) -> Iterator[WrongAmount]:
    """Amounts of GPUs that Kubernetes refuses. `are_repaired`: GPUs in requests only are added to limits.

    Whatever is wrong with a number itself, such as a fraction, comes first.
    """
    for request in container.gpu_requests:
        flaw = flaw_of(request)
        if flaw is not None:
            found, allowed, remedy = flaw
            yield WrongAmount(found, allowed, remedy, not request.accelerator.is_of_a_class)
        elif request.accelerator.is_of_a_class:
            continue  # Kubernetes treats it as a resource of its own, which may stand in requests only
        elif request.limit is None and request.request == 0:
            yield WrongAmount(
                f"{request.resource} is {written(request, 0)} in requests but missing in limits",
                "Kubernetes refuses that, even for 0",
                f"Remove {request.resource} from requests",
            )
        elif is_requests_only(request):
            if not are_repaired:
                amount = written(request, 0)
                yield WrongAmount(
                    f"{request.resource} is {amount} in requests but missing in limits",
                    "GPUs are allocated from limits",
                    f"Move the {amount} to resources.limits",
                )
        elif request.request is not None and request.request != request.limit:
            yield WrongAmount(
                f"{request.resource} is {written(request, 0)} in requests and {written(request, 1)} in limits",
                "GPUs cannot be overcommitted, so both must be equal",
                "Write the same number in both, or in resources.limits only",
            )


def written(request: GpuRequest, part: int) -> str:
    """The amount in requests (part 0) or limits (part 1) as the author wrote it, without quotes."""
    amount = request.written[part]
    return amount.strip() if isinstance(amount, str) else spelled(amount)


def is_requests_only(request: GpuRequest) -> bool:
    """Whether GPUs stand in requests and are missing in limits."""
    is_missing = request.limit is None and bool(request.request)
    return is_missing and not request.fault and not request.accelerator.is_of_a_class


def flaw_of(request: GpuRequest) -> tuple[str, str, str] | None:
    """What is wrong with the number itself: found, allowed, remedy; None if nothing is."""
    name = request.resource
    if request.fault:
        if any(map(is_placeholder, request.written)):
            return f"{name} {request.fault}", *FILL_IN
        return f"{name} {request.fault}", "GPUs are counted in whole numbers", "Write a whole number such as 1"
    for index, (part, amount) in enumerate((("requests", request.request), ("limits", request.limit))):
        if amount is None or (amount >= 0 and isinstance(amount, int)):
            continue
        number = written(request, index)
        if amount < 0:
            return (
                f"{name} is {number} in {part}, a negative number",
                "GPUs are counted in whole numbers from 0",
                "Write a whole number such as 1",
            )
        return (
            f"{name} is {number} in {part}, a fraction of a GPU",
            "GPUs are allocated whole",
            f"Write a whole number such as 1, or request a shared GPU or a MIG slice instead of {name}",
        )
    return None

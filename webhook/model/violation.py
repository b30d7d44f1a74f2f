"""What is said of a pod or another object: violations, which may refuse it, and advice, which never does."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that a pod must not do, in four parts for people.

    >>> str(Violation("spec.containers[a].resources", "nvidia.com/gpu is 9", "at most 8 are allowed", "Request 8"))
    'spec.containers[a].resources: nvidia.com/gpu is 9; at most 8 are allowed. Request 8.'

    `fails_validation` says that the API server refuses such a pod on its own, before any validating webhook sees it.
    `fault` names what advice of another rule may be about as well: that advice is left out then. `follows_nodes` says
    that it follows from the nodes that the pod may use. `is_kept_off` says that the rule, if it is enforced, keeps pods
    off such nodes, so that only a pod which it could not keep off is refused; in other modes this is advice.
    `softens_on_update` is as in a Rule, for this violation alone.
    """

    where: str
    found: str
    allowed: str
    remedy: str
    fails_validation: bool = False
    fault: str = ""
    follows_nodes: bool = False
    is_kept_off: bool = False
    softens_on_update: bool = False

    @property
    def message(self) -> str:
        """What was found, and what is allowed instead, where that says more."""
        return f"{self.found}; {self.allowed}" if self.allowed else self.found

    @property
    def as_advice(self) -> "Advice":
        return Advice(self.where, self.message, self.remedy, self.fault, self.follows_nodes)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}. {self.remedy}."


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that people should know, and that never refuses a pod: what was found, and what to do about it.

    `fault` and `follows_nodes` are as in a Violation.
    """

    where: str
    found: str
    remedy: str
    fault: str = ""
    follows_nodes: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.found}. {self.remedy}."

"""Situations in which a GPU workload does not run, or does: each is staged, and has one reason."""

from tests.e2e import why_on_nodes, why_placement, why_queues, why_refusals

SITUATIONS = (
    *why_refusals.SITUATIONS,
    *why_queues.SITUATIONS,
    *why_placement.SITUATIONS,
    *why_on_nodes.SITUATIONS,
)

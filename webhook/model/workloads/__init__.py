"""Workloads: the places of pod templates in objects of other kinds."""

from webhook.model.pod_reader import controller_of, is_made_or_ending
from webhook.model.workloads.kubeflow import RUNTIMES, TRAINER, with_runtime
from webhook.model.workloads.search import unread_gpus
from webhook.model.workloads.table import WORKLOADS, Workload, is_pod, number_of_templates, templates_of, workload_of
from webhook.model.workloads.template import Template

__all__ = [
    "RUNTIMES",
    "TRAINER",
    "WORKLOADS",
    "Template",
    "Workload",
    "controller_of",
    "is_made_or_ending",
    "is_pod",
    "number_of_templates",
    "templates_of",
    "unread_gpus",
    "with_runtime",
    "workload_of",
]

"""The command `gpu-policy quota`: prints the usage of GPU quotas."""

from functools import partial

import click

from webhook.commands.inputs import echo, fail, inventory_of, load_policies, server_of
from webhook.commands.options import InventoryFile, OneCluster, Policies, Printed, argument, takes


class QuotaOptions(OneCluster, InventoryFile, Policies, Printed):
    namespace: str | None = argument(required=False)


@click.command()
@takes(QuotaOptions)
def quota(asked: QuotaOptions) -> None:
    """Print the usage of GPU quotas, in NAMESPACE or in all namespaces.

    With --inventory, the pods of that file are counted against the quotas of --policies, and no cluster is read.

    Exit status: 0, even if there is no quota; 2 if the input cannot be used or the cluster does not answer.
    """
    from webhook.audit import quota_report
    from webhook.doctor.installation import DoctorCluster, UnavailableError
    from webhook.doctor.shared_objects import quota_objects

    if asked.inventory is not None:
        if asked.kubeconfig is not None:
            fail("--inventory and --kubeconfig exclude each other; name one source of pods")
        policy_set = load_policies(asked.policies)
        pods = inventory_of(asked.inventory, policy_set.accelerators).pods.seen()
        found = quota_report.quotas_with_pods(policy_set, pods, asked.namespace)
    else:
        cluster = DoctorCluster(server_of(asked.kubeconfig, asked.context))
        try:
            found = quota_report.quotas_of_objects(quota_objects(cluster, asked.namespace))
        except UnavailableError as error:
            fail(f"{error}; {error.remedy}" if error.remedy else str(error))
    if not found and asked.output == "text":
        echo(_nothing(asked.namespace, is_counted=asked.inventory is not None))
        return
    render = partial(quota_report.render, found, names_namespaces=asked.namespace is None)
    asked.show([one.to_json() for one in found], render)


def _nothing(namespace: str | None, *, is_counted: bool) -> str:
    where = "any namespace" if namespace is None else f"namespace {namespace}"
    if is_counted:
        return f"No quota of GPUs limits {where}. The rule gpuQuota of a policy sets one, or _quotas.yaml does."
    if namespace is None:
        return f"No quota of GPUs is shown in {where}. Run gpu-policy doctor to see whether something is wrong."
    return (
        f"No quota of GPUs is shown in {where}. Check the name. A quota that a glob or _default.yaml sets is shown "
        "only while the namespace has GPU pods."
    )

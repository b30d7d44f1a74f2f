"""The policies of an installation, or the note why they are not known."""

from webhook.doctor.cluster import DoctorCluster, UnavailableError
from webhook.doctor.installation import Installation, Place
from webhook.kubernetes.api_server import ApiServer
from webhook.policy.policy_set import PolicySet
from webhook.why.explanation import MissingAnswer
from webhook.yaml_files.file_errors import FileErrors

_UNKNOWN = "which rules the policies of gpu-policy have for the namespace"


def of_installation(server: ApiServer, namespace: str, name: str) -> PolicySet | MissingAnswer:
    """The policies that the installation of this name mounts, or the note why they are not known."""
    installation = Installation(DoctorCluster(server), Place(namespace, name))
    try:
        return installation.policies
    except UnavailableError as error:
        said = str(error)
        verb, resource = "get", "configmaps" if "configmaps" in said else "deployments.apps"
        return MissingAnswer(verb, resource, namespace, _UNKNOWN, "" if "answered 403" in said else said)
    except FileErrors as errors:
        return MissingAnswer("get", "configmaps", namespace, _UNKNOWN, f"they have mistakes: {str(errors)[:500]}")
    except (KeyError, TypeError, AttributeError):
        fault = f"Deployment {namespace}/{name} is none of gpu-policy"
        return MissingAnswer("get", "deployments.apps", namespace, _UNKNOWN, fault)

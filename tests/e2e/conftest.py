"""The webhook as a process beside the session's API server."""

from tests.doctor.fixtures import site, standing
from tests.e2e.fixtures import installation, make_namespace, registration, webhook
from tests.e2e.quota_fixtures import quotas

__all__ = ["installation", "make_namespace", "quotas", "registration", "site", "standing", "webhook"]

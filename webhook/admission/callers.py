"""Who gets reviews answered: the one place where callers are authenticated.

Today a caller shows a client certificate, where the replica was started with an authority for them; what is wrong with
it is known from the handshake on, so no body of such a caller is read either. Kubernetes 1.37
begins to issue tokens to API servers with which they will authenticate to webhooks (KEP-6060, alpha): a bearer token in
the header Authorization, signed by the cluster, for the audience of one webhook configuration and for API groups of
reviews. No API server presents one yet. A header that comes is neither looked at nor kept, and it never reaches a log.
"""

from collections.abc import Mapping
from typing import Any


def objection(environ: Mapping[str, Any]) -> str:
    """Why this caller gets no review answered; empty where it does.

    `environ` is that of the request (`webhook.server.responder`), before any of its body is read.
    """
    text: str = environ.get("webhook.objection", "")
    return text

"""The floor: a Flask application that parses the review and answers a constant, on the product's gunicorn set-up."""

import base64
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import orjson
from flask import Flask, Response, request

from webhook.server.process import ServerSettings, serve

ANNOTATIONS = {f"minimal-{number}": "v" * 60 for number in range(10)}
"""What its patch adds to every pod that has annotations."""
PATCH = base64.b64encode(
    orjson.dumps([{"op": "add", "path": f"/metadata/annotations/{k}", "value": v} for k, v in ANNOTATIONS.items()])
)


class Minimal:
    """Answers every review alike."""

    def __init__(self) -> None:
        app = Flask("minimal")

        @app.post("/mutate")
        @app.post("/validate")
        def answer() -> Response:
            review = orjson.loads(request.get_data())
            response = {"uid": review["request"]["uid"], "allowed": True}
            if request.path == "/mutate":
                response |= {"patchType": "JSONPatch", "patch": PATCH.decode()}
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            return Response(orjson.dumps(body), content_type="application/json")

        self._app = app.wsgi_app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._app(environ, start_response)

    def refused(self, status: int) -> None:
        """Nothing to count."""

    def drain(self) -> None:
        """Nothing to turn."""

    def close(self) -> None:
        """Nothing to end."""


@click.command()
@click.option("--cert", type=Path)
@click.option("--key", type=Path)
@click.option("--port", type=int)
def main(cert: Path, key: Path, port: int) -> None:
    """Serve until SIGTERM."""
    serve(ServerSettings(host="127.0.0.1", port=port, cert_file=cert, key_file=key), Minimal)


if __name__ == "__main__":
    main()

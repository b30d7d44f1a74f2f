"""A process that serves a small application with the real server; started by the tests of the server.

Usage: python served.py '{"port": 8443, "cert_file": ..., ...}'; the keys are those of ServerSettings.
"""

import contextlib
import json
import logging
import math
import sys
import threading
import time
from pathlib import Path

from webhook.admission.watchdog import DecisionDeadline, TookTooLongError
from webhook.server.process import ServerSettings, serve


class Echo:
    """Answers with the body it got, or does what its path says."""

    def __init__(self):
        self.readiness = b"ready"
        self.working = 0
        self.most = 0
        self.lock = threading.Lock()

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path == "/unavailable":
            return answer(start_response, "503 Service Unavailable", b"not now")
        return answer(start_response, "200 OK", getattr(self, path.strip("/"), self.echo)(environ))

    def echo(self, environ):
        return environ["wsgi.input"].read()

    def readyz(self, _environ):
        return self.readiness

    def bug(self, _environ):
        raise RuntimeError("a bug")

    def large(self, _environ):
        return b"x" * 12_000_000

    def waited(self, environ):
        return str(environ["webhook.waited"]()).encode()

    def objection(self, environ):
        return environ["webhook.objection"].encode()

    def long(self, environ):
        environ["webhook.may_block"]()
        time.sleep(2)
        return b"done"

    def endless(self, _environ):
        """A decision that computes for ever, and is ended as those of reviews are."""
        with contextlib.suppress(TookTooLongError):
            DecisionDeadline(0.5, math.inf).within(_compute)
        return b"ended"

    def sleep(self, environ):
        """Sleep, and answer with the largest number of requests that slept at the same time."""
        environ["webhook.may_block"]()
        with self.lock:
            self.working += 1
            self.most = max(self.most, self.working)
        time.sleep(0.5)
        with self.lock:
            self.working -= 1
        return str(self.most).encode()

    def refused(self, status):
        logging.getLogger("served").info("the server itself answered %d", status)

    def drain(self):
        self.readiness = b"draining"

    def close(self):
        logging.getLogger("served").info("the application is closed")


def answer(start_response, status, body):
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def _compute():
    while True:
        pass


def broken():
    raise RuntimeError("no policies here")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    arguments = json.loads(sys.argv[1])
    factory = broken if arguments.pop("broken", False) else Echo
    files = {name: Path(value) for name, value in arguments.items() if name.endswith("_file")}
    arguments["client_names"] = tuple(arguments.get("client_names", ()))
    settings = ServerSettings(**{"host": "127.0.0.1", **arguments, **files})
    serve(settings, factory)

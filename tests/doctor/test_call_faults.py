"""What API servers say when they cannot call a webhook is recognised, and each has a remedy with the right names."""

import pytest

from webhook.doctor.doctor_report import Status
from webhook.doctor.dry_runs import CALL_FAULTS, explained

NAMES = {"namespace": "gpu-system", "name": "gpu", "port": 10250}
POST = 'Post "https://gpu.gpu-system.svc:443/mutate?timeout=5s": '

LOST = "packets from the control plane to the pods get lost: a firewall or a NetworkPolicy"
NOT_VALID = "certificate has expired or is not yet valid: current time 2026-01-02T00:00:00Z is after 2026-01-01"
FAULTS = {
    "no replica is ready": ['no endpoints available for service "gpu"'],
    "the Service is missing": ['service "gpu" not found'],
    "the serving certificate is not valid now": [
        f"{POST}x509: {NOT_VALID}",
        f"{POST}tls: failed to verify certificate: x509: {NOT_VALID}",
    ],
    "the serving certificate is for another name": [
        f"{POST}x509: certificate is valid for other.example.com, not gpu.gpu-system.svc",
        f"{POST}tls: failed to verify certificate: x509: certificate is not valid for any names, but wanted to match",
        f"{POST}x509: certificate relies on legacy Common Name field, use SANs instead",
    ],
    "the caBundle does not trust the serving certificate": [
        f"{POST}x509: certificate signed by unknown authority",
        f"{POST}tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of)",
        "unable to load root certificates: unable to parse bytes as PEM block",
    ],
    "the replicas refuse the API server: they require a client certificate, and it shows none": [
        "client certificate: found none, expected one of the authority in --client-ca",
        f"{POST}remote error: tls: bad certificate",
    ],
    "something other than the webhook answers at this port": [
        f"{POST}http: server gave HTTP response to HTTPS client",
        f"{POST}tls: first record does not look like a TLS handshake",
    ],
    "nothing listens at the address that the API server calls": [
        f"{POST}dial tcp 10.0.0.7:443: connect: connection refused"
    ],
    "the webhook was reached and did not answer in time, or something on the way swallows the answer": [
        f"{POST}context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    ],
    LOST: [
        f"{POST}context deadline exceeded",
        f"{POST}dial tcp 10.0.0.7:443: i/o timeout",
        f"{POST}net/http: TLS handshake timeout",
        f"{POST}No agent available",
    ],
    "the name in the configuration cannot be resolved": [
        f"{POST}dial tcp: lookup gpu.example.com on 10.0.0.10:53: no such host"
    ],
    "the connection breaks off: the replica went away, or a proxy stands between": [
        f"{POST}EOF",
        f"{POST}read tcp 10.0.0.1:5->10.0.0.7:443: read: connection reset by peer",
    ],
    "the replicas answer, but with no decision": [
        "facts: not loaded yet",
        "overloaded: the request waited for 2.6 s of the 5 s that its sender waits",
        "the server is currently unable to handle the request",
    ],
}
SAMPLES = {sample: means for means, samples in FAULTS.items() for sample in samples}


@pytest.mark.parametrize(("said", "means"), [pytest.param(*sample, id=sample[0][-40:]) for sample in SAMPLES.items()])
def test_what_the_api_server_says_is_explained(said: str, means: str) -> None:
    text = f'Internal error occurred: failed calling webhook "mutate.gpupolicy.dev": failed to call webhook: {said}'
    finding = explained(text, NAMES)
    assert (Status.PROBLEM, f"{means}: {text}") == (finding.status, finding.found)
    assert "{" not in finding.remedy.replace("{.", "")


def test_every_explanation_is_reached_by_a_sample() -> None:
    assert {fault.means for fault in CALL_FAULTS} == set(SAMPLES.values())


def test_an_unknown_fault_is_shown_as_it_is() -> None:
    finding = explained("something new", NAMES)
    assert finding.found == "the API server cannot call the webhook: something new"
    assert "kubectl -n gpu-system logs deployment/gpu" in finding.remedy


def test_the_remedy_for_lost_packets_names_the_ports_of_this_installation() -> None:
    remedy = explained("dial tcp 10.0.0.7:443: i/o timeout", NAMES).remedy
    assert "gcloud compute firewall-rules create gpu-policy --allow=tcp:10250 " in remedy
    assert "kubectl -n gpu-system describe networkpolicy" in remedy

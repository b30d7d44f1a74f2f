"""Benchmarks end with an error where what they would measure is not what they mean to measure."""

import re
import subprocess
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.lab.benchmarks import answers, apiserver_cases, cluster, direct, runs, through_apiserver, wrk

ROOT = Path(__file__).resolve().parents[1]
MODULES = {file.stem: file.read_text() for file in (ROOT / "tests" / "lab" / "benchmarks").glob("*.py")}
BENCHMARKS = sorted(name for name, text in MODULES.items() if "__main__" in text and name != "minimal")
REFUSING = cluster.default_policy(gpuLimits={"maxPerPod": 1})
PATCHED = '{operation="CREATE",phase="mutate",result="patched"}'
REFUSED = '{operation="CREATE",phase="mutate",result="refused"}'
POD = {
    "metadata": {"name": "p-1", "uid": "1", "annotations": {}},
    "spec": {"tolerations": [], "volumes": [], "containers": [{"volumeMounts": [], "env": []}]},
}

needs_wrk = pytest.mark.skipif(wrk.missing() is not None, reason=wrk.missing() or "")


def load(count=100, size=100):
    return wrk.Load(answers=count, bytes=count * size, seconds=1.0, p50=1.0, p99=1.0, cpu=0.0)


def answer(body=b"{}", status=200):
    return answers.Answer(status, body, 100)


def test_make_bench_runs_every_benchmark() -> None:
    listed = re.findall(r"^BENCHMARKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(listed[0].split()) == BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_demands_something(name) -> None:
    assert "demand" in MODULES[name]


def test_what_is_demanded_ends_the_process_with_status_1() -> None:
    command = "from tests.lab.benchmarks.runs import demand; demand(False, 'no webhook: 3 pods were stored')"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "these figures would be wrong: no webhook: 3 pods were stored\n")


@pytest.mark.parametrize(
    ("is_short", "code"),
    [pytest.param(True, 0, id="the short form skips"), pytest.param(False, "no wrk here", id="the benchmark fails")],
)
def test_what_is_missing_is_named(monkeypatch, capsys, is_short, code) -> None:
    monkeypatch.setattr(runs, "SHORT", is_short)
    with pytest.raises(SystemExit) as ended:
        runs.need("no wrk here")
    assert ended.value.code == code
    assert capsys.readouterr().out == ("skipped: no wrk here\n" if is_short else "")


@pytest.mark.parametrize(
    ("taken", "before", "after", "text"),
    [
        pytest.param(load(), answer(), answer(b"[]"), "before the load", id="the last answer is another one"),
        pytest.param(load(), answer(status=503), answer(status=503), "before the load", id="an error"),
        pytest.param(load(size=99), answer(), answer(), "9900 bytes came", id="shorter ones among them"),
        pytest.param(load(size=110), answer(), answer(), "11000 bytes came", id="longer ones among them"),
    ],
)
def test_answers_that_differ_are_an_error(taken, before, after, text) -> None:
    answers.demand_alike(load(), 8, answer(), answer(), "/mutate")
    with pytest.raises(runs.WrongAnswerError, match=text):
        answers.demand_alike(taken, 8, before, after, "/mutate")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({PATCHED: 9}, id="too few decisions"),
        pytest.param({PATCHED: 10, REFUSED: 1}, id="one pod was refused"),
        pytest.param({REFUSED: 10}, id="all were refused"),
        pytest.param({PATCHED: 10, '{kind="violation",mode="warn",rule="schedulable"}': 1}, id="one pod was warned of"),
        pytest.param({PATCHED: 10, '{reason="overloaded"}': 1}, id="one request had no decision"),
    ],
)
def test_decisions_of_another_kind_are_an_error(after) -> None:
    before = Counter({PATCHED: 5, REFUSED: 5})
    answers.demand_counted(before, before + Counter({PATCHED: 10}), {"mutate": "patched"}, 10)
    with pytest.raises(runs.WrongAnswerError, match="the product counts"):
        answers.demand_counted(before, before + Counter(after), {"mutate": "patched"}, 10)


def test_pods_that_are_stored_otherwise_are_an_error() -> None:
    expected = apiserver_cases.completed(POD, {"gpupolicy.dev/injected": "all"})
    other = {**expected, "metadata": {**expected["metadata"], "name": "p-2", "uid": "2"}}
    apiserver_cases.demand_all([expected, other], expected, range(2, 3), "product")
    with pytest.raises(runs.WrongAnswerError, match="1 pods were stored; 2 to 4 are expected"):
        apiserver_cases.demand_all([expected], expected, range(2, 5), "product")
    with pytest.raises(runs.WrongAnswerError, match="p-1 is not as it should be: /metadata/annotations"):
        apiserver_cases.demand_all([expected, POD], expected, range(2, 3), "product")


@needs_wrk
def test_one_refusal_among_many_answers_is_an_error(tmp_path) -> None:
    (tmp_path / "pod.json").write_text('{"name": "NAME"}')

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(403 if body == b'{"name": "run-3"}' else 201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        file = tmp_path / "pod.json"
        assert wrk.load(wrk.Request(url, file, "other"), 1, 1).answers > 3
        with pytest.raises(runs.WrongAnswerError, match=r"{'status': 1} of \d+ requests failed"):
            wrk.load(wrk.Request(url, file, "run"), 1, 1)
        server.shutdown()


@needs_wrk
def test_load_on_a_policy_that_refuses_the_pod_is_not_measured(monkeypatch, capsys) -> None:
    monkeypatch.setattr(direct, "write_policies", lambda folder, count: cluster.write_policies(folder, count, REFUSING))
    with pytest.raises(runs.WrongAnswerError, match=r"/validate answered .*'allowed': False"):
        direct.main()
    assert capsys.readouterr().out == ""


@needs_wrk
@pytest.mark.e2e
def test_creates_that_a_policy_refuses_are_not_measured(monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "_default.yaml").write_text(REFUSING)
    monkeypatch.setattr(through_apiserver, "SHIPPED", tmp_path / "_default.yaml")
    monkeypatch.setattr(through_apiserver, "WORKERS", (1,))
    monkeypatch.setattr(through_apiserver, "SECONDS", 1)
    monkeypatch.setattr(apiserver_cases, "PATIENCE", 2.0)
    monkeypatch.setattr(runs, "SHORT", False)
    with pytest.raises(SystemExit) as ended:
        through_apiserver.main()
    if not isinstance(ended.value, runs.WrongAnswerError):
        pytest.skip(str(ended.value))
    assert "product: the pod of this benchmark is refused" in str(ended.value)

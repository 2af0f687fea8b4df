"""What a client's process says of its own calls, as Prometheus reads it."""

import re
import subprocess
import threading
import urllib.error
import urllib.request

import invoker
import pytest
from conftest import OWN_USER, Rendezvous, Server, comes_true


@pytest.fixture
def held(tmp_path):
    made = Rendezvous(str(tmp_path))
    yield made
    made.close()


@pytest.fixture(scope="module")
def worker():
    running = Server("tcp;ofi_rxm", "--lease-cores=2", OWN_USER)
    yield running
    running.stop()


def value(name, **labels):
    """What a metric has, summed over the labels that are not given; 0 if it is not there."""
    total = 0.0
    for line in invoker.client_metrics().splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if not found or found[1] != name:
            continue
        has = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
        if all(has.get(label) == wanted for label, wanted in labels.items()):
            total += float(found[3])
    return total


def test_calls_bytes_and_failures_are_counted_and_stay_when_the_client_has_gone(worker):
    before = {
        name: value("invoker_client_" + name, function="echo")
        for name in ("calls_total", "request_bytes_total", "response_bytes_total")
    }
    failed = value("invoker_client_call_failures_total", function="test.fail")
    sessions = value("invoker_client_sessions_opened_total")
    with invoker.connect(worker.address) as client:
        for _ in range(40):
            client.call("echo", b"x" * 100)
        client.call("echo", b"x" * (3 << 20))  # larger than a window
        with pytest.raises(invoker.FunctionFailed):
            client.call("test.fail", b"x")
        assert value("invoker_client_sessions", fabric="tcp;ofi_rxm") == 1
        assert value("invoker_client_registered_bytes") > 0
    labels = {"function": "echo", "fabric": "tcp;ofi_rxm"}
    assert value("invoker_client_calls_total", **labels) - before["calls_total"] == 41
    for name in ("request_bytes_total", "response_bytes_total"):
        assert value("invoker_client_" + name, **labels) - before[name] == 4000 + (3 << 20)
    assert value("invoker_client_call_failures_total", function="test.fail") - failed == 1
    assert value("invoker_client_call_duration_seconds_count", **labels) >= 2
    assert value("invoker_client_call_duration_seconds_sum", **labels) > 0
    assert value("invoker_client_sessions", fabric="tcp;ofi_rxm") == 0
    assert value("invoker_client_sessions_opened_total") - sessions == 1


def test_calls_under_way_are_outstanding_and_a_scrape_does_not_wait_for_them(worker, held):
    with invoker.connect(worker.address) as client:
        futures = [client.submit("test.rendezvous", held.path) for _ in range(3)]
        assert value("invoker_client_calls_outstanding", fabric="tcp;ofi_rxm") == 3
        for future in futures:
            future.cancel()
        assert value("invoker_client_calls_outstanding", fabric="tcp;ofi_rxm") == 0
        held.release()  # the one that ran


def test_tries_of_a_group_are_counted(held):
    servers = [Server("tcp;ofi_rxm") for _ in range(2)]
    try:
        with invoker.connect(",".join(server.address for server in servers)) as group:
            before = value("invoker_client_retries_total")
            futures = [group.submit("test.rendezvous", held.path, retry=1) for _ in range(2)]
            for _ in futures:
                held.wait_until_running()
            servers[0].kill()
            assert comes_true(lambda: value("invoker_client_retries_total") == before + 1)
            for _ in futures:
                held.release()
            assert [bytes(future.result()) for future in futures] == [b"held", b"held"]
    finally:
        servers[1].stop()


def test_promtool_has_nothing_to_say_against_the_metrics(worker):
    with invoker.connect(worker.address) as client:
        client.call("echo", b"x")
    text = invoker.client_metrics()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_port_serves_them_while_the_program_computes(worker):
    with invoker.connect(worker.address) as client, invoker.serve_metrics() as metrics:
        client.call("echo", b"x")
        with urllib.request.urlopen("http://%s/metrics" % metrics.address, timeout=20) as reply:
            assert "invoker_client_calls_total{" in reply.read().decode()
        assert metrics.address in repr(metrics)
    metrics.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen("http://%s/metrics" % metrics.address, timeout=20)


def test_a_port_asks_for_a_token(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-of-32-characters-or-more-0\n")
    tokens.chmod(0o600)
    with invoker.serve_metrics(token_file=tokens) as metrics:
        request = urllib.request.Request("http://%s/metrics" % metrics.address)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == 401
        request.add_header("Authorization", "Bearer a-token-of-32-characters-or-more-0")
        with urllib.request.urlopen(request, timeout=20) as reply:
            assert reply.status == 200


def test_other_machines_are_let_in_over_https_or_when_told_only():
    with pytest.raises(invoker.InvokerError, match="plaintext"):
        invoker.serve_metrics("0.0.0.0:0")
    with invoker.serve_metrics("0.0.0.0:0", allow_plaintext=True):
        pass
    with pytest.raises(invoker.InvokerError, match="no-such-host"):
        invoker.serve_metrics("no-such-host.invalid:0")


def test_a_worker_in_a_program_of_its_own_serves_its_metrics():
    with invoker.serve({"length": lambda data: b"%d" % len(data)}, metrics="127.0.0.1:0") as server:
        with invoker.connect(server.address, provider="tcp;ofi_rxm") as client:
            client.call("length", b"abc")
        with urllib.request.urlopen("http://%s/metrics" % server.metrics_address, timeout=20) as reply:
            assert 'invoker_calls_total{function="length"' in reply.read().decode()
        with pytest.raises(invoker.InvokerError):
            invoker.serve({}, metrics=server.metrics_address)


def test_threads_that_call_and_threads_that_read_do_not_disturb_one_another(worker):
    done = threading.Event()
    read = []

    def reader():
        while not done.is_set():
            read.append(value("invoker_client_calls_total", function="echo"))

    before = value("invoker_client_calls_total", function="echo")
    thread = threading.Thread(target=reader)
    thread.start()
    with invoker.connect(worker.address) as client:
        for _ in range(300):
            client.call("echo", b"x")
    done.set()
    thread.join()
    assert value("invoker_client_calls_total", function="echo") - before == 300
    assert read == sorted(read)
    assert comes_true(lambda: value("invoker_client_sessions", fabric="tcp;ofi_rxm") == 0)

"""A worker's metrics as a real Prometheus reads them, and its page in a real browser."""

import asyncio
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import invoker
import pytest
from conftest import OWN_USER, WITH_THE_TEST, Rendezvous, Server, comes_true

BROWSER = shutil.which("chromium-headless-shell")


@pytest.fixture(scope="module")
def worker():
    running = Server(
        "tcp;ofi_rxm",
        "--metrics=127.0.0.1:0",
        "--lease-cores=2",
        "--allow-upload=python",
        "--python=/usr/bin/python3",
        OWN_USER,
    )
    yield running
    running.stop()


def fetch(address, path, headers={}):
    request = urllib.request.Request("http://%s%s" % (address, path), headers=headers)
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.read().decode()


def status_of(server):
    return json.loads(fetch(server.ready["metrics"], "/status.json"))


def row_of(server, function, executors):
    rows = [
        row for row in status_of(server)["functions"] if row["function"] == function and row["executors"] == executors
    ]
    return rows[0] if rows else None


def test_a_worker_counts_calls_bytes_and_failures_of_each_function(worker):
    with invoker.connect(worker.address) as client:
        before = row_of(worker, "echo", "shared") or {"calls": 0, "bytes_in": 0, "bytes_out": 0}
        for _ in range(10):
            client.call("echo", b"x" * 100)
        # Larger than a window.
        client.call("echo", b"x" * (3 << 20))
        after = row_of(worker, "echo", "shared")
        assert after["calls"] - before["calls"] == 11
        assert after["bytes_in"] - before["bytes_in"] == after["bytes_out"] - before["bytes_out"] == 1000 + (3 << 20)
        assert after["failures"] == 0
        with pytest.raises(invoker.FunctionFailed):
            client.call("test.fail", b"x")
        failed = row_of(worker, "test.fail", "shared")
        assert (failed["calls"], failed["failures"]) == (1, 1)
        assert after["fabric"] == "tcp;ofi_rxm" and 0 < after["p50_us"] <= after["p99_us"]


def test_an_exception_of_a_python_function_is_a_failure(worker):
    async def later(fails):
        if fails:
            raise KeyError("later")

    with invoker.connect(worker.address) as client, client.lease() as lease:
        for function, name in ((lambda fails: 1 / (not fails), "divides"), (later, "later")):
            remote = lease.register(function, name=name)
            for fails in (False, True, True):
                if fails:
                    with pytest.raises((ZeroDivisionError, KeyError)):
                        remote(fails)
                else:
                    remote(fails)
            row = row_of(worker, name, "leased")
            assert (row["calls"], row["failures"]) == (3, 2)


def test_functions_of_a_lease_are_still_counted_when_it_has_ended(worker):
    with invoker.connect(worker.address) as client:
        with client.lease() as lease:
            half = lease.register(lambda x: x / 2, name="half")
            assert [half(4), half(8)] == [2, 4]
            # An executor shows it when it has been idle for a moment.
            registered = r'invoker_registered_bytes{executors="leased"} ([1-9]\d*)'
            assert comes_true(lambda: re.search(registered, fetch(worker.ready["metrics"], "/metrics")))
            open_row = row_of(worker, "half", "leased")
            assert status_of(worker)["leases"]["own"] == 1
        closed_row = row_of(worker, "half", "leased")
        assert open_row["calls"] == closed_row["calls"] == 2
        assert status_of(worker)["leases"]["own"] == 0


def test_promtool_has_nothing_to_say_against_the_metrics(worker):
    with invoker.connect(worker.address) as client:
        client.call("echo", b"x")
    text = fetch(worker.ready["metrics"], "/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Prometheus:
    """A real one, which reads a worker's metrics four times a second."""

    def __init__(self, target, folder):
        configuration = folder / "prometheus.yml"
        configuration.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"},
                    "scrape_configs": [{"job_name": "invoker", "static_configs": [{"targets": [target]}]}],
                }
            )
        )
        self.process = subprocess.Popen(
            [
                *WITH_THE_TEST,
                "prometheus",
                "--config.file=%s" % configuration,
                "--storage.tsdb.path=%s" % (folder / "data"),
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        said = []
        for line in self.process.stderr:
            said.append(line)
            found = re.search(r'Listening on"? address=(127\.0\.0\.1:[1-9]\d*)', line)
            if found:
                break
        else:
            raise AssertionError("".join(said))
        self.address = found[1]
        # Else it would wait for room in the pipe.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def query(self, expression):
        """The value; None: there is none yet."""
        try:
            reply = json.loads(fetch(self.address, "/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
        except urllib.error.URLError:
            return None
        result = reply["data"]["result"]
        return float(result[0]["value"][1]) if result else None

    def stop(self):
        self.process.terminate()
        self.process.wait()


def test_a_percentile_of_prometheus_is_what_the_client_measured(worker, tmp_path):
    prometheus = Prometheus(worker.ready["metrics"], tmp_path)
    try:
        with invoker.connect(worker.address) as client, client.lease() as lease:
            nap = lease.register(lambda: time.sleep(0.02), name="nap")
            measured = []
            for _ in range(50):
                begin = time.perf_counter()
                nap()
                measured.append(time.perf_counter() - begin)
            labels = '{function="nap",executors="leased",fabric="tcp;ofi_rxm"}'
            assert comes_true(lambda: prometheus.query("invoker_calls_total" + labels) == 50)
            p50 = prometheus.query(
                "histogram_quantile(0.5, sum by (le) (invoker_call_duration_seconds_bucket%s))" % labels
            )
        # A bucket ends where it is a third or a half larger than where it began.
        median = statistics.median(measured)
        assert median / 1.5 <= p50 <= median * 1.5
    finally:
        prometheus.stop()


def test_a_worker_with_tokens_shows_its_metrics_to_those_who_have_one(tmp_path):
    token = "a-token-of-many-characters"
    (tmp_path / "tokens").write_text(token + "\n")
    (tmp_path / "tokens").chmod(0o600)
    server = Server("tcp;ofi_rxm", "--metrics=127.0.0.1:0", "--token-file=%s" % (tmp_path / "tokens"))
    try:
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(server.ready["metrics"], "/metrics")
        assert caught.value.code == 401 and token not in caught.value.read().decode()
        text = fetch(server.ready["metrics"], "/metrics", {"Authorization": "Bearer " + token})
        assert "invoker_refused_requests_total 1\n" in text and token not in text
    finally:
        server.stop()


def test_a_port_that_is_taken_is_an_error_at_the_start(worker):
    done = subprocess.run(
        ["tools/invoker_server", "--provider=tcp;ofi_rxm", "--metrics=" + worker.ready["metrics"]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and worker.ready["metrics"] in done.stderr and "in use" in done.stderr


def invoker_status(server, *options):
    return subprocess.run(
        ["tools/invoker", "status", "--server=" + server.address, *options], capture_output=True, text=True, check=False
    )


def test_invoker_status_fits_a_terminal_and_has_the_same_for_programs(worker):
    with invoker.connect(worker.address) as client:
        client.call("echo", b"x")
        text = invoker_status(worker).stdout
        same = json.loads(invoker_status(worker, "--json").stdout)
    assert text.startswith(worker.address + ": serving, started ")
    assert re.search(r"^echo +tcp;ofi_rxm +shared +\d+ +0 +\S+ us +\S+ [um]s$", text, re.MULTILINE), text
    assert max(map(len, text.splitlines())) <= 80
    assert same.keys() == status_of(worker).keys() and same["server"] == worker.address


def test_invoker_top_shows_what_ran_since_the_look_before_on_all_servers(worker):
    other = Server("tcp;ofi_rxm")
    try:
        with invoker.connect(worker.address + "," + other.address) as group:
            for _ in range(100):
                group.call("echo", b"abc")
            process = subprocess.Popen(
                [
                    *WITH_THE_TEST,
                    "tools/invoker",
                    "top",
                    "--server=%s,%s" % (worker.address, other.address),
                    "--interval=100ms",
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert re.match(r"[012] of 2 servers; executors busy: ", process.stdout.readline())
            # What ran before it was started does not count.
            for line in process.stdout:
                if line.startswith("echo "):
                    # A look that a server did not answer in time has no row of it.
                    assert line.split()[2:] == ["0", "0", "-", "-"]
                    break
            for line in process.stdout:
                group.call("echo", b"abc")
                assert len(line) <= 81 and "\x1b" not in line
                if line.startswith("echo ") and line.split()[2] != "0":
                    break
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait() == 0
            process.stdout.close()
    finally:
        other.stop()


def test_a_policy_hides_what_others_do(tmp_path):
    policy = tmp_path / "policy"
    tokens = {"all": "a-token-of-many-characters", "own": "another-token-of-characters"}
    policy.write_text(
        "".join(
            'tenant { name: "%s" token_sha256: "%s" %s }\n'
            % (name, hashlib.sha256(token.encode()).hexdigest(), "sees_others_usage: true" if name == "all" else "")
            for name, token in tokens.items()
        )
    )
    server = Server("tcp;ofi_rxm", "--metrics=127.0.0.1:0", "--policy=%s" % policy)
    try:
        for name, token in tokens.items():
            own = tmp_path / name
            own.write_text(token)
            own.chmod(0o600)
        done = invoker_status(server, "--token-file=%s" % (tmp_path / "own"))
        assert done.returncode != 0 and "sees_others_usage" in done.stderr
        assert invoker_status(server, "--token-file=%s" % (tmp_path / "all")).returncode == 0
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(server.ready["metrics"], "/", {"Authorization": "Bearer " + tokens["own"]})
        assert caught.value.code == 403
    finally:
        server.stop()


# How much wider than the window the page is.
MEASURES = b"""<script>
setInterval(() => { document.documentElement.dataset.beyond = document.documentElement.scrollWidth -
  document.documentElement.clientWidth; }, 50);
</script>"""


class Doctored:
    """A worker's page with a status of the test's, or with what a function of the test's makes at each look."""

    def __init__(self, worker, status):
        page = fetch(worker.ready["metrics"], "/").encode() + MEASURES
        pages = {
            "/": ("text/html", lambda: page),
            "/status.json": ("application/json", lambda: json.dumps(status() if callable(status) else status).encode()),
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kind, make = pages.get(self.path, ("text/plain", bytes))
                content = make()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def browse(address, folder, *options):
    """The page's content in a browser, once its script has shown a status."""
    done = subprocess.run(
        [
            BROWSER,
            "--no-sandbox",
            "--disable-gpu",
            "--user-data-dir=%s" % (folder / "profile"),
            "--virtual-time-budget=3000",
            "--dump-dom",
            *options,
            "http://%s/" % address,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium-headless-shell")
def test_the_page_shows_what_the_worker_does(worker, tmp_path):
    with invoker.connect(worker.address) as client:
        client.call("echo", b"x")
        shown = browse(worker.ready["metrics"], tmp_path)
    assert '<h1 id="server">%s</h1>' % worker.address in shown
    assert '<span id="state" class="">serving</span>' in shown
    assert "<td>echo</td><td>tcp;ofi_rxm</td><td>shared</td>" in shown
    # Nothing ran between two looks.
    assert '<path class="p99" d=""' in shown


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium-headless-shell")
def test_the_chart_shows_what_ran_between_two_looks_and_no_more(worker, tmp_path):
    with invoker.connect(worker.address) as client:
        client.call("echo", b"x")
    status = status_of(worker)
    row = row_of(worker, "echo", "shared")
    # Many calls in the first bucket before, and from look to look some in the twentieth.
    row["times"] = [10**9] + [0] * 19
    status["functions"] = [row]

    def look():
        row["times"][19] += 100
        return status

    doctored = Doctored(worker, look)
    try:
        shown = browse(doctored.address, tmp_path)
    finally:
        doctored.stop()
    assert re.search(r'<path class="p99" d="M[\d.]+,[\d.]+H', shown)
    top = re.search(r"The top is ([\d.]+) µs\.", shown)
    ends = status["bucket_ends_us"]
    assert ends[18] < float(top[1]) <= ends[19], (top[0], ends[18:20])


def in_three_states(worker):
    """Statuses with nothing running, with load, and with leases that hold and that have failed."""
    nothing = status_of(worker)
    nothing["functions"] = []
    load = json.loads(json.dumps(nothing))
    load["functions"] = [
        {
            "function": "a.function.with.a.name.as.long.as.names.may.be.%02d.%s" % (number, "x" * 70),
            "fabric": "verbs;ofi_rxm",
            "executors": executors,
            "calls": 10**12 + number,
            "failures": 10**9,
            "bytes_in": 10**15,
            "bytes_out": 10**15,
            "p50_us": 1234567.0,
            "p99_us": 98765432.0,
            "times": [0, 5, 10**9],
        }
        for number in range(12)
        for executors in ("shared", "leased")
    ]
    failing = json.loads(json.dumps(load))
    failing["leases"]["open"] = [
        {"lease": 10**6, "tenant": "t" * 60, "executors": 64, "held_s": 1e6, "cpu_s": 1e7, "calls": 10**12}
    ] * 20
    failing["leases"]["last_lost"] = [
        {"lease": 10**6, "tenant": "t" * 60, "at": "2026-01-01T00:00:00Z", "reason": "signal 9 in " + "x" * 300}
    ] * 16
    failing["dropped"] = {"a reason of drops": 10**9}
    return {"nothing": nothing, "load": load, "failing": failing}


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium-headless-shell")
@pytest.mark.parametrize("width", [420, 1000])
def test_the_page_fits_telephones_and_screens_whatever_it_shows(worker, tmp_path, width):
    pictures = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path))
    for state, status in in_three_states(worker).items():
        doctored = Doctored(worker, status)
        picture = os.path.join(pictures, "page_%s_%d.png" % (state, width))
        try:
            shown = browse(doctored.address, tmp_path, "--window-size=%d,1400" % width)
            browse(doctored.address, tmp_path, "--window-size=%d,1400" % width, "--screenshot=" + picture)
        finally:
            doctored.stop()
        assert 'data-beyond="0"' in shown, state
        assert shown.count("signal 9 in ") == (16 if state == "failing" else 0)
        assert os.path.getsize(picture) > 1000


def test_open_leases_and_those_that_were_lost_are_shown(worker, tmp_path):
    before = status_of(worker)["leases"]["lost"]
    with invoker.connect(worker.address) as client:
        with pytest.raises(invoker.InvokerError), client.lease(tenant="miller") as lease:
            lease.register(lambda: os.kill(os.getpid(), signal.SIGKILL), name="dies")()
        with client.lease(tenant="miller") as lease:
            lease.call("echo", b"x")
            (mine,) = [each for each in status_of(worker)["leases"]["open"] if each["tenant"] == "miller" and each["executors"]]
            assert mine["executors"] == 1 and mine["held_s"] > 0
            leases = status_of(worker)["leases"]
            shown = browse(worker.ready["metrics"], tmp_path) if BROWSER else None
    assert leases["lost"] == before + 1
    lost = leases["last_lost"][0]
    assert lost["tenant"] == "miller" and lost["lease"] == mine["lease"] - 1 and "signal 9" in lost["reason"]
    assert "invoker_leases_lost_total %d" % leases["lost"] in fetch(worker.ready["metrics"], "/metrics")
    if shown:
        assert "<td>%d</td><td>miller</td><td>1</td>" % mine["lease"] in shown
        assert "<td>%d</td><td>miller</td><td>%s</td>" % (lost["lease"], lost["at"]) in shown


def test_a_scrape_does_not_wait_for_an_executor(worker, tmp_path):
    held = Rendezvous(str(tmp_path))
    with invoker.connect(worker.address) as client:
        call = client.submit("test.rendezvous", held.path)
        held.wait_until_running()
        # Each of these would wait for ever.
        executors = lambda kind: status_of(worker)["executors"][kind]
        assert (executors("shared")["busy"], executors("shared")["sessions"]) == (1, 1)
        assert 'invoker_executors{executors="shared",state="busy"} 1\n' in fetch(worker.ready["metrics"], "/metrics")
        assert "executors   shared: 1 of 1 busy" in invoker_status(worker).stdout
        held.release()
        assert bytes(call.result()) == b"held"
        with client.lease() as lease:
            call = lease.submit("test.rendezvous", held.path)
            held.wait_until_running()
            assert (executors("leased")["busy"], executors("leased")["sessions"]) == (1, 1)
            held.release()
            assert bytes(call.result()) == b"held"
    assert comes_true(lambda: executors("leased")["sessions"] == executors("shared")["sessions"] == 0)
    held.close()


def test_the_time_of_a_call_that_is_answered_later_is_counted(worker):
    async def waits(_):
        await asyncio.sleep(0.05)

    with invoker.connect(worker.address) as client, client.lease() as lease:
        lease.register(waits, name="waits")(0)
        row = row_of(worker, "waits", "leased")
    # In microseconds. A bucket begins at two thirds of its end.
    assert row["calls"] == 1 and row["p50_us"] > 30_000


def test_requests_that_wait_are_shown(worker):
    with invoker.connect(worker.address) as client:
        waiting = lambda: status_of(worker)["executors"]["shared"]["requests_waiting"]
        assert waiting() == 0
        # While the executor runs the first one, the others come; it takes them together.
        calls = [client.submit("test.sleep", (50_000).to_bytes(4, "little")) for _ in range(16)]
        assert comes_true(lambda: waiting() > 0)
        for call in calls:
            call.result()
        assert comes_true(lambda: waiting() == 0)


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium-headless-shell")
def test_names_are_text_on_the_page_and_nothing_runs(worker, tmp_path):
    status = status_of(worker)
    hostile = "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script>"
    status["functions"] = [
        {
            "function": hostile,
            "fabric": hostile,
            "executors": "leased",
            "calls": 1,
            "failures": 0,
            "bytes_in": 0,
            "bytes_out": 0,
            "p50_us": 1,
            "p99_us": 2,
            "times": [1],
        }
    ]
    status["dropped"] = {hostile: 3}
    status["leases"]["open"] = [
        {"lease": 1, "tenant": hostile, "executors": 1, "held_s": 1.5, "cpu_s": 0.5, "calls": 2}
    ]
    status["leases"]["last_lost"] = [{"lease": 2, "tenant": hostile, "at": "now", "reason": hostile}]
    doctored = Doctored(worker, status)
    try:
        shown = browse(doctored.address, tmp_path)
    finally:
        doctored.stop()
    assert "<title>Invoker %s</title>" % worker.address in shown
    assert "<img" not in shown and shown.count("&lt;img src=x") == 8

"""What an operator does: lists and ends leases, drains servers, reads logs."""

import base64
import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request

import invoker
import pytest
from conftest import OWN_USER, WITH_THE_TEST, Server, comes_true, hearing

LEASES = ["--lease-cores=2", OWN_USER]


def run(*arguments):
    return subprocess.run(
        [*WITH_THE_TEST, "tools/invoker", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def open_leases(server, *options):
    done = run("leases", "--json", "--server=" + server.address, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["leases"]


class Logged:
    """A server of which the log is in a file of a folder."""

    def __init__(self, folder, *options):
        folder.mkdir(exist_ok=True)
        with hearing(folder) as self.text:
            self.server = Server("tcp;ofi_rxm", *options)

    def lines(self):
        return self.text().splitlines()


def test_leases_are_listed_and_ended_by_number():
    server = Server("tcp;ofi_rxm", *LEASES)
    try:
        with invoker.connect(server.address) as client, client.lease(executors=1) as lease:
            lease.call("echo", b"abc")
            (own,) = [each for each in open_leases(server) if each["executors"] == 1]
            text = run("leases", "--server=" + server.address).stdout
            assert re.search(r"^%d +- +1 +\d+\.\ds +\d+\.\ds +\d+$" % own["lease"], text, re.MULTILINE), text
            assert max(map(len, text.splitlines())) <= 80
            done = run("leases", "--server=" + server.address, "end", str(own["lease"]))
            assert (done.returncode, done.stdout) == (0, "lease %d has ended\n" % own["lease"]), done.stderr

            def why_it_fails():
                with pytest.raises(invoker.InvokerError) as failure:
                    for _ in range(100000):
                        lease.call("echo", b"abc")
                return str(failure.value)

            # A call may be refused before the lease's end is heard.
            assert comes_true(lambda: "an operator has ended it" in why_it_fails())
            assert comes_true(lambda: [each["executors"] for each in open_leases(server)] == [0])
            # Others' go on.
            assert bytes(client.call("echo", b"abc")) == b"abc"
            done = run("leases", "--server=" + server.address, "end", "12345")
            assert done.returncode == 3 and "no lease 12345 is open" in done.stderr
    finally:
        server.stop()


def test_a_server_that_is_drained_ends_once_what_runs_has_run():
    server = Server("tcp;ofi_rxm")
    with invoker.connect(server.address) as client:
        client.call("echo", b"abc")
        done = run("drain", "--server=" + server.address)
        assert done.returncode == 0 and server.address in done.stdout, done.stderr
        assert server.process.wait() == 0
        server.process.stdout.close()


def test_a_server_in_a_program_is_not_drained():
    with invoker.serve({"echo": bytes}) as server:
        done = run("drain", "--server=" + server.address)
        assert done.returncode == 3 and "end that program" in done.stderr


def test_by_a_policy_tenants_end_their_own_leases_and_operators_all(tmp_path):
    policy = tmp_path / "policy"
    tokens = {name: "the-token-of-%s-0123456789" % name for name in ("alice", "bob", "operator")}
    policy.write_text(
        "".join(
            'tenant { name: "%s" token_sha256: "%s" function: "*" sees_others_usage: true operates: %s }\n'
            % (name, hashlib.sha256(token.encode()).hexdigest(), "true" if name == "operator" else "false")
            for name, token in tokens.items()
        )
    )
    for name, token in tokens.items():
        (tmp_path / name).write_text(token)
        (tmp_path / name).chmod(0o600)
    by = {name: "--token-file=%s" % (tmp_path / name) for name in tokens}
    server = Server("tcp;ofi_rxm", *LEASES, "--policy=%s" % policy)
    end = ["leases", "--server=" + server.address]
    try:
        with invoker.connect(server.address, token_file=tmp_path / "alice") as client:
            for ender in ("alice", "operator"):
                with client.lease(executors=1) as lease:
                    numbers = [each["lease"] for each in open_leases(server, by["bob"]) if each["executors"] == 1]
                    done = run(*end, by["bob"], "end", str(numbers[0]))
                    assert done.returncode == 3 and "(operates)" in done.stderr
                    lease.call("echo", b"abc")
                    assert run(*end, by[ender], "end", str(numbers[0])).returncode == 0
                    assert comes_true(lambda: 'tenant "%s" has ended it' % ender in str(lease.ended))
                    with pytest.raises(invoker.InvokerError):
                        lease.call("echo", b"abc")
        # A stranger does not learn which leases there are.
        assert "(operates)" in run(*end, by["bob"], "end", "12345").stderr
        done = run("drain", "--server=" + server.address, by["alice"])
        assert done.returncode == 3 and "(operates)" in done.stderr
        assert run("drain", "--server=" + server.address, by["operator"]).returncode == 0
        assert server.process.wait() == 0
        server.process.stdout.close()
    finally:
        server.stop_if_running()


def test_a_log_of_json_has_times_levels_and_leases_and_no_secrets(tmp_path):
    token = "a-token-of-many-characters"
    (tmp_path / "token").write_text(token)
    (tmp_path / "token").chmod(0o600)
    logged = Logged(
        tmp_path,
        *LEASES,
        "--log-format=json",
        "--log-level=debug",
        "--metrics=127.0.0.1:0",
        "--token-file=%s" % (tmp_path / "token"),
    )
    wrong = "a-token-that-nobody-was-given"
    (tmp_path / "wrong").write_text(wrong)
    (tmp_path / "wrong").chmod(0o600)
    with pytest.raises(invoker.InvokerError) as refused:
        invoker.connect(logged.server.address, token_file=tmp_path / "wrong")
    assert wrong not in str(refused.value)
    for authorization in ("Bearer " + wrong, "Bearer " + token, "Basic " + base64.b64encode(b"x:" + wrong.encode()).decode()):
        request = urllib.request.Request(
            "http://%s/metrics" % logged.server.ready["metrics"], headers={"Authorization": authorization}
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                said = reply.read().decode()
        except urllib.error.HTTPError as error:
            said = error.read().decode()
        assert token not in said and wrong not in said
    with invoker.connect(logged.server.address, token_file=tmp_path / "token") as client:
        with client.lease(executors=1, call_limit=0.1) as lease:
            lease.call("echo", b"abc")
            number = [each for each in open_leases(logged.server, "--token-file=%s" % (tmp_path / "token"))][-1]["lease"]
            with pytest.raises(invoker.InvokerError):
                lease.call("test.sleep", (60_000_000).to_bytes(4, "little"))
            entries = lambda: [json.loads(line) for line in logged.lines()]
            assert comes_true(lambda: any(entry.get("lease") == number for entry in entries())), logged.lines()
    logged.server.stop()
    (ended,) = [entry for entry in entries() if "a lease ended" in entry["message"]]
    assert ended["lease"] == number and ended["level"] == "warning" and ended["program"] == "invoker_server"
    for entry in entries():
        assert datetime.datetime.fromisoformat(entry["time"]).utcoffset() is not None
        assert entry["thread"] > 0
    for secret in (token, wrong, base64.b64encode(b"x:" + wrong.encode()).decode()):
        assert secret not in logged.text()
    debug = [entry for entry in entries() if entry["level"] == "debug"]
    for said in ("a session on tcp;ofi_rxm is open", "a client closes a session", "a lease is closed"):
        assert any(entry["message"].startswith(said) and entry.get("lease", 0) > 0 for entry in debug), debug


def test_a_log_of_text_leaves_out_what_is_below_the_level(tmp_path):
    loud = Logged(tmp_path / "loud")
    quiet = Logged(tmp_path / "quiet", "--log-level=warning")
    for each in (loud, quiet):
        each.server.stop()
    assert any(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d \[\d+\] invoker_server: info: stopped; .*", line)
        for line in loud.lines()
    ), loud.lines()
    assert not quiet.lines()


def test_probes_are_there_for_tools():
    worker, client = {"run", "response"}, {"post", "completion"}
    for program, probes in {
        "tools/invoker_server": worker,
        "tools/invoker_executor": worker,
        "tools/invoker": client,
        "src/invoke/libinvoker.so": worker | client,
        invoker._native._invoker.__file__: worker | client,
    }.items():
        done = subprocess.run(["readelf", "--notes", program], stdout=subprocess.PIPE, text=True, check=True)
        assert set(re.findall(r"Provider: invoker\n +Name: (\w+)", done.stdout)) == probes, program


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("bpftrace") or not os.path.exists("/sys/kernel/tracing/uprobe_events"),
    reason="needs root, bpftrace, and a kernel with uprobes",
)
def test_bpftrace_counts_every_call_by_a_probe(tmp_path):
    server = Server("tcp;ofi_rxm")
    try:
        with invoker.connect(server.address) as client, open(tmp_path / "said", "w+") as said:
            program = 'BEGIN { printf("ready\\n"); } usdt:*:invoker:run { @calls = count(); @bytes = sum(arg1); }'
            tracing = subprocess.Popen(
                [*WITH_THE_TEST, "bpftrace", "-p", str(server.process.pid), "-e", program], stdout=said, stderr=said
            )
            heard = lambda: (tmp_path / "said").read_text()
            assert comes_true(lambda: "ready" in heard() or tracing.poll() is not None) and tracing.poll() is None, heard()
            for _ in range(16):
                client.call("echo", b"abc")
            client.call("echo", b"x" * (3 << 20))  # larger than a window
            tracing.send_signal(signal.SIGINT)
            assert tracing.wait(60) == 0, heard()
            assert "@calls: 17\n" in heard() and "@bytes: %d\n" % (48 + (3 << 20)) in heard()
    finally:
        server.stop()


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("perf") or not os.path.exists("/sys/kernel/tracing/uprobe_events"),
    reason="needs root, perf, and a kernel with uprobes",
)
def test_perf_counts_calls_by_a_probe(tmp_path):
    def perf(*arguments):
        return subprocess.run(
            [*WITH_THE_TEST, "perf", "--buildid-dir", str(tmp_path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        ).stdout

    perf("buildid-cache", "--add", os.path.realpath("tools/invoker_server"))
    # Another name if the kernel has an event of this one.
    event = re.search(r"sdt_invoker:\w+", perf("probe", "sdt_invoker:run")).group()
    server = Server("tcp;ofi_rxm")
    try:
        with invoker.connect(server.address) as client:
            counting = subprocess.Popen(
                [*WITH_THE_TEST, "perf", "stat", "-x,", "-I10", "-e", event, "-p", str(server.process.pid), "-o", "counts"],
                cwd=tmp_path,
            )

            def counted():
                client.call("echo", b"abc")
                lines = (tmp_path / "counts").read_text().splitlines()
                return any(re.match(r" *[\d.]+,[1-9]", line) for line in lines)

            assert comes_true(lambda: (tmp_path / "counts").exists() and counted())
            counting.send_signal(signal.SIGINT)
            counting.wait()
    finally:
        server.stop()
        perf("probe", "--del", event)

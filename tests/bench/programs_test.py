"""Every benchmark from end to end, once and small: it measures, it writes a result, and it leaves nothing."""

import json
import math
import os
import pathlib
import shutil
import subprocess

import pytest

FABRICS = ["tcp;ofi_rxm", "shm"]
# Options for benchmarks that are long with --quick, too.
LESS = {
    "peer_scale": ["--peers=1000", "--sessions=10"],
    "invoke_latency": ["--bytes=64,4096"],
    "data_auth": ["--bytes=64,4096"],
    "wake_up": ["--pause-ms=1,10"],
    "many_sessions": ["--active=20", "--idle=10"],
    "large_calls": ["--mebibytes=4"],
    "cluster": ["--servers=2", "--executors=2", "--clients=5", "--sessions=8", "--leased=4"],
}
# By a program of tables: its tables that have a row for each fabric at least.
TABLES = {
    "invoke_latency": ["latency", "ratios"],
    "parallel_invocations": ["closed_loop", "raw_rate"],
    "bandwidth": ["bandwidth"],
    "cold_start": ["phases", "totals", "lease_phases", "lease_totals"],
    "python_overhead": ["overhead"],
    "python_rates": ["rates"],
    "python_objects": ["calls"],
    "large_calls": ["calls"],
    "typed_calls": ["overhead"],
    "slow_neighbours": ["latency"],
    "peer_scale": ["sessions"],
    "many_sessions": ["idle", "active"],
    "tails": ["open_loop"],
    "tenants": ["latency"],
    "stages": ["stages"],
    "data_auth": ["latency"],
    "wake_up": ["latency", "idle"],
}


def run(command):
    # Bazel ends a test that takes too long, and with it what it has started.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def measure(name, tables, fabrics, tmp_path):
    """Runs a program; its tables."""
    result, plot = tmp_path / "result.json", tmp_path / "plot.svg"
    program = pathlib.Path("bench/programs") / name
    run([program, "--quick", "--rounds=1", f"--json={result}", f"--plot={plot}", *LESS.get(name, [])])
    report = json.loads(result.read_text())
    assert report["question"] and report["conditions"]
    for table in tables:
        rows = report["tables"][table]
        assert {row["provider"] for row in rows} >= set(fabrics), (table, rows)
        times = [row["p50_us"] for row in rows if "p50_us" in row]
        # A receiver may see a message before the call that posts it has returned: such a stage is less than nothing.
        least = -math.inf if table == "stages" else 0
        assert all(math.isfinite(time) and time >= least for time in times) and (not times or max(times) > 0), rows
    assert "<svg" in plot.read_text()
    return report["tables"]


@pytest.mark.parametrize("name", TABLES)
def test_a_program_measures_both_fabrics(name, tmp_path):
    measure(name, TABLES[name], FABRICS, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="a cluster's leases need root")
@pytest.mark.skipif(shutil.which("etcd") is None, reason="a cluster needs etcd")
def test_a_cluster_is_measured(tmp_path):
    tables = measure("cluster", ["join", "connect", "death", "leases", "large_lease"], ["tcp;ofi_rxm"], tmp_path)
    assert [row["sessions"] for row in tables["connect"]] == [1, 2, 8]
    # The columns that the bars take, besides the times.
    for table, column in (("join", "all_called_s"), ("leases", "leases_per_s"), ("large_lease", "ms_per_executor")):
        assert tables[table][0][column] > 0, (table, column)


def test_notification_measures_both_fabrics(tmp_path):
    result = tmp_path / "result.json"
    fabrics = [f"--provider={fabric}" for fabric in FABRICS]
    run(["bench/programs/notification", *fabrics, "--rounds=1", "--burst=20", f"--json={result}"])
    results = json.loads(result.read_text())["results"]
    assert {row["provider"] for row in results} == set(FABRICS)
    assert all(row["median_us"] > 0 for row in results)


def test_polling_measures_every_way(tmp_path):
    result = tmp_path / "result.json"
    built = pathlib.Path("tools/invoker_server").resolve().parent.parent
    run(["bench/polling", *FABRICS, "--seconds=0.1", "--calls=50", "--wakes=1", f"--built={built}", f"--json={result}"])
    rows = [json.loads(line) for line in result.read_text().splitlines()]
    assert {row["fabric"] for row in rows} == set(FABRICS)
    assert len({row["asked"] for row in rows}) * len(FABRICS) == len(rows)
    assert all(row["hot_us"] > 0 for row in rows)

"""bench/run_all: what it computes of the programs' results, and how it goes on when one fails."""

import importlib.machinery
import importlib.util
import json
import math
import pathlib
import stat

import pytest

_PATH = str(pathlib.Path("bench/run_all").resolve())


def _load():
    loader = importlib.machinery.SourceFileLoader("run_all", _PATH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_all", loader))
    loader.exec_module(module)
    return module


run_all = _load()
import bar  # noqa: E402 - run_all knows where it is
import document  # noqa: E402

TCP = "tcp;ofi_rxm"


def ratio(provider, size, p50, p99=1.0, mode="hot", subject="invoker", baseline="raw"):
    return {
        "provider": provider, "mode": mode, "subject": subject, "baseline": baseline, "bytes": size,
        "p50_ratio": p50, "p99_ratio": p99,
    }


def latency(provider, subject, size, p50):
    return {"provider": provider, "mode": "hot", "subject": subject, "bytes": size, "p50_us": p50}


@pytest.fixture(name="reports")
def _reports():
    """A run in which some bars are met and some not."""
    return {
        "invoke_latency": {
            "tables": {
                "ratios": [
                    ratio(TCP, 0, 9.9),  # not a size that the bar is about
                    ratio(TCP, 64, 1.01, 1.05),
                    ratio(TCP, 1024, 1.04, 1.3),
                    ratio(TCP, 4096, 1.00, 1.05),
                    ratio(TCP, 8192, 9.9),
                    ratio("shm", 64, 1.2, 1.2),
                    ratio("shm", 4096, 1.1, 1.1),
                    ratio(TCP, 65536, 1.05),
                    ratio(TCP, 1 << 20, 1.02),
                    ratio("shm", 65536, 1.11),
                    ratio(TCP, 64, 7.0, mode="grpc", subject="grpc_callback", baseline="invoker"),
                    ratio(TCP, 64, 6.5, mode="grpc", subject="grpc_sync", baseline="invoker"),
                    ratio(TCP, 64, 1.3, mode="warm", baseline="tcp_blocking"),
                ],
                "latency": [
                    latency(TCP, "invoker", 4096, 20.0),
                    latency(TCP, "invoker", 8192, 24.0),
                    latency(TCP, "raw", 4096, 19.0),
                    latency(TCP, "raw", 8192, 22.5),
                    latency("shm", "invoker", 4096, 2.0),
                    latency("shm", "invoker", 8192, 3.0),
                    latency("shm", "raw", 4096, 2.0),
                    latency("shm", "raw", 8192, 2.2),
                ],
            }
        },
        "python_overhead": {
            "tables": {"overhead": [{"provider": TCP, "api": "call_out", "bytes": 64, "minus_us": math.nan}]}
        },
    }


def test_a_typed_call_is_compared_at_the_sizes_where_the_bar_is_more_than_its_spread():
    def overhead(size, more_ns):
        return {"provider": "shm", "language": "C++", "bytes": size, "more_ns": more_ns}

    reports = {"typed_calls": {"tables": {"overhead": [overhead(64, 20), overhead(4096, 120), overhead(65536, 900)]}}}
    row = find(bar.compute(reports), "typed call", "C++", "shm")
    assert (row.measured, row.met) == (120, "no")
    reports["typed_calls"]["tables"]["overhead"].pop(1)
    assert find(bar.compute(reports), "typed call", "C++", "shm").met == "not measured"


def find(rows, *words):
    found = [row for row in rows if all(word in row.what for word in words)]
    assert len(found) == 1, [row.what for row in found]
    return found[0]


def test_the_worst_size_counts(reports):
    rows = bar.compute(reports)
    row = find(rows, "64 B to 4 KiB", TCP)
    assert (row.measured, row.met) == (1.04, "yes")
    assert "1 KiB" in row.detail
    assert find(rows, "64 B to 64 KiB", "shm").met == "no"
    assert find(rows, "p99 over raw p99", TCP).met == "no"
    assert find(rows, "p99 over raw p99", "shm").measured == 1.2


def test_a_bound_may_be_met_exactly(reports):
    assert find(bar.compute(reports), "1 MiB, tcp", "round trip").met == "aim"


def test_grpcs_best_server_counts(reports):
    row = find(bar.compute(reports), "gRPC", TCP)
    assert (row.measured, row.met, row.detail) == (6.5, "yes", "grpc_sync")


def test_a_warm_call_is_held_against_a_socket_that_blocks(reports):
    row = find(bar.compute(reports), "warm")
    assert (row.measured, row.met) == (1.3, "yes")


def test_a_cliff_is_what_raw_does_not_have(reports):
    rows = bar.compute(reports)
    row = find(rows, "no cliff", TCP)
    assert row.measured == pytest.approx(0.5)
    assert row.met == "yes"
    assert find(rows, "no cliff", "shm").met == "no"


def test_what_is_missing_is_never_met(reports):
    rows = bar.compute(reports)
    for words in (
        ["1 MiB, shm", "round trip"],  # a size that is missing
        ["gRPC", "shm"],  # a contender that is missing
        ["preallocated", TCP],  # a figure that is not a number
        ["preallocated", "shm"],
        ["calls per second", TCP],  # a program that is missing
        ["instructions", TCP],
        ["prestarted"],
        ["silence", "shm"],
        ["inserted peer"],
        ["per idle session"],
    ):
        assert find(rows, *words).met == "not measured", words
    assert {row.met for row in bar.compute({})} == {"not measured"}


def test_a_range_with_a_size_missing_is_not_measured(reports):
    ratios = reports["invoke_latency"]["tables"]["ratios"]
    ratios[:] = [row for row in ratios if not (row["provider"] == "shm" and row["bytes"] == 4096)]
    assert find(bar.compute(reports), "64 B to 64 KiB", "shm").met == "not measured"


def test_more_is_better_where_it_is():
    def rate(calls, api):
        return {
            "provider": TCP, "api": api, "executors": 1, "outstanding": 64, "bytes": 64, "calls_per_s": calls,
            "raw_calls_per_s": 2e6,
        }

    def compute(*calls):
        rows = [rate(count, f"api{i}") for i, count in enumerate(calls)]
        return find(bar.compute({"parallel_invocations": {"tables": {"closed_loop": rows}}}), "calls per second", TCP)

    assert compute(249_999.0).met == "no"
    assert compute(100.0, 250_000.0).met == "yes"
    assert compute(1e6, 5.0).met == "aim"
    assert "2,000,000" in compute(1e6).detail


def test_bandwidth_is_that_of_the_default_window_in_the_worst_direction():
    def row(direction, window, value):
        return {"provider": "shm", "bytes": 1 << 20, "direction": direction, "window": window, "ratio": value}

    rows = [row("request", 4, 0.99), row("response", 4, 0.96), row("response", 8, 0.5), row("request", 8, 1.0)]
    got = find(bar.compute({"bandwidth": {"tables": {"bandwidth": rows}}}), "bandwidth", "shm")
    assert (got.measured, got.met) == (0.96, "yes")


def test_instructions_have_a_bar_on_each_fabric():
    rows = bar.compute({}, {TCP: 850, "shm": 850})
    assert [find(rows, "instructions", fabric).met for fabric in (TCP, "shm")] == ["yes", "no"]
    assert find(bar.compute({}, {TCP: 400}), "instructions", TCP).met == "aim"


def test_calls_are_held_against_the_messages_of_the_raw_fabric():
    row = {"provider": "shm", "executors": 1, "outstanding": 64, "bytes": 64, "calls_per_s": 6e6, "raw_calls_per_s": 1e6}
    rows = bar.compute({"parallel_invocations": {"tables": {"closed_loop": [row]}}})
    assert find(rows, "over raw messages", "shm").met == "yes"


def test_a_lease_is_that_of_the_worst_fabric_in_milliseconds():
    totals = [
        {"provider": TCP, "executor": "native_pool", "p50_us": 5100.0},
        {"provider": "shm", "executor": "native_pool", "p50_us": 2000.0},
        {"provider": "shm", "executor": "native_fork", "p50_us": 9000.0},
    ]
    rows = bar.compute({"cold_start": {"tables": {"lease_totals": totals}}})
    pooled = find(rows, "prestarted")
    assert (pooled.measured, pooled.met, pooled.detail) == (5.1, "no", TCP)
    assert find(rows, "forked").met == "aim"


def test_silence_is_a_second_s_and_the_first_call_s():
    def call(when, pause_ms, p50):
        return {
            "provider": TCP, "subject": "invoker", "call": when, "pause_ms": pause_ms, "p50_us": p50,
            "p50_over_tcp_blocking": 2.0,
        }

    tables = {
        "latency": [call("after silence", 1000, 55.0), call("after silence", 10, 99.0), call("right behind", 1000, 99.0)],
        "idle": [{"provider": TCP, "pause_ms": 1000, "core_percent": 0.4}],
    }
    rows = bar.compute({"wake_up": {"tables": tables}})
    first = find(rows, "first call", TCP)
    assert (first.measured, first.met) == (55.0, "yes") and "2 times" in first.detail
    assert find(rows, "processor time", TCP).met == "no"


def test_sessions_are_as_many_as_the_bar_says():
    def idle(provider, count, p50, p99):
        return {"provider": provider, "idle_sessions": count, "p50_over_none": p50, "p99_over_none": p99}

    tables = {
        "idle": [idle(TCP, 0, 1.0, 1.0), idle(TCP, 800, 1.1, 2.5), idle("shm", 800, 9.0, 9.0)],
        "active": [
            {"provider": TCP, "sessions": 1, "calls_per_s": 10.0, "over_one": 1.0},
            {"provider": TCP, "sessions": 1000, "calls_per_s": 9.5, "over_one": 0.95},
        ],
    }
    rows = bar.compute({"many_sessions": {"tables": tables}})
    assert [find(rows, "idle sessions", name).met for name in ("p50", "p99")] == ["yes", "no"]
    assert (find(rows, "1,000 sessions").measured, find(rows, "1,000 sessions").met) == (0.95, "yes")
    tables["active"][1]["sessions"] = 999
    assert find(bar.compute({"many_sessions": {"tables": tables}}), "1,000 sessions").met == "not measured"


def test_large_calls_and_objects_have_bars():
    def echo(call, over):
        return {"provider": "shm", "mebibytes": 64, "call": call, "over_two_copies": over}

    rows = bar.compute(
        {
            "large_calls": {"tables": {"calls": [echo("first", 1.9), echo("best", 0.5)]}},
            "python_objects": {"tables": {"calls": [{"provider": TCP, "call": "objects", "minus_us": 6.5}]}},
        }
    )
    assert [find(rows, "64 MiB", call).met for call in ("first", "best")] == ["yes", "aim"]
    assert find(rows, "1 GiB", "first").met == "not measured"
    assert [find(rows, "small objects", fabric).met for fabric in (TCP, "shm")] == ["no", "not measured"]


def test_tails_and_neighbours_have_a_bar_on_each_fabric():
    def load(provider, percent, ratio_to_alone):
        return {"provider": provider, "load_percent": percent, "p999_over_alone_p50": ratio_to_alone, "p999_us": 1.0}

    def short(provider, beside, ratio_to_alone):
        return {"provider": provider, "tenant": "short", "beside": beside, "p99_over_alone": ratio_to_alone, "p99_us": 1.0}

    rows = bar.compute(
        {
            "tails": {"tables": {"open_loop": [load(TCP, 70, 5.0), load(TCP, 90, 99.0), load("shm", 70, 7.0)]}},
            "tenants": {"tables": {"latency": [short(TCP, "flood", 1.2), short(TCP, "all", 9.0), short("shm", "flood", 3.0)]}},
        }
    )
    assert [find(rows, "open loop", fabric).met for fabric in (TCP, "shm")] == ["yes", "no"]
    assert [find(rows, "short calls", fabric).met for fabric in (TCP, "shm")] == ["aim", "no"]


def test_memory_per_peer_is_that_of_the_largest_table_and_per_session_has_its_windows():
    tables = {
        "peers": [
            {"provider": "shm", "peers": 200, "our_bytes_per_peer": 900.0},
            {"provider": TCP, "peers": 1000000, "our_bytes_per_peer": 64.0},
        ],
        "sessions": [
            {"provider": "shm", "sessions": 50, "process": 1e6},  # not taken apart
            {"provider": TCP, "sessions": 1000, "windows": 8192.0, "ours": 4097.0, "bootstrap": 1e5},
        ],
    }
    rows = bar.compute({"peer_scale": {"tables": tables}})
    assert (find(rows, "inserted peer").measured, find(rows, "inserted peer").met) == (64, "yes")
    session = find(rows, "per idle session")
    assert (session.at_least, session.measured, session.met) == (12288, 12289, "no")


def test_recorded_instructions_are_read_by_fabric(tmp_path):
    path = tmp_path / "budget.json"
    path.write_text(json.dumps({TCP: {"instructions": 310.5, "clock_reads": 2}, "shm": {"clock_reads": 1}}))
    assert run_all.recorded_instructions(path) == {TCP: 310.5}


def test_instructions_are_none_where_none_are_recorded(tmp_path):
    assert run_all.recorded_instructions(tmp_path / "none.json") is None


def test_markdown_keeps_columns_apart():
    text = document.rows_table([{"name": "a|b", "bytes": 1048576}, {"name": "c\nd", "p50_us": 1.23456}])
    assert text.splitlines() == [
        "| name | bytes | p50_us |",
        "|---|---:|---:|",
        "| a\\|b | 1048576 | - |",
        "| c d | - | 1.235 |",
    ]


def test_conditions_are_said_once():
    one = {"conditions": {"cpu": "x", "load_before": "1"}}
    two = {"conditions": {"cpu": "x", "load_before": "2", "payload": "3"}}
    assert document.common_conditions([one, two]) == {"cpu": "x"}


def program(tmp_path, script):
    """A stand-in for a benchmark, with its --json=FILE in $json and its --plot=FILE in $plot."""
    path = tmp_path / "program"
    path.write_text(
        '#!/bin/sh\nfor a; do case $a in --json=*) json=${a#*=};; --plot=*) plot=${a#*=};; esac; done\n' + script
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_program_that_works_is_taken_in(tmp_path):
    launcher = program(tmp_path, 'echo table; echo "{\\"question\\": \\"Why?\\"}" >"$json"; echo >"$plot"\n')
    run = run_all.run_program("stages", True, tmp_path, launcher)
    assert (run.failure, run.report, run.plot) == ("", {"question": "Why?"}, "stages.svg")
    assert run.command == "bench/stages --quick"
    assert (tmp_path / "stages.txt").read_text() == "table\n"


@pytest.mark.parametrize(
    "script, failure",
    [
        ("echo no fabric >&2; exit 1\n", "exit status 1"),
        ("echo no fabric >&2; kill -9 $$\n", "killed by SIGKILL"),
        ("echo no fabric >&2\n", "it wrote no result: FileNotFoundError"),
        ('echo no fabric >&2; echo "{" >"$json"\n', "it wrote no result: JSONDecodeError"),
    ],
)
def test_a_program_that_fails_says_why_and_leaves_nothing_old(tmp_path, script, failure):
    (tmp_path / "stages.json").write_text("{}")
    (tmp_path / "stages.svg").write_text("old")
    run = run_all.run_program("stages", False, tmp_path, program(tmp_path, script))
    assert (run.failure, run.last_words, run.report, run.plot) == (failure, "no fabric", None, "")


def test_a_program_that_hangs_is_ended(tmp_path):
    run = run_all.run_program("stages", False, tmp_path, program(tmp_path, "exec cat /dev/zero >/dev/null\n"), 0.01)
    assert "had not ended" in run.failure


@pytest.mark.parametrize(
    "user, etcd, reason", [(1000, "/usr/bin/etcd", "it needs root"), (0, None, "etcd is not installed")]
)
def test_a_cluster_that_cannot_run_is_skipped_and_the_report_says_so(tmp_path, monkeypatch, capsys, user, etcd, reason):
    monkeypatch.setattr(run_all.os, "geteuid", lambda: user)
    monkeypatch.setattr(run_all.shutil, "which", lambda name: etcd)
    (tmp_path / "cluster.json").write_text("{}")
    assert run_all.main(["--only=cluster", f"--out={tmp_path}"]) == 0
    assert f"[1/1] cluster ... SKIPPED: {reason}\n" in capsys.readouterr().out
    text = (tmp_path / "report.md").read_text()
    assert f"**Skipped: cluster ({reason}).**" in text and f"**Skipped:** {reason}." in text
    everything = json.loads((tmp_path / "report.json").read_text())
    assert everything["benchmarks"][0]["skipped"] == reason and everything["benchmarks"][0]["result"] is None
    assert not (tmp_path / "cluster.json").exists()


def test_a_cluster_runs_as_root_with_etcd_and_other_programs_anywhere(monkeypatch):
    monkeypatch.setattr(run_all.shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(run_all.os, "geteuid", lambda: 0)
    assert run_all.missing("cluster") == ""
    monkeypatch.setattr(run_all.os, "geteuid", lambda: 1000)
    assert [name for name in run_all.PROGRAMS if run_all.missing(name)] == ["cluster"]


def test_the_report_has_the_bar_first_and_says_what_failed(tmp_path, reports):
    runs = [
        run_all.Run("invoke_latency", "bench/invoke_latency", report=reports["invoke_latency"] | {"question": "How?"},
                    plot="invoke_latency.svg"),
        run_all.Run("stages", "bench/stages", failure="exit status 1", last_words="no fabric"),
    ]
    run_all.write_report(runs, "bench/run_all", tmp_path, {TCP: 310})
    text = (tmp_path / "report.md").read_text()
    order = ["bench/run_all", "Failed: stages", "## The bar", "## Conditions", "## invoke_latency", "How?",
             "![invoke_latency](invoke_latency.svg)", "### ratios", "## stages", "exit status 1", "no fabric"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    everything = json.loads((tmp_path / "report.json").read_text())
    assert everything["benchmarks"][1]["failure"] == "exit status 1"
    assert everything["benchmarks"][0]["result"]["question"] == "How?"
    assert {"what", "at_least", "aim", "measured", "met"} <= set(everything["bar"][0])


def test_main_goes_on_after_a_failure(tmp_path, monkeypatch, capsys):
    def fake(name, quick, out):
        assert quick and out == tmp_path
        failure = "exit status 1" if name == "bandwidth" else ""
        return run_all.Run(name, f"bench/{name} --quick", failure=failure, report={"tables": {}})

    monkeypatch.setattr(run_all, "run_program", fake)
    assert run_all.main(["--quick", "--only=bandwidth,stages", f"--out={tmp_path}"]) == 1
    text = capsys.readouterr().out
    assert "[1/2] bandwidth" in text and "FAILED: exit status 1" in text and "[2/2] stages" in text
    assert run_all.main(["--quick", "--only=stages", f"--out={tmp_path}"]) == 0
    assert "Failed" not in (tmp_path / "report.md").read_text()


def test_an_unknown_program_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        run_all.main(["--only=nonsense"])
    assert ended.value.code == 2
    assert "invoke_latency" in capsys.readouterr().err

"""What bench/run_all computes of a cluster's results: the rest of run_all_test."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path("bench/report").resolve()))
import bar  # noqa: E402

TCP = "tcp;ofi_rxm"


def tables_of_a_cluster():
    """A cluster that meets every bar."""

    def connect(sessions, p50):
        return {"provider": TCP, "sessions": sessions, "p50_us": p50}

    def large_lease(wait_s):
        return {
            "provider": TCP, "executors": 200, "wait_s": wait_s, "refused": 0.0, "p50_us": 3e6, "ms_per_executor": 15.0
        }

    return {
        "join": [{"provider": TCP, "servers": 100, "executors": 1000, "connected_s": 20.0, "all_called_s": 30.0}],
        "death": [{"provider": TCP, "clients": 100, "p50_us": 9000.0, "max_us": 1e6}],
        "connect": [connect(1, 4000.0), connect(200, 5000.0), connect(800, 4800.0)],
        "leases": [
            {"provider": TCP, "servers": 1, "leases_per_s": 20.0},
            {"provider": TCP, "servers": 4, "leases_per_s": 18.0},
        ],
        "large_lease": [large_lease(60), large_lease(0)],
    }


# The words by which each of a cluster's rows is found.
ROWS = {
    "join": "1,000 executors",
    "death": "100 clients",
    "connect": "one more session",
    "growth": "with 800 over with 1",
    "leases": "from a pool",
    "large_lease": "200 executors, at once",
    "large_lease_in_line": "200 executors, in line",
}


def rows_of(tables):
    rows = bar.compute({"cluster": {"tables": tables}})
    found = {name: [row for row in rows if words in row.what] for name, words in ROWS.items()}
    assert all(len(few) == 1 for few in found.values()), [row.what for row in rows]
    return {name: few[0] for name, few in found.items()}


def test_a_cluster_joins_notices_deaths_connects_and_leases():
    rows = rows_of(tables_of_a_cluster())
    assert {name: (row.measured, row.unit, row.met) for name, row in rows.items()} == {
        "join": (30, "s", "yes"),
        "death": (1000, "ms", "yes"),
        "connect": (5, "ms", "yes"),
        "growth": (pytest.approx(1.2), "", "yes"),
        # Nothing is asked of these.
        "leases": (18, "/s", "no bound"),
        "large_lease": (3000, "ms", "no bound"),
        "large_lease_in_line": (3000, "ms", "no bound"),
    }
    assert "20 s" in rows["join"].detail and "9 ms" in rows["death"].detail and "with 200" in rows["connect"].detail
    assert "4 workers" in rows["leases"].detail and "15 ms" in rows["large_lease"].detail


def test_a_cluster_misses_each_bar_by_itself():
    for table, at, column, value, missed in (
        ("join", 0, "all_called_s", 30.1, {"join"}),
        ("death", 0, "max_us", 1.001e6, {"death"}),
        ("connect", 1, "p50_us", 5001.0, {"connect"}),
        ("connect", 0, "p50_us", 3900.0, {"growth"}),
    ):
        tables = tables_of_a_cluster()
        tables[table][at][column] = value
        assert {name for name, row in rows_of(tables).items() if row.met == "no"} == missed, (table, column)


@pytest.mark.parametrize(
    "table, label, value, unmeasured",
    [
        ("join", "executors", 999, {"join"}),
        ("death", "clients", 5, {"death"}),
        ("connect", "sessions", 799, {"connect", "growth"}),
        ("large_lease", "executors", 8, {"large_lease"}),
    ],
)
def test_a_cluster_is_as_large_as_the_bar_says(table, label, value, unmeasured):
    tables = tables_of_a_cluster()
    tables[table][-1][label] = value
    assert {name for name, row in rows_of(tables).items() if row.met == "not measured"} == unmeasured


def test_a_large_lease_that_is_refused_is_not_measured_and_says_so():
    tables = tables_of_a_cluster()
    for column in ("p50_us", "ms_per_executor"):
        del tables["large_lease"][-1][column]
    tables["large_lease"][-1]["refused"] = 3.0
    rows = rows_of(tables)
    assert (rows["large_lease"].met, rows["large_lease"].detail) == ("not measured", "times refused: 3")
    assert rows["large_lease_in_line"].detail == "15 ms an executor"

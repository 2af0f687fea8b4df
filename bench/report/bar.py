"""What the benchmarks' results are held against: one row for each thing asked for, with what was measured.

Reads the JSON that the programs write. A figure that is missing is said to be missing; it never counts as met.
"""

import dataclasses
import math

TCP = "tcp;ofi_rxm"
SHM = "shm"
KIB = 1024
MIB = 1024 * KIB

# How the ways of a gRPC server that busy-polls begin in "ratios".
POLLING_SERVER = "grpc_polled_queue"

# How much dearer 8 KiB may be than 4 KiB, beyond what raw writes pay, before it counts as a cliff: of our call of
# 4 KiB.
CLIFF_SHARE = 0.05


@dataclasses.dataclass
class Row:
    """A line of the table. `at_least` and `aim` bound `measured` from above, or from below if more is better."""

    what: str
    at_least: float | None
    aim: float | None
    measured: float | None
    unit: str = ""  # the unit of all three; a ratio has none
    more_is_better: bool = False
    detail: str = ""  # where the figure is from, or what belongs to it

    @property
    def met(self):
        """"aim", "yes", "no", "not measured", or "no bound" where there is nothing to hold it against."""
        if self.measured is None or not math.isfinite(self.measured):
            return "not measured"
        if self.aim is not None and self._within(self.aim):
            return "aim"
        if self.at_least is None:
            return "no bound" if self.aim is None else "no"
        return "yes" if self._within(self.at_least) else "no"

    def _within(self, bound):
        return self.measured >= bound if self.more_is_better else self.measured <= bound


class Results:
    """The programs' JSON, by program."""

    def __init__(self, reports):
        self._reports = reports

    def rows(self, program, table, **labels):
        """The rows of a table that have these labels, where a value may be a set of allowed ones."""
        report = self._reports.get(program) or {}
        result = []
        for row in report.get("tables", {}).get(table, []):
            if all(
                row.get(name) in wanted if isinstance(wanted, (set, frozenset)) else row.get(name) == wanted
                for name, wanted in labels.items()
            ):
                result.append(row)
        return result


def _numbers(rows, column):
    """(number, row) of the rows that have one."""
    result = []
    for row in rows:
        value = row.get(column)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            result.append((value, row))
    return result


def _pick(choose, rows, column):
    """The number that `choose` (min or max) takes, and its row; (None, {})."""
    return choose(_numbers(rows, column), key=lambda found: found[0], default=(None, {}))


def _size(count):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} B"


def _hot(results, provider, **labels):
    return results.rows(
        "invoke_latency", "ratios", provider=provider, mode="hot", subject="invoker", baseline="raw", **labels
    )


def _complete(rows, sizes):
    """The rows, or none of them if a size that was asked for is missing: the worst of some is not the worst of all."""
    return rows if sizes <= {row.get("bytes") for row in rows} else []


def _small_sizes(results):
    small = {64, 4 * KIB}
    rows = []
    for provider, longest, least, aim in ((TCP, 4 * KIB, 1.05, 1.02), (SHM, 64 * KIB, 1.10, 1.05)):
        found = [row for row in _hot(results, provider) if 64 <= row.get("bytes", 0) <= longest]
        worst, row = _pick(max, _complete(found, small | {longest}), "p50_ratio")
        rows.append(
            Row(
                f"hot round trip, 64 B to {_size(longest)}, {provider}, p50 over raw p50",
                least,
                aim,
                worst,
                detail=f"the worst is at {_size(row['bytes'])}" if row else "",
            )
        )
    for provider in (TCP, SHM):
        found = [row for row in _hot(results, provider) if 64 <= row.get("bytes", 0) <= 4 * KIB]
        worst, row = _pick(max, _complete(found, small), "p99_ratio")
        rows.append(
            Row(
                f"hot round trip, up to 4 KiB, {provider}, p99 over raw p99",
                1.25,
                1.1,
                worst,
                detail=f"the worst is at {_size(row['bytes'])}" if row else "",
            )
        )
    return rows


def _large_sizes(results):
    rows = []
    for provider, sizes in ((TCP, (64 * KIB, MIB)), (SHM, (MIB,))):
        for size in sizes:
            measured, _ = _pick(max, _hot(results, provider, bytes=size), "p50_ratio")
            rows.append(
                Row(f"hot round trip, {_size(size)}, {provider}, p50 over raw p50", 1.10, 1.02, measured)
            )
    return rows


def _grpc(results):
    rows = []
    for provider, least, aim in ((TCP, 6, 10), (SHM, 40, 60)):
        found = results.rows(
            "invoke_latency", "ratios", provider=provider, mode="grpc", baseline="invoker", bytes=64
        )
        # gRPC's best way is the one that takes the least. The bar is about the servers that gRPC
        # offers; one that busy-polls its completion queue is the benchmark's own, and told beside.
        spinning = [row for row in found if str(row.get("subject", "")).startswith(POLLING_SERVER)]
        measured, row = _pick(min, [row for row in found if row not in spinning], "p50_ratio")
        polled, _ = _pick(min, spinning, "p50_ratio")
        beside = "" if polled is None else f"; {polled:.1f} against a server that busy-polls"
        rows.append(
            Row(
                f"gRPC's best round trip over ours, 64 B, {provider}, p50",
                least,
                aim,
                measured,
                more_is_better=True,
                detail=str(row.get("subject", "")) + beside if row else "",
            )
        )
    return rows


def _cliff(results):
    rows = []
    for provider in (TCP, SHM):
        medians = {}
        for subject in ("invoker", "raw"):
            for size in (4 * KIB, 8 * KIB):
                found = results.rows(
                    "invoke_latency", "latency", provider=provider, mode="hot", subject=subject, bytes=size
                )
                medians[subject, size], _ = _pick(max, found, "p50_us")
        measured = least = None
        if None not in medians.values():
            measured = (medians["invoker", 8 * KIB] - medians["invoker", 4 * KIB]) - (
                medians["raw", 8 * KIB] - medians["raw", 4 * KIB]
            )
            least = CLIFF_SHARE * medians["invoker", 4 * KIB]
        rows.append(
            Row(
                f"no cliff: our 8 KiB less our 4 KiB, less the same of raw, {provider}, p50",
                least,
                None,
                measured,
                unit="us",
                detail=f"none visible: up to {CLIFF_SHARE:.0%} of our 4 KiB call",
            )
        )
    return rows


def _rate(results):
    rows = []
    for provider, least, aim in ((TCP, 250e3, 1e6), (SHM, 1e6, 3e6)):
        found = results.rows(
            "parallel_invocations", "closed_loop", provider=provider, executors=1, outstanding=64, bytes=64
        )
        measured, row = _pick(max, found, "calls_per_s")
        raw = row.get("raw_calls_per_s")
        rows.append(
            Row(
                f"calls per second, 64 outstanding, 64 B, one client and one executor core, {provider}",
                least,
                aim,
                measured,
                unit="/s",
                more_is_better=True,
                detail=(
                    f"by {row.get('api', '?')}, with room for 64 B asked for; the raw fabric: {number(raw)} /s"
                    if row
                    else ""
                ),
            )
        )
    return rows


def _bandwidth(results):
    rows = []
    for provider in (TCP, SHM):
        found = results.rows("bandwidth", "bandwidth", provider=provider, bytes=MIB)
        # The default window, which is the least that is measured: what a user gets.
        window = min((row["window"] for row in found if "window" in row), default=None)
        found = [row for row in found if row.get("window") == window]
        measured, row = _pick(min, found, "ratio")
        rows.append(
            Row(
                f"1 MiB bandwidth over raw write bandwidth, {provider}",
                0.95,
                0.99,
                measured,
                more_is_better=True,
                detail=f"the worst direction: {row.get('direction')}" if row else "",
            )
        )
    return rows


def _warm(results):
    found = results.rows(
        "invoke_latency", "ratios", provider=TCP, mode="warm", subject="invoker", baseline="tcp_blocking", bytes=64
    )
    measured, _ = _pick(max, found, "p50_ratio")
    return [Row(f"warm round trip over a blocking TCP socket's, 64 B, {TCP}, p50", 1.5, 1.2, measured)]


def _python(results):
    rows = []
    for provider in (TCP, SHM):
        found = results.rows("python_overhead", "overhead", provider=provider, api="call_out", bytes=64)
        measured, _ = _pick(max, found, "minus_us")
        rows.append(
            Row(
                f"Python's .call into a preallocated buffer less C++, 64 B, {provider}, p50",
                2,
                1,
                measured,
                unit="us",
            )
        )
    return rows


def _python_rates(results):
    rows = []
    for what, api, column, bounds in (
        ("Python's `map`, calls/s", "rate_map", "calls_per_s", {SHM: (250e3, 500e3)}),
        (
            "Python's `submit`, 64 at a time, calls/s",
            "rate_submit_64",
            "calls_per_s",
            {SHM: (200e3, 400e3), TCP: (150e3, 400e3)},
        ),
        ("Python's `submit().result()` less a blocking call, p50", "rate_submit", "minus_us", {SHM: (8, 3), TCP: (8, 3)}),
        ("asyncio, 64 gathered, calls/s", "rate_gather_64", "calls_per_s", {SHM: (120e3, 250e3)}),
        ("asyncio, one `acall` less a blocking call, p50", "rate_acall", "minus_us", {SHM: (15, 8), TCP: (15, 8)}),
    ):
        for provider, (least, aim) in bounds.items():
            measured, _ = _pick(max, results.rows("python_rates", "rates", provider=provider, api=api), column)
            rate = column == "calls_per_s"
            unit = "" if rate else "us"
            rows.append(Row(f"{what}, {provider}", least, aim, measured, unit=unit, more_is_better=rate))
    return rows


def _instructions(counts):
    """`counts`: of each fabric, what tests/budget has recorded."""
    return [
        Row(
            f"instructions of ours per hot call, both ends together, without libfabric, {provider}",
            least,
            400,
            (counts or {}).get(provider),
            detail="recorded by tests/budget",
        )
        for provider, least in ((TCP, 900), (SHM, 800))
    ]


def _outstanding(results):
    rows = []
    for provider, least in ((TCP, 8), (SHM, 6)):
        found = results.rows(
            "parallel_invocations", "closed_loop", provider=provider, executors=1, outstanding=64, bytes=64
        )
        calls, row = _pick(max, found, "calls_per_s")
        raw = row.get("raw_calls_per_s")
        measured = calls / raw if calls and raw else None
        rows.append(
            Row(
                f"64 B, 64 outstanding, calls/s over raw messages/s, {provider}",
                least,
                None,
                measured,
                more_is_better=True,
            )
        )
    return rows


def _lease(results):
    rows = []
    for what, executor, least, aim in (
        ("lease of a prestarted executor", "native_pool", 5, 3),
        ("lease of an executor that is forked for it", "native_fork", 20, 10),
    ):
        # The worst fabric counts.
        measured, row = _pick(max, results.rows("cold_start", "lease_totals", executor=executor), "p50_us")
        rows.append(
            Row(
                f"{what}, to its first result, p50",
                least,
                aim,
                None if measured is None else measured / 1000,
                unit="ms",
                detail=row.get("provider", ""),
            )
        )
    return rows


def _silence(results):
    rows = []
    for provider, aim in ((TCP, 25), (SHM, 15)):
        found = results.rows(
            "wake_up", "latency", provider=provider, subject="invoker", pause_ms=1000, call="after silence"
        )
        measured, row = _pick(max, found, "p50_us")
        ratio = row.get("p50_over_tcp_blocking")
        beside = f"{number(ratio)} times a blocking TCP socket's, which this machine wakes as well" if ratio else ""
        rows.append(
            Row(
                f"first call after 1 s of silence to a sleeping executor, {provider}, p50",
                60,
                aim,
                measured,
                unit="us",
                detail=beside,
            )
        )
    for provider in (TCP, SHM):
        measured, _ = _pick(max, results.rows("wake_up", "idle", provider=provider, pause_ms=1000), "core_percent")
        rows.append(
            Row(f"processor time of an idle executor's server, {provider}", 0.3, None, measured, unit="% of a core")
        )
    return rows


def _memory(results):
    # What does not grow with the number of peers counts for least where there are most.
    _, most = _pick(max, results.rows("peer_scale", "peers"), "peers")
    per_peer, row = _pick(
        max, results.rows("peer_scale", "peers", peers=most["peers"]) if most else [], "our_bytes_per_peer"
    )
    rows = [
        Row(
            "memory of ours per inserted peer",
            64,
            None,
            per_peer,
            unit="B",
            detail=f"with {row['peers']:,} peers, {row['provider']}" if row else "",
        )
    ]
    ours, row = _pick(max, results.rows("peer_scale", "sessions"), "ours")
    windows = row.get("windows")
    rows.append(
        Row(
            "memory of ours per idle session: its windows and 4 KiB",
            None if windows is None else windows + 4 * KIB,
            None,
            None if windows is None else windows + ours,
            unit="B",
            detail=f"besides: the bootstrap's connection {number(row.get('bootstrap'), 'B')}, the provider's "
            f"{number(row.get('provider_connection'), 'B')}, {row.get('provider')}"
            if row
            else "",
        )
    )
    return rows


def compute(reports, instructions=None):
    """The rows. `reports`: each program's JSON; `instructions`: counts per hot call, by fabric, if they are known."""
    results = Results(reports)
    return [
        *_small_sizes(results),
        *_large_sizes(results),
        *_grpc(results),
        *_cliff(results),
        *_rate(results),
        *_bandwidth(results),
        *_warm(results),
        *_python(results),
        *_python_rates(results),
        *_outstanding(results),
        *_lease(results),
        *_silence(results),
        *_instructions(instructions),
        *_memory(results),
    ]


def number(value, unit=""):
    """About four digits that count, for people; "-" for none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return "-"
    size = abs(value)
    if size >= 10000:
        text = f"{value:,.0f}"
    elif value == int(value):
        text = f"{value:.0f}"
    elif size >= 1000:
        text = f"{value:.1f}"
    elif size >= 10:
        text = f"{value:.2f}"
    elif size >= 0.1:
        text = f"{value:.3f}"
    else:
        text = f"{value:.3g}"
    return f"{text} {unit}" if unit else text

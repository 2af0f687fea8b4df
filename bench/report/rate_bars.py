"""How many calls and bytes a second there are to be."""

from results import MIB, SHM, TCP, Row, number, pick


def _rate(results):
    rows = []
    for provider, least, aim in ((TCP, 250e3, 1e6), (SHM, 1e6, 3e6)):
        found = results.rows(
            "parallel_invocations", "closed_loop", provider=provider, executors=1, outstanding=64, bytes=64
        )
        measured, row = pick(max, found, "calls_per_s")
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
        measured, row = pick(min, found, "ratio")
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


def _outstanding(results):
    rows = []
    for provider, least in ((TCP, 8), (SHM, 6)):
        found = results.rows(
            "parallel_invocations", "closed_loop", provider=provider, executors=1, outstanding=64, bytes=64
        )
        calls, row = pick(max, found, "calls_per_s")
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


def _python(results):
    rows = []
    for provider in (TCP, SHM):
        found = results.rows("python_overhead", "overhead", provider=provider, api="call_out", bytes=64)
        measured, _ = pick(max, found, "minus_us")
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
            measured, _ = pick(max, results.rows("python_rates", "rates", provider=provider, api=api), column)
            rate = column == "calls_per_s"
            unit = "" if rate else "us"
            rows.append(Row(f"{what}, {provider}", least, aim, measured, unit=unit, more_is_better=rate))
    return rows


def _python_objects(results):
    rows = []
    for provider in (TCP, SHM):
        measured, _ = pick(max, results.rows("python_objects", "calls", provider=provider, call="objects"), "minus_us")
        rows.append(
            Row(f"Python function of small objects less one of bytes, p50, {provider}", 6, 3, measured, unit="us")
        )
    return rows


def _large_calls(results):
    rows = []
    for mebibytes, what in ((64, "64 MiB"), (1024, "1 GiB")):
        for call, least, aim in (("first", 2, 1.2), ("best", 1, 0.6)):
            found = results.rows("large_calls", "calls", provider=SHM, mebibytes=mebibytes, call=call)
            measured, _ = pick(max, found, "over_two_copies")
            rows.append(
                Row(f"echo of {what} from Python, {SHM}, over two copies into new memory: {call} call", least, aim, measured)
            )
    return rows


def rows(results):
    """The rows for the programs' results."""
    return [
        *_rate(results),
        *_bandwidth(results),
        *_outstanding(results),
        *_python(results),
        *_python_rates(results),
        *_python_objects(results),
        *_large_calls(results),
    ]

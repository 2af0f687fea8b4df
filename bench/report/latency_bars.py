"""How long a call may take."""

from results import KIB, MIB, SHM, TCP, Row, number, pick, size_name

# How the ways of a gRPC server that busy-polls begin in "ratios".
POLLING_SERVER = "grpc_polled_queue"

# How much dearer 8 KiB may be than 4 KiB, beyond what raw writes pay, before it counts as a cliff: of our call of
# 4 KiB.
CLIFF_SHARE = 0.05


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
        worst, row = pick(max, _complete(found, small | {longest}), "p50_ratio")
        rows.append(
            Row(
                f"hot round trip, 64 B to {size_name(longest)}, {provider}, p50 over raw p50",
                least,
                aim,
                worst,
                detail=f"the worst is at {size_name(row['bytes'])}" if row else "",
            )
        )
    for provider in (TCP, SHM):
        found = [row for row in _hot(results, provider) if 64 <= row.get("bytes", 0) <= 4 * KIB]
        worst, row = pick(max, _complete(found, small), "p99_ratio")
        rows.append(
            Row(
                f"hot round trip, up to 4 KiB, {provider}, p99 over raw p99",
                1.25,
                1.1,
                worst,
                detail=f"the worst is at {size_name(row['bytes'])}" if row else "",
            )
        )
    return rows


def _large_sizes(results):
    rows = []
    for provider, sizes in ((TCP, (64 * KIB, MIB)), (SHM, (MIB,))):
        for size in sizes:
            measured, _ = pick(max, _hot(results, provider, bytes=size), "p50_ratio")
            rows.append(
                Row(f"hot round trip, {size_name(size)}, {provider}, p50 over raw p50", 1.10, 1.02, measured)
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
        measured, row = pick(min, [row for row in found if row not in spinning], "p50_ratio")
        polled, _ = pick(min, spinning, "p50_ratio")
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
                medians[subject, size], _ = pick(max, found, "p50_us")
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


def _warm(results):
    found = results.rows(
        "invoke_latency", "ratios", provider=TCP, mode="warm", subject="invoker", baseline="tcp_blocking", bytes=64
    )
    measured, _ = pick(max, found, "p50_ratio")
    return [Row(f"warm round trip over a blocking TCP socket's, 64 B, {TCP}, p50", 1.5, 1.2, measured)]


def _silence(results):
    rows = []
    for provider, aim in ((TCP, 25), (SHM, 15)):
        found = results.rows(
            "wake_up", "latency", provider=provider, subject="invoker", pause_ms=1000, call="after silence"
        )
        measured, row = pick(max, found, "p50_us")
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
        measured, _ = pick(max, results.rows("wake_up", "idle", provider=provider, pause_ms=1000), "core_percent")
        rows.append(
            Row(f"processor time of an idle executor's server, {provider}", 0.3, None, measured, unit="% of a core")
        )
    return rows


def _typed(results):
    rows = []
    for language, least in (("C++", 100), ("Python", 2000)):
        for provider in (TCP, SHM):
            # A larger call's own spread is more than the bar: 1 % of a round trip of 64 KiB.
            found = [
                row
                for row in results.rows("typed_calls", "overhead", provider=provider, language=language)
                if row.get("bytes", 0) <= 4 * KIB
            ]
            worst, row = pick(max, _complete(found, {64, 4 * KIB}), "more_ns")
            rows.append(
                Row(
                    f"typed call of two arrays, up to 4 KiB, less one of the same bytes, {language}, {provider}, p50",
                    least,
                    None,
                    worst,
                    unit="ns",
                    detail=f"the worst is at {size_name(row['bytes'])}" if row else "",
                )
            )
    return rows


def _beside_waiting(results):
    rows = []
    for provider in (TCP, SHM):
        found = results.rows("slow_neighbours", "latency", provider=provider, echo="64 wait")
        worst, _ = pick(max, found, "p99_over_alone")
        rows.append(
            Row(f"echo beside 64 calls that wait on its executor, over alone, {provider}, p99", 2, None, worst)
        )
    return rows


def rows(results):
    """The rows for the programs' results."""
    return [
        *_small_sizes(results),
        *_large_sizes(results),
        *_grpc(results),
        *_cliff(results),
        *_warm(results),
        *_silence(results),
        *_typed(results),
        *_beside_waiting(results),
    ]

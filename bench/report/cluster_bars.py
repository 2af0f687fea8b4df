"""How fast a cluster is to grow, to notice deaths, to connect and to give leases."""

from results import TCP, Row, number, numbers, pick

# Connecting grows if it takes more than this many times as long with 800 sessions as with 1. The bar of a call beside
# 800 idle sessions is the same.
GROWTH = 1.2
SESSIONS = (1, 200, 800)


def _scaled(value, divisor):
    return None if value is None else value / divisor


def _join(results):
    measured, row = pick(max, results.rows("cluster", "join", provider=TCP, executors=1000), "all_called_s")
    return [
        Row(
            f"1,000 executors, from the start of the first worker until one client has called all, {TCP}",
            30,
            None,
            measured,
            unit="s",
            detail=f"{row['servers']} workers; connected after {number(row.get('connected_s'), 's')}" if row else "",
        )
    ]


def _death(results):
    measured, row = pick(max, results.rows("cluster", "death", provider=TCP, clients=100), "max_us")
    return [
        Row(
            f"100 clients learn that their worker was killed, the last one, {TCP}",
            1000,
            None,
            _scaled(measured, 1000),
            unit="ms",
            detail=f"p50 {number(_scaled(row.get('p50_us'), 1000), 'ms')}" if row else "",
        )
    ]


def _connect(results):
    medians = {
        count: pick(max, results.rows("cluster", "connect", provider=TCP, sessions=count), "p50_us")[0]
        for count in SESSIONS
    }
    whole = None not in medians.values()
    worst = max(medians, key=medians.get) if whole else None
    few, many = medians[SESSIONS[0]], medians[SESSIONS[-1]]
    return [
        Row(
            f"one more session with a worker that has up to 800, {TCP}, p50",
            5,
            None,
            _scaled(medians.get(worst), 1000),
            unit="ms",
            detail=f"the worst is with {worst}" if whole else "",
        ),
        Row(
            f"the same with 800 over with 1, {TCP}, p50",
            GROWTH,
            None,
            many / few if many and few else None,
            detail=f"up to {GROWTH} counts as no growth",
        ),
    ]


def _leases(results):
    slowest, row = pick(min, results.rows("cluster", "leases", provider=TCP), "leases_per_s")
    return [
        Row(
            f"leases of one executor from a pool and their return, one after the other, {TCP}",
            None,
            None,
            slowest,
            unit="/s",
            more_is_better=True,
            detail=f"the fewest are with {row['servers']} workers" if row else "",
        )
    ]


def _large_lease(results):
    rows = []
    for way, wait_s in (("at once", 0), ("in line for a minute at most", 60)):
        found = results.rows("cluster", "large_lease", provider=TCP, executors=200, wait_s=wait_s)
        took, row = pick(max, found, "p50_us")
        refused = sum(value for value, _ in numbers(found, "refused"))
        details = [f"{number(row.get('ms_per_executor'), 'ms')} an executor"] if row else []
        details += [f"times refused: {number(refused)}"] if refused else []
        rows.append(
            Row(
                f"one lease of 200 executors, {way}, until each has started and has a session, {TCP}",
                None,
                None,
                _scaled(took, 1000),
                unit="ms",
                detail=", ".join(details),
            )
        )
    return rows


def rows(results):
    """The rows for the programs' results."""
    return [
        *_join(results),
        *_death(results),
        *_connect(results),
        *_leases(results),
        *_large_lease(results),
    ]

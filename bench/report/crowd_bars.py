"""What calls may take beside other calls, sessions and clients."""

from results import SHM, TCP, Row, number, pick


def _idle_sessions(results):
    found = results.rows("many_sessions", "idle", provider=TCP, idle_sessions=800)
    return [
        Row(f"a call beside 800 idle sessions over one beside none, {TCP}, {name}", least, aim, pick(max, found, column)[0])
        for name, column, least, aim in (("p50", "p50_over_none", 1.2, 1.05), ("p99", "p99_over_none", 2, 1.2))
    ]


def _active_sessions(results):
    found = results.rows("many_sessions", "active", provider=TCP, sessions=1000)
    measured, row = pick(max, found, "over_one")
    return [
        Row(
            f"1,000 sessions of one client, a call at a time each: calls/s over one session's, {TCP}",
            0.9,
            1.0,
            measured,
            more_is_better=True,
            detail=f"{number(row.get('calls_per_s'))} /s" if row else "",
        )
    ]


def _tails(results):
    rows = []
    for provider in (TCP, SHM):
        found = results.rows("tails", "open_loop", provider=provider, load_percent=70)
        measured, row = pick(max, found, "p999_over_alone_p50")
        rows.append(
            Row(
                f"open loop at 70 % of the most that it can do, {provider}: p99.9 over the p50 of a call alone",
                6,
                4,
                measured,
                detail=f"{number(row.get('p999_us'))} us" if row else "",
            )
        )
    return rows


def _tenants(results):
    rows = []
    for provider in (TCP, SHM):
        found = results.rows("tenants", "latency", provider=provider, tenant="short", beside="flood")
        measured, row = pick(max, found, "p99_over_alone")
        rows.append(
            Row(
                f"one client's short calls beside another's 100 at a time, {provider}: p99 over p99 alone",
                2,
                1.3,
                measured,
                detail=f"{number(row.get('p99_us'))} us" if row else "",
            )
        )
    return rows


def rows(results):
    """The rows for the programs' results."""
    return [
        *_idle_sessions(results),
        *_active_sessions(results),
        *_tails(results),
        *_tenants(results),
    ]

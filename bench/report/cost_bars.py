"""What a lease, a call and a peer may cost."""

from results import KIB, SHM, TCP, Row, number, pick


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


def _lease(results):
    rows = []
    for what, executor, least, aim in (
        ("lease of a prestarted executor", "native_pool", 5, 3),
        ("lease of an executor that is forked for it", "native_fork", 20, 10),
    ):
        # The worst fabric counts.
        measured, row = pick(max, results.rows("cold_start", "lease_totals", executor=executor), "p50_us")
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


def _memory(results):
    # What does not grow with the number of peers counts for least where there are most.
    _, most = pick(max, results.rows("peer_scale", "peers"), "peers")
    per_peer, row = pick(
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
    ours, row = pick(max, results.rows("peer_scale", "sessions"), "ours")
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


def rows(results, instructions):
    """The rows for the programs' results and for instructions per hot call by fabric, or None."""
    return [
        *_lease(results),
        *_instructions(instructions),
        *_memory(results),
    ]

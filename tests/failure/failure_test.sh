#!/usr/bin/env bash
# Runs the failure report with fewer calls, and with peers that are patient: what the machine does beside is not to look like a
# failure, and how long it took is not judged. Without the right to make network namespaces, no network is cut.
set -euo pipefail
options=(--outstanding=64 --peer_timeout=5s "$@")
if ! unshare --net true 2>/dev/null; then
  echo 'no network namespace can be made here (this needs root): networks are not cut'
  options+=(--no_network)
fi
tests/failure/failure_report "${options[@]}" '--provider=tcp;ofi_rxm'
# A process that is killed while it posts over shm may hold the lock of the other's queue, for which libfabric 1.17 then waits for
# ever (docs/providers.md, "Traps").
exec tests/failure/failure_report "${options[@]}" --provider=shm --between_posts

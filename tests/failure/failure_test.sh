#!/usr/bin/env bash
# Runs the failure report with fewer calls, and with peers that are patient: what the machine does beside is not to look like a
# failure. How long it took is judged as patiently: sooner than a provider would have noticed by itself, and further calls have
# not waited for a peer to be given up again. Without the right to make network namespaces, no network is cut.
set -euo pipefail
options=(--outstanding=64 --peer-timeout=5s --within=25s --next-within=4s --others-within=25s "$@")
if ! unshare --net true 2>/dev/null; then
  echo 'no network namespace can be made here (this needs root): networks are not cut'
  options+=(--no-network)
fi
exec tests/failure/failure_report "${options[@]}"

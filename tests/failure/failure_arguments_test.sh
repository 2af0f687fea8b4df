#!/usr/bin/env bash
# A failure that was asked for by its name and can be done nowhere is an error, and not a report without it.
set -uo pipefail
status=0

refuses() {
  local named=$1
  shift
  said=$(tests/failure/failure_report "$@" 2>&1)
  local code=$?
  if [ "$code" -ne 2 ] || [[ $said != *"$named cannot be done on "* ]]; then
    printf 'failure_report %s: status %d, and said:\n%s\n' "$*" "$code" "$said"
    status=1
  fi
}

refuses cable_pulled --no-network --failure=cable_pulled
refuses 'packets_dropped, fabric_cut' --no-network --failure=fabric_cut,server_killed,packets_dropped
refuses fabric_cut --provider=shm --failure=fabric_cut
refuses fabric_cut_busy --soft-roce --failure=fabric_cut_busy
exit $status

#!/usr/bin/env bash
# The failure report in the machine of tools/soft_roce: workers at one end of its cable, clients at the other. Runs there, as
# root, in the directory of the report's run files.
#
# usage: soft_roce.sh report [OPTION...]     runs the report, with options of its own
#        soft_roce.sh cut|mend FAILURE       what the report calls to cut the cable, and to mend it
set -euo pipefail

worker=10.9.0.1
client=10.9.0.2
# Of no interface: whoever gets a frame for it drops it.
nobody=02:00:00:00:00:99

case "${1:-} ${2:-}" in
  "report "*)
    shift
    # The bootstrap's connections to the worker's end leave by the cable, too. (The fabric's do, since they are bound.)
    ip -4 rule add pref 9 iif lo to $worker ipproto tcp lookup 101
    status=0
    tests/failure/failure_report --no_network --provider='verbs;ofi_rxm' --label='verbs;ofi_rxm (Soft-RoCE)' \
      --fabric_address=$worker --client_address=$client --cutter="$0" "$@" || status=$?
    ip -4 rule del pref 9
    exit "$status"
    ;;
  "cut packets_dropped")
    ip neighbour replace $worker lladdr $nobody nud permanent dev v1
    ip neighbour replace $client lladdr $nobody nud permanent dev v0
    ;;
  "mend packets_dropped")
    ip neighbour del $worker dev v1
    ip neighbour del $client dev v0
    ;;
  "cut "?*) ip link set v0 down ;;
  "mend "?*)
    ip link set v0 up
    # The kernel has removed it with the link.
    ip -4 route replace 10.9.0.0/24 dev v0 table 100
    ;;
  *) printf 'soft_roce.sh: wrong arguments: %s\n' "$*" >&2; exit 2 ;;
esac

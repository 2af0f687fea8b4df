#!/bin/bash
# libfabric's own fi_info and fi_pingpong on the card: two processes, every size up to a mebibyte and
# beyond, with the data checked.

set -euo pipefail

run=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run

found=$("$run" fi_info -p efa)
grep -q 'type: FI_EP_RDM' <<<"$found"
grep -q 'type: FI_EP_DGRAM' <<<"$found"

# fi_pingpong takes no port from the kernel. Every pair has a network of its own, where no port is taken.
network=(unshare --net)
((EUID == 0)) || network+=(--map-root-user)

if ! "${network[@]}" true 2>/dev/null; then
  echo 'NOT TESTED: this system permits no network namespace'
  exit 0
fi

# Runs within `run`: a server, and a client once the server listens on the port.
pingpong() {
  local port=47592
  ip link set lo up
  fi_pingpong -p efa -B "$port" -c -I 20 -S all "$@" >/dev/null &
  local server=$!
  until [[ -n $(ss -Hltn "sport = :$port") ]]; do
    kill -0 "$server"
    sleep 0.05
  done
  fi_pingpong -p efa -P "$port" -c -I 20 -S all "$@" 127.0.0.1
  wait "$server"
}
export -f pingpong

for shm in 0 1; do
  for generation in efa0 efa1 efa2; do
    echo "generation $generation, shm $shm"
    FI_EFA_ENABLE_SHM_TRANSFER=$shm INVOKER_EFA_DEVICE_GENERATION=$generation \
      "$run" "${network[@]}" bash -euc "pingpong -e rdm"
  done
done
"$run" "${network[@]}" bash -euc "pingpong -e dgram"

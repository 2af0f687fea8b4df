#!/bin/bash
# A server on one host of the card's network calls for a Python client on another: each host is a
# network namespace of its own.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export root
namespace=(unshare --net)
((EUID == 0)) || namespace+=(--map-root-user)

if ! "${namespace[@]}" true 2>/dev/null; then
  echo 'NOT TESTED: this system permits no network namespace'
  exit 0
fi

# Runs within `run`, in a namespace of its own: the server's host.
two_hosts() {
  unshare --net sleep infinity &
  local other=$!
  trap 'kill $(jobs -p)' EXIT
  until [[ $(readlink "/proc/$other/ns/net") != "$(readlink /proc/self/ns/net)" ]]; do
    kill -0 "$other"
    sleep 0.01
  done
  local there=(nsenter --target "$other" --net)
  ip link add here type veth peer name there netns "$other"
  ip addr add 10.77.0.1/24 dev here
  ip link set here up
  "${there[@]}" ip addr add 10.77.0.2/24 dev there
  "${there[@]}" ip link set there up

  local fabrics
  fabrics=$("$root/tools/invoker" fabrics --verify --provider=efa)
  tr -s ' \n' ' ' <<<"$fabrics" | grep -q 'observed immediates cross; send-after-write crosses; [48] bytes of immediate'

  # The server's only line of output says where it is.
  local out
  exec {out}< <(exec "$root/tools/invoker_server" --listen=10.77.0.1:0 --allow-plaintext \
    --provider=efa --functions="$root/tests/functions/test_functions.so")
  local server=$! ready
  read -r ready <&"$out"
  local address=${ready#*\"listen\":\"}
  address=${address%%\"*}

  "${there[@]}" env PYTHONPATH="$root/src/python" /usr/bin/python3 - "$address" <<'END'
import sys

import invoker

with invoker.connect(sys.argv[1], provider="efa", plaintext=True) as client:
    for size in (0, 1, 5000, 1_000_000):
        text = bytes(i % 251 for i in range(size))
        assert bytes(client.call("test.echo", text)) == text, size
print("answered, from", sys.argv[1])
END
  kill "$server"
  wait "$server"
}
export -f two_hosts

for generation in efa0 efa1 efa2; do
  echo "generation $generation"
  INVOKER_EFA_DEVICE_GENERATION=$generation "$here/run" "${namespace[@]}" bash -euc two_hosts
done

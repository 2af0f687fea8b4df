#!/usr/bin/env bash
# What tools/soft_roce runs in its machine by default: shows the fabric, runs the conformance suite on it, leases with it,
# and makes thumbnails on a worker, over the cable between the two devices: on a shared executor and on leased ones; has
# the kernel limit executors' memory; and breaks a worker, an executor and the cable with calls under way. No environment
# variable of libfabric is set here.
#
# usage: guest.sh [--binaries=DIR] [--suite-filter=PATTERN] [--suite-limit=SECONDS] [--scale=PERCENT]
#
# DIR holds what Bazel built: bazel-bin, or a test's run files. With a filter, the suite runs once, and shows what it
# prints; without, it runs in parts, two side by side, and once more over IPv6. Leaves suite.xml and
# thumbnail_soft_roce.jpg in $OUTPUT.
set -uo pipefail

fabric='verbs;ofi_rxm'
worker_address=10.9.0.1
worker_address6=fd09::1
client_address=10.9.0.2
patience=120  # seconds for each step of connecting: the emulated processor may have to wait for a real one
# What docs/reference/fabrics.md says of the fabric; the suite compares.
expect=notification=write_imm,order=pipelined,atomics=message,wait=fd,keys=provider/4,immediate=4,addressing=virtual
expect+=,local=1,eager=1
photograph=/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg
binaries=bazel-bin
filter=
limit=1200
scale=5
for argument in "$@"; do
  case $argument in
    --binaries=*) binaries=${argument#*=} ;;
    --suite-filter=*) filter=${argument#*=} ;;
    --suite-limit=*) limit=${argument#*=} ;;
    --scale=*) scale=${argument#*=} ;;
    *) printf 'guest.sh: unknown argument: %s\n' "$argument" >&2; exit 2 ;;
  esac
done
server=$binaries/tools/invoker_server
client=$binaries/tools/invoker
library=$binaries/examples/functions/libexample_functions.so
suite=$binaries/tests/conformance/suite
package=$binaries/src/python/invoker
rfaas_library=$binaries/examples/rfaas/librfaas_thumbnailer.so
groups_test=tests/isolation/control_group_test
failures=tests/failure/failure_report
for program in "$server" "$client" "$library" "$suite" "$package" "$rfaas_library" "$binaries/$groups_test" \
  "$binaries/$failures"; do
  if [ ! -e "$program" ]; then
    printf 'guest.sh: %s is not there. Build first: bazel build //tests/soft_roce/...\n' "$program" >&2
    exit 1
  fi
done

problems=()
problem() {
  printf 'FAILED: %s\n' "$*"
  problems+=("$*")
}
heading() {
  printf '\n== %s (%s s after the start)\n' "$1" "$(cut -d. -f1 /proc/uptime)"
}
# The packets that have left by the cable. Each device counts its own.
packets_sent() {
  cat "/sys/class/net/v$1/statistics/tx_packets"
}

# Objects of the devices that belong to no process that lives, and not to the kernel itself.
left_behind() {
  local kind
  for kind in pd cq qp mr; do
    rdma resource show "$kind" | grep -v -e ' pid ' -e ' comm \['
  done
}

# Nothing tells of the end of the kernel's objects: looks again until they have gone.
nothing_is_left() {
  for ((look = 0; look < 20; ++look)); do
    [ -n "$(left_behind)" ] || return
    sleep 1
  done
  problem "$1 left in the kernel:" "$(left_behind)"
}

heading "$fabric on $(uname -sr)"
ibv_devinfo -v | grep -E 'hca_id|transport:|state:|active_mtu|link_layer|max_cqe:|GID'
fi_info -p "$fabric" | sed -n 's/^ *\(domain\|fabric\|version\|protocol\): /\1 /p' | sort | uniq -c ||
  problem "fi_info lists no $fabric"

# Like in tests/conformance/fabrics.bzl: what cannot be brought about.
placed_whole='both sides are the same kernel, which places all of a write before either process has seen any of it'
limits="LateFence.TheRestOfAWriteLandsInNobodysMemory: $placed_whole; LateFence.TheRestOfAWriteToAPeerIsOfNobodyElse: $placed_whole, whether or not the peer runs"

# Runs the suite at one address with one filter. Leaves /tmp/NAME.log, and the results in /tmp/NAME.xml, or none if the
# suite did not end by itself.
conformance() {
  local name=$1 address=$2 label=$3 tests=$4
  INVOKER_TEST_FABRIC=$fabric INVOKER_TEST_ADDRESS=$address INVOKER_TEST_LABEL=$label INVOKER_TEST_SCALE=$scale \
    INVOKER_TEST_EXPECT=$expect INVOKER_TEST_LIMITS=$limits timeout --kill-after=5 "$limit" "$suite" --gtest_filter="$tests" --gtest_color=no \
    --gtest_output="xml:/tmp/$name.xml" 2>&1 | tee "/tmp/$name.log"
  return "${PIPESTATUS[0]}"
}
# The suite's end, in words: $1 its status, $2 the name that conformance() was given.
judge() {
  if [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
    problem "the conformance suite ($2): it did not end within $limit seconds; the last test that it began:" \
      "$(grep '^\[ RUN' "/tmp/$2.log" | tail -n 1)"
  elif [ "$1" -ne 0 ]; then
    problem "the conformance suite ($2), with status $1"
  fi
}

heading "The conformance suite on $fabric"
names=()
if [ -n "$filter" ]; then
  names=(chosen)
  conformance chosen $worker_address "$fabric (Soft-RoCE)" "$filter"
  judge $? chosen
else
  names=(transport calls leases ipv6)
  calls='*Calls.*:*Clients.*:*Loss.*'
  leases='*Leases.*'
  {
    conformance calls $worker_address "$fabric (Soft-RoCE)" "$calls"
    echo $? >/tmp/calls.status
    conformance leases $worker_address "$fabric (Soft-RoCE)" "$leases"
    echo $? >/tmp/leases.status
  } >/dev/null &
  beside_pid=$!
  conformance transport $worker_address "$fabric (Soft-RoCE)" "-$calls:$leases"
  judge $? transport
  conformance ipv6 $worker_address6 "$fabric IPv6 (Soft-RoCE)" \
    "Expectations.*:Addresses.*:*Calls.RandomFunctions*/auto:*Calls.TheSession*/auto"
  judge $? ipv6
  wait "$beside_pid"
  for name in calls leases; do
    cat "/tmp/$name.log"
    judge "$(cat "/tmp/$name.status")" "$name"
  done
fi
suite_result=
for name in "${names[@]}"; do
  counts=$(grep -E '^\[  (PASSED|FAILED|SKIPPED) *\].*tests?' "/tmp/$name.log" | tr -d '\n')
  suite_result+="$name: ${counts:-no result}; "
done
# One file for the reader of the results: an element for each run.
{
  printf '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
  for name in "${names[@]}"; do
    label="$fabric (Soft-RoCE)"
    if [ "$name" = ipv6 ]; then label="$fabric IPv6 (Soft-RoCE)"; fi
    if [ -s "/tmp/$name.xml" ]; then
      sed 1d "/tmp/$name.xml"
    else
      printf '<testsuites fabric="%s" lost="%s"/>\n' "$label" "$name"
    fi
  done
  printf '</testsuites>\n'
} >"$OUTPUT/suite.xml"

heading "A worker at $worker_address, its clients at $client_address"
mkfifo /tmp/ready
"$server" --provider="$fabric" --fabric-address=$worker_address --listen=127.0.0.1:0 --functions="$library" \
  --hot-timeout=1ms --lease-cores=2 --allow-upload=all --python=/usr/bin/python3 >/tmp/ready 2>/tmp/server.log &
server_pid=$!
line=
read -r line </tmp/ready
printf '%s\n' "${line:-$(cat /tmp/server.log)}"
address=$(/usr/bin/python3 -c 'import json, sys; print(json.loads(sys.argv[1])["listen"])' "$line")
thumbnail=$OUTPUT/thumbnail_soft_roce.jpg
thumbnail_size=0
if [ -z "$address" ]; then
  problem "the worker did not start"
else
  before=$(packets_sent 0)
  call() {
    "$client" "$1" --server="$address" --fabric-address=$client_address --connect-timeout=${patience}s "${@:2}" ||
      problem "invoker $*"
  }
  call ping --count=5 --size=4096 --interval=0
  call call thumbnail --input="$photograph" --output="$thumbnail"
  call call thumbnail --input="$photograph" --output=/tmp/leased.jpg --lease --executors=2 --tenant=cpp -v
  cmp "$thumbnail" /tmp/leased.jpg || problem "the thumbnails of a shared and of a leased executor differ"
  call call thumbnailer --input="$photograph" --output=/tmp/rfaas.jpg --lease --upload="$rfaas_library" \
    --response-capacity=65536
  for made in "$thumbnail" /tmp/rfaas.jpg; do
    [ "$(od -An -tx1 -N3 "$made" | tr -d ' ')" = ffd8ff ] || problem "$made is no JPEG"
  done
  PYTHONPATH=$binaries/src/python /usr/bin/python3 - "$address" "$photograph" "$thumbnail" $client_address $patience \
    <<'END' || problem "the Python client"
import sys

import invoker
import numpy

address, photograph, made_by_cpp, ours, patience = sys.argv[1:]
with invoker.connect(address, fabric_address=ours, connect_timeout=float(patience), peer_timeout=20) as client:
    answer = bytes(client.call("thumbnail", open(photograph, "rb").read()))
    if answer != open(made_by_cpp, "rb").read():
        sys.exit("the thumbnails made from Python and from C++ differ")
    print(f"the Python client got the same thumbnail, {len(answer)} bytes")
    with client.lease(executors=2, tenant="python") as lease:

        @lease.function
        def double(array):
            return 2 * array

        # The last ones are larger than a session's window.
        arrays = [numpy.arange(size) for size in (1, 10, 1000, 100_000, 400_000, 400_001)]
        for array, doubled in zip(arrays, double.map(arrays)):
            if not numpy.array_equal(doubled, 2 * array):
                sys.exit(f"an array of {array.size} came back wrong")
        print(lease.close())
END
  crossed=$(($(packets_sent 0) - before))
  printf '%s packets left the worker by the cable\n' "$crossed"
  [ "$crossed" -ge 10 ] || problem "the calls did not cross the cable"
  "$client" usage --server="$address" || problem "invoker usage"
  nothing_is_left "executors that have ended"
  kill -TERM "$server_pid"
  wait "$server_pid" || problem "the worker ended with status $?"
  cat /tmp/server.log
  thumbnail_size=$(stat -c %s "$thumbnail")
fi

# This kernel lets its control groups limit memory, as not every machine that runs the tests does.
heading "Executors' memory, limited by the kernel's control groups"
groups_log=/tmp/control_groups.log
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup || problem "no control groups"
(cd "$binaries" && TEST_TMPDIR=/tmp timeout "$limit" "$groups_test" --gtest_color=no \
  --gtest_filter='ControlGroupKernel.*') >"$groups_log" 2>&1 || problem "control groups, with status $?"
cat "$groups_log"
if grep -q SKIPPED "$groups_log"; then problem "control groups: skipped"; fi

# Peers are patient, since an emulated processor may have to wait for a real one, and what is judged of how long it took is
# patient, too.
heading "A worker, the cable and an executor fail, with calls under way"
(cd "$binaries" && timeout --kill-after=5 "$limit" "$failures" --soft-roce --outstanding=64 --warm-calls=300 \
  --peer-timeout=20s --within=60s --next-within=15s --others-within=60s --failure=server_killed,fabric_cut,executor_crashes) 2>&1 || problem "failures, with status $?"
nothing_is_left "processes that were killed"

heading "Result"
printf 'conformance suite on %s: %s\n' "$fabric" "${suite_result%; }"
printf 'thumbnail made over %s: %s bytes\n' "$fabric" "$thumbnail_size"
if [ ${#problems[@]} -ne 0 ]; then
  printf 'FAILED: %s\n' "${problems[@]}"
  exit 1
fi

#!/bin/sh
# use_installed.sh PYTHON [FOLDER]: starts a worker from what is installed (in FOLDER, or on PATH) and calls a leased Python function on it,
# in an executor in a process of its own. Prints what the function returned.
set -eu
python=$1
[ $# -eq 1 ] || PATH=$2:$PATH
cd /tmp
invoker --version
mkfifo ready
invoker_server --listen=127.0.0.1:0 --python="$python" --allow-upload=python --lease-cores=1 --hot-timeout=1ms --peer-timeout=20s \
  >ready 2>log &
server=$!
trap 'kill $server; wait $server || true; cat log; rm -f ready log lease.py' EXIT
read -r line <ready
address=$(printf '%s' "$line" | sed 's/.*"listen":"\([^"]*\)".*/\1/')
cat >lease.py <<END
import os
import sys

import invoker

with invoker.connect(sys.argv[1]) as client, client.lease(executors=1) as lease:

    @lease.function
    def square(x):
        return x * x, os.getpid()

    result, process = square(7)
    print("result", result, "own process", process not in (os.getpid(), $server))
END
"$python" lease.py "$address"
invoker ping --server="$address" --count=10 >/dev/null

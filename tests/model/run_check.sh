#!/usr/bin/env bash
# check.py over the model, as a Bazel test.
set -euo pipefail
cd tests/model
exec /usr/bin/python3 check.py protocol.pml transitions.pml

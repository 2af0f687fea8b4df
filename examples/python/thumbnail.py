#!/usr/bin/python3
"""Makes a thumbnail of a photograph on a remote worker.

From the root of the repository:

    bazel build //src/python/... //tools:invoker_server //examples/functions:libexample_functions.so
    bazel-bin/tools/invoker_server --listen=127.0.0.1:7000 \\
        --functions=bazel-bin/examples/functions/libexample_functions.so &
    PYTHONPATH=bazel-bin/src/python /usr/bin/python3 examples/python/thumbnail.py --server=127.0.0.1:7000
"""

import argparse
import sys

import invoker

PHOTOGRAPH = "/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg"


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes a JPEG file's thumbnail on a remote worker.")
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="an invoker_server")
    parser.add_argument("--input", default=PHOTOGRAPH, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--output", default="thumbnail.jpg", metavar="FILE", help="default: %(default)s")
    options = parser.parse_args()

    try:
        with open(options.input, "rb") as file:
            photograph = file.read()
        with invoker.connect(options.server) as client:
            thumbnail = client.call("thumbnail", photograph, timeout=30)
        with open(options.output, "wb") as file:
            file.write(thumbnail)
    except (invoker.InvokerError, OSError) as error:
        print("thumbnail.py: %s" % error, file=sys.stderr)
        return 1
    print(
        "%s (%d bytes) -> %s (%d bytes)"
        % (options.input, len(photograph), options.output, len(thumbnail))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

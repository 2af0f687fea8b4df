"""Says what a `bazel test` run did, from its build event file, and exits as tools/test does."""

import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree

import fabric_matrix

_PASSED = ("PASSED", "FLAKY")
_NO_TESTS = 4

_SLOWEST = 10

# It says which libfabric the tests loaded.
_LOADED_TEST = "//tests/libfabric:loaded_test"


class Summary:
    """What the events of one run say. Labels stand in the order in which they ended."""

    def __init__(self):
        self.passed = []
        self.failed = {}  # label of a test -> (why, paths of its logs)
        self.not_built = {}  # label of anything -> why
        self.results = []  # (label, path of a test.xml), one for every shard that was run
        self.seconds = {}  # label -> how long a test took, all its shards together; not if an earlier run's result was used
        self._tests = set()

    def add(self, event):
        """Takes one event, as parsed from a line of the file."""
        kind = event.get("id", {})
        if "targetConfigured" in kind:
            if event.get("configured", {}).get("testSize"):
                self._tests.add(kind["targetConfigured"]["label"])
        elif "targetCompleted" in kind:
            label = kind["targetCompleted"]["label"]
            if "aborted" in event:
                self.not_built[label] = _reason(event)
            elif not event.get("completed", {}).get("success", False):
                # A test that failed is a target that was completed with success.
                self.not_built[label] = "failed to build"
        elif "testResult" in kind:
            for output in event.get("testResult", {}).get("testActionOutput", []):
                if output.get("name") == "test.xml":
                    self.results.append((kind["testResult"]["label"], _path(output)))
        elif "testSummary" in kind:
            label = kind["testSummary"]["label"]
            result = event.get("testSummary", {})
            status = result.get("overallStatus", "NO_STATUS")
            if "totalRunDurationMillis" in result and not result.get("totalNumCached"):
                self.seconds[label] = int(result["totalRunDurationMillis"]) / 1000
            if status in _PASSED:
                self.passed.append(label)
            else:
                self.failed[label] = (status, [_path(log) for log in result.get("failed", [])])
        elif "aborted" in event:
            name = next(iter(kind.values()), {})
            labels = name.get("pattern") or [name.get("label", "the build")]
            self.not_built[" ".join(labels)] = _reason(event)

    def finish(self):
        """Drops what is told twice: a test that did not build may have a summary too."""
        for label in set(self.failed) & set(self.not_built):
            del self.failed[label]

    def failed_count(self, bazel_exit_code):
        """Test targets that failed or could not be built; 1 where only something else went wrong."""
        unbuilt_tests = [label for label in self.not_built if label in self._tests]
        count = len(self.failed) + len(unbuilt_tests)
        if count == 0 and (self.not_built or bazel_exit_code not in (0, _NO_TESTS)):
            return 1
        return count


def _path(file):
    return urllib.parse.unquote(urllib.parse.urlparse(file.get("uri", "")).path)


def _reason(event):
    aborted = event["aborted"]
    return aborted.get("description") or aborted.get("reason", "stopped")


def read(lines):
    """Returns the Summary of a build event file's lines."""
    summary = Summary()
    for line in lines:
        if line.strip():
            try:
                summary.add(json.loads(line))
            except json.JSONDecodeError:
                break  # Bazel was killed while it wrote: what stands before is true all the same
    summary.finish()
    return summary


def matrix(summary):
    """Returns the lines of the matrix of fabrics; none if no target of the conformance suite was run."""
    result = fabric_matrix.Matrix()
    # Bazel writes no file for what it had to kill.
    for label in set(summary.failed) - {label for label, _ in summary.results}:
        if fabric_matrix.CONFORMANCE.match(label):
            result.add_lost(label)
    for label, path in summary.results:
        if fabric_matrix.CONFORMANCE.match(label):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    result.add(label, file.read())
            except OSError:
                result.add_lost(label)
    return result.lines()


def libfabric(summary):
    """Returns a line that names the libfabric of the tests; none if the test that asks for it did not run."""
    for label, path in summary.results:
        if label != _LOADED_TEST:
            continue
        try:
            properties = dict(
                (key, value) for element in xml.etree.ElementTree.parse(path).iter() for key, value in _properties(element)
            )
            return ["libfabric %s, %s" % (properties["libfabric"], properties["libfabric_file"])]
        except (OSError, KeyError, xml.etree.ElementTree.ParseError):
            return ["libfabric unknown: see the log of %s" % label]
    return []


def _properties(element):
    """GoogleTest writes a test's properties as elements, and others as attributes."""
    if element.tag == "property":
        yield element.get("name"), element.get("value")
    yield from element.items()


def slowest(summary):
    """Returns the lines of the tests that took longest."""
    tests = sorted(summary.seconds.items(), key=lambda item: (-item[1], item[0]))[:_SLOWEST]
    if not tests:
        return []
    return ["slowest tests, in seconds:"] + ["%8.1f  %s" % (s, label) for label, s in tests]


def report(summary, bazel_exit_code, flags):
    """Prints what failed and the counts. Returns tools/test's exit code."""
    for line in matrix(summary) + libfabric(summary) + slowest(summary):
        print(line)
    command = " ".join(["bazel", "test"] + flags.split())
    for label, why in sorted(summary.not_built.items()):
        print("NOT BUILT %s: %s" % (label, why))
        if label.startswith("//"):
            print("    build again: %s %s" % (command.replace(" test", " build", 1), label))
    for label, (status, logs) in sorted(summary.failed.items()):
        print("%s %s" % (status, label))
        for log in logs:
            print("    log:       %s" % log)
        print("    run again: %s %s" % (command, label))

    failed = summary.failed_count(bazel_exit_code)
    passed = len(summary.passed)
    if failed == 0 and passed == 0:
        print("no test ran")
    elif failed and not summary.failed and not summary.not_built:
        print("Bazel stopped with exit code %d: see its messages above" % bazel_exit_code)
    print("%d passed, %d failed" % (passed, failed))
    if failed:
        return 1
    return 0 if passed else _NO_TESTS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bazel-exit-code", type=int, required=True)
    parser.add_argument("--flags", default="", help="options that a command to run a test again needs")
    parser.add_argument("--build-seconds", type=int, required=True, help="how long building took before the tests")
    parser.add_argument("--test-seconds", type=int, required=True, help="how long the tests took")
    parser.add_argument("events", help="the file of --build_event_json_file")
    options = parser.parse_args()
    with open(options.events, encoding="utf-8") as file:
        summary = read(file)
    print("built in %d s, tested in %d s" % (options.build_seconds, options.test_seconds))
    return report(summary, options.bazel_exit_code, options.flags)


if __name__ == "__main__":
    sys.exit(main())

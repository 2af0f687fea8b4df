"""What tools/test says of runs that went well, badly, or not at all."""

import json

import test_summary


def configured(label, test=True):
    size = {"testSize": "SMALL"} if test else {}
    return {"id": {"targetConfigured": {"label": label}}, "configured": size}


def completed(label, success=True):
    body = {"success": True} if success else {}
    return {"id": {"targetCompleted": {"label": label}}, "completed": body}


def summary(label, status, *logs):
    result = {"overallStatus": status, "failed": [{"uri": log} for log in logs]}
    return {"id": {"testSummary": {"label": label}}, "testSummary": result}


def result(label, path):
    output = {"name": "test.xml", "uri": "file://%s" % path}
    return {"id": {"testResult": {"label": label}}, "testResult": {"testActionOutput": [output]}}


def run(capsys, events, bazel_exit_code=0, flags=""):
    """Returns the exit code and the printed lines."""
    read = test_summary.read([json.dumps(event) + "\n" for event in events])
    code = test_summary.report(read, bazel_exit_code, flags)
    return code, capsys.readouterr().out.splitlines()


def test_passed_targets_are_counted(capsys):
    events = [summary("//a:a", "PASSED"), summary("//a:b", "PASSED")]
    assert run(capsys, events) == (0, ["2 passed, 0 failed"])


def test_a_failure_is_shown_with_its_log_and_command(capsys):
    events = [
        summary("//a:a", "PASSED"),
        summary("//a:b", "TIMEOUT", "file:///tmp/with%20blank/test.log"),
    ]
    code, lines = run(capsys, events, 3, "--config=tsan")
    assert code == 1
    assert lines == [
        "TIMEOUT //a:b",
        "    log:       /tmp/with blank/test.log",
        "    run again: bazel test --config=tsan //a:b",
        "1 passed, 1 failed",
    ]


def test_a_test_that_does_not_build_is_one_failure(capsys):
    events = [
        configured("//a:lib", test=False),
        configured("//a:a"),
        completed("//a:lib", success=False),
        completed("//a:a", success=False),
        summary("//a:a", "NO_STATUS"),
        summary("//a:b", "PASSED"),
    ]
    code, lines = run(capsys, events, 1)
    assert code == 1
    assert lines[-1] == "1 passed, 1 failed"
    assert "NOT BUILT //a:lib: failed to build" in lines


def test_only_a_library_that_does_not_build_still_fails(capsys):
    events = [completed("//a:lib", success=False), summary("//a:b", "PASSED")]
    code, lines = run(capsys, events, 1)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")


def test_a_pattern_that_matches_nothing_fails(capsys):
    aborted = {
        "id": {"pattern": {"pattern": ["//none:all"]}},
        "aborted": {"reason": "LOADING_FAILURE", "description": "no such package"},
    }
    code, lines = run(capsys, [aborted], 4)
    assert (code, lines[0]) == (1, "NOT BUILT //none:all: no such package")
    assert lines[-1] == "0 passed, 1 failed"


def test_no_test_at_all_is_no_success(capsys):
    assert run(capsys, [], 4) == (4, ["no test ran", "0 passed, 0 failed"])


def test_bazel_stopping_without_an_event_fails(capsys):
    code, lines = run(capsys, [], 37)
    assert (code, lines[-1]) == (1, "0 passed, 1 failed")
    assert "exit code 37" in lines[0]


def test_a_line_cut_short_keeps_what_stands_before_it():
    lines = [json.dumps(summary("//a:a", "PASSED")), '{"id": {"testSumm']
    assert test_summary.read(lines).passed == ["//a:a"]


def test_fabrics_are_shown_before_the_counts(capsys, tmp_path):
    results = tmp_path / "test.xml"
    results.write_text(
        '<testsuites fabric="shm" evidence="host">'
        '<testsuite name="Writes"><testcase name="T"/></testsuite></testsuites>'
    )
    label = "//tests/conformance:shm_transport_test"
    events = [result(label, results), summary(label, "PASSED")]
    code, lines = run(capsys, events)
    assert code == 0
    assert any("ok 1" in line for line in lines)
    assert lines[-1] == "1 passed, 0 failed"
    # Other tests' results are not even read.
    events = [result("//a:a", tmp_path / "none"), summary("//a:a", "PASSED")]
    assert run(capsys, events) == (0, ["1 passed, 0 failed"])


def test_a_fabric_whose_machine_left_no_file_is_shown(capsys):
    label = "//tests/soft_roce:soft_roce_test"
    code, lines = run(capsys, [summary(label, "TIMEOUT")], 3)
    assert code == 1
    assert "soft_roce_test: ended without a result, see " + label in lines


def timed(label, milliseconds, cached=0):
    event = summary(label, "PASSED")
    event["testSummary"].update(totalRunDurationMillis=str(milliseconds), totalNumCached=cached)
    return event


def test_the_ten_slowest_tests_are_named(capsys):
    events = [timed("//a:t%02d" % i, 1000 * i) for i in range(1, 13)] + [timed("//a:old", 99000, cached=1)]
    code, lines = run(capsys, events)
    assert code == 0
    assert lines[0] == "slowest tests, in seconds:"
    assert lines[1:11] == ["%8.1f  //a:t%02d" % (i, i) for i in range(12, 2, -1)]
    assert lines[11:] == ["13 passed, 0 failed"]


def test_the_libfabric_is_named(capsys, tmp_path):
    results = tmp_path / "test.xml"
    results.write_text(
        '<testsuites><testsuite name="Loaded"><testcase name="T"><properties>'
        '<property name="libfabric" value="2.1"/><property name="libfabric_file" value="/x/libfabric.so.1.29"/>'
        "</properties></testcase></testsuite></testsuites>"
    )
    label = "//tests/libfabric:loaded_test"
    events = [result(label, results), summary(label, "PASSED")]
    assert "libfabric 2.1, /x/libfabric.so.1.29" in run(capsys, events)[1]
    results.write_text("<testsuites/>")
    assert "libfabric unknown: see the log of //tests/libfabric:loaded_test" in run(capsys, events)[1]

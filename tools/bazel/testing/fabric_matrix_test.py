"""The matrix of fabrics, from results as GoogleTest writes them."""

import fabric_matrix

LABEL = "//tests/conformance:shm_transport_test"


def results(fabric, suites, evidence="host"):
    """A test.xml. `suites`: name of a test suite -> results of its tests."""
    bodies = {
        "ok": '<testcase name="T" status="run" result="completed"/>',
        "fail": '<testcase name="T" status="run" result="completed"><failure message="no"/></testcase>',
        "skip": '<testcase name="T" status="run" result="skipped">'
        '<skipped message="file.cc:1&#x0A;it has none"/></testcase>',
        "left out": '<testcase name="T" status="notrun" result="suppressed"/>',
    }

    def body(case):
        return bodies["skip"].replace("it has none", case) if case.startswith("limit: ") else bodies[case]

    text = "".join(
        '<testsuite name="%s">%s</testsuite>' % (name, "".join(body(case) for case in cases))
        for name, cases in suites.items()
    )
    properties = 'fabric="%s" evidence="%s" libfabric="1.17"' % (fabric, evidence)
    return '<?xml version="1.0"?><testsuites name="AllTests" %s>%s</testsuites>' % (properties, text)


def lines_of(*files):
    matrix = fabric_matrix.Matrix()
    for label, text in files:
        matrix.add(label, text)
    return matrix.lines()


def cells(lines, fabric):
    """Column -> cell of the fabric's row."""
    header = next(line for line in lines if line.startswith("fabric"))
    row = next(line for line in lines if line.startswith(fabric + "  "))
    starts = [0] + [i for i in range(2, len(header)) if header[i - 2 : i] == "  " and header[i] != " "]
    spans = list(zip(starts, starts[1:] + [len(header) + 20]))
    return {header[a:b].strip(): row[a:b].strip() for a, b in spans}


def test_no_results_make_no_matrix():
    assert lines_of() == []


def test_properties_may_be_elements():
    old = results("shm", {"Writes": ["ok"]})
    element = '<properties><property name="fabric" value="shm"/><property name="evidence" value="host"/></properties>'
    new = old.replace(' fabric="shm" evidence="host"', "").replace('"1.17">', '"1.17">' + element)
    assert lines_of((LABEL, new)) == lines_of((LABEL, old))


def test_other_tests_do_not_count():
    assert lines_of(("//tests/invoke:wire_test", results("shm", {"Writes": ["ok"]}))) == []


def test_cells_say_what_passed_failed_and_is_not_there():
    suites = {"Every/Writes": ["ok", "ok", "skip"], "Every/Atomics": ["skip"], "Loss": ["ok", "fail"]}
    lines = lines_of((LABEL, results("shm", suites)))
    assert cells(lines, "shm") == {"fabric": "shm", "writes": "ok 2 -1", "atomics": "-", "loss": "FAIL 1/2"}
    assert "    no atomics: it has none" in lines
    assert "-1: and one that was skipped" in lines[0]


def test_a_failure_hides_nothing_that_was_skipped():
    lines = lines_of((LABEL, results("shm", {"Writes": ["ok", "fail", "skip", "skip"]})))
    assert cells(lines, "shm") == {"fabric": "shm", "writes": "FAIL 1/2 -2"}


def test_every_known_limit_of_a_fabric_is_told_once():
    lines = lines_of(
        (LABEL, results("shm", {"Writes": ["ok", "limit: no writes at noon", "limit: no writes at noon"]})),
        (LABEL, results("shm", {"Loss": ["limit: loses nothing"], "Waits": ["ok", "skip"]})),
        ("//tests/conformance:tcp_transport_test", results("tcp", {"Writes": ["ok"]})),
    )
    assert [line for line in lines if "limits: " in line] == ["    limits: no writes at noon; loses nothing"]
    assert "    no loss: loses nothing" in lines


def test_both_halves_and_every_shard_of_a_fabric_are_one_row():
    lines = lines_of(
        (LABEL, results("shm", {"Writes": ["ok"]})),
        (LABEL, results("shm", {"Writes": ["ok", "fail"]})),
        ("//tests/conformance:shm_calls_test", results("shm", {"Every/Calls": ["ok"]})),
    )
    assert cells(lines, "shm") == {"fabric": "shm", "writes": "FAIL 1/3", "calls": "ok 1"}


def test_what_a_filter_left_out_is_nothing():
    lines = lines_of((LABEL, results("shm", {"Writes": ["ok"], "Every/Calls": ["left out"]})))
    assert cells(lines, "shm") == {"fabric": "shm", "writes": "ok 1"}


def test_suites_of_one_subject_share_a_column():
    for suite in ("Waits", "Every/Waits", "IdleWaits"):
        assert fabric_matrix.group_of(suite) == "waits"
    assert fabric_matrix.group_of("Every/BackPressure") == "back pressure"
    assert fabric_matrix.group_of("AddressVector") == "address vector"
    assert fabric_matrix.group_of("CancelReceives") == "cancel"
    assert fabric_matrix.group_of("SomethingNew") == "something new"


def test_each_fabric_says_what_it_is_and_emulations_stand_last():
    lines = lines_of(
        ("//tests/conformance:efa_transport_test", results("efa", {"Writes": ["ok"]}, "emulation")),
        ("//tests/soft_roce:soft_roce_test", results("verbs;ofi_rxm", {"Writes": ["ok"]}, "soft-roce")),
    )
    rows = [line.split("  ")[0] for line in lines if "ok 1" in line]
    assert rows == ["verbs;ofi_rxm", "efa"]
    assert any(line.startswith("efa: an emulation") for line in lines)
    assert any(line.startswith("verbs;ofi_rxm: ") and "virtual machine" in line for line in lines)


def test_a_suite_that_crashed_is_seen():
    crashed = '<?xml version="1.0"?><testsuites><testsuite name="tests/conformance/shm_transport_test"/></testsuites>'
    lines = lines_of((LABEL, crashed), ("//tests/conformance:tcp_transport_test", results("tcp", {"Writes": ["ok"]})))
    assert cells(lines, "shm_transport_test")["writes"] == "?"
    assert "shm_transport_test: ended without a result, see " + LABEL in lines


def test_a_file_that_is_no_xml_counts_as_a_crash():
    assert any("ended without a result" in line for line in lines_of((LABEL, "<testsui")))


def test_a_virtual_machine_that_was_lost_is_seen():
    label = "//tests/soft_roce:soft_roce_test"
    crashed = '<?xml version="1.0"?><testsuites><testsuite name="tests/soft_roce/soft_roce_test"/></testsuites>'
    lines = lines_of((label, crashed), (LABEL, results("shm", {"Writes": ["ok"], "Loss": ["ok"]})))
    assert cells(lines, "soft_roce_test") == {"fabric": "soft_roce_test", "writes": "?", "loss": "?"}
    assert "soft_roce_test: ended without a result, see " + label in lines


def test_a_run_that_was_lost_beside_others_leaves_what_they_found():
    label = "//tests/soft_roce:soft_roce_test"
    text = '<testsuites>%s<testsuites fabric="verbs" lost="calls"/></testsuites>' % (
        results("verbs", {"Writes": ["ok"]}, "soft-roce").split("?>")[1]
    )
    lines = lines_of((label, text), (LABEL, results("shm", {"Writes": ["ok"], "Calls": ["ok"]})))
    assert cells(lines, "verbs") == {"fabric": "verbs", "writes": "ok 1", "calls": "?"}
    assert "verbs: ended without a result, see %s (its run calls)" % label in lines
    assert any(line.startswith("verbs: ") and "virtual machine" in line for line in lines)

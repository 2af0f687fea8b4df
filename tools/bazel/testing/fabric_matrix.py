"""The matrix fabric x group of what the conformance suite found, from the test.xml files of a run.

A test.xml belongs to the suite if its top element has the property "fabric". A group is a test suite's name,
without what parameters add to it.
"""

import collections
import re
import xml.etree.ElementTree

# Columns, in this order; a group that is not listed stands behind them.
_GROUPS = ["addresses", "address vector", "writes", "notifications", "atomics", "waits", "back pressure", "cancel",
           "calls", "clients", "loss"]

_EVIDENCE = {
    "host": "the provider itself, between processes of this host",
    "soft-roce": "the provider itself, over Soft-RoCE in a virtual machine",
    "emulation": "an emulation of the contract, on this host; says nothing of hardware",
    "none": "the provider itself, which nothing is known of",
}

# Targets that leave such a file, if they do not crash first.
CONFORMANCE = re.compile(r"^//tests/(conformance|soft_roce)[:/]")


class Row:
    """One fabric."""

    def __init__(self, fabric):
        self.fabric = fabric
        self.evidence = ""
        self.libfabric = ""
        # Group -> result ("ok", "fail", "skip") -> number of tests.
        self.counts = collections.defaultdict(collections.Counter)
        self.reasons = {}  # group -> why something of it was skipped
        self.lost = []  # labels of targets that ended without a result


def group_of(suite):
    """The column of a test suite: "Every/BackPressure" -> "back pressure"."""
    words = re.findall(r"[A-Z][a-z0-9]*", suite.split("/")[-1]) or [suite]
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count]).lower()
        if name in _GROUPS:
            return name
    last = words[-1].lower()
    return last if last in _GROUPS else " ".join(words).lower()


def _result_of(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "fail"
    if case.get("result") == "skipped" or case.get("status") == "notrun" or case.find("skipped") is not None:
        return "skip"
    return "ok"


def _reason(case):
    skipped = case.find("skipped")
    if skipped is None:
        return ""
    lines = (skipped.get("message") or skipped.text or "").strip().splitlines()
    # GoogleTest puts the place in the source in front.
    return lines[-1].strip() if lines else ""


class Matrix:
    """Every fabric of a run."""

    def __init__(self):
        self.rows = {}

    def _row(self, fabric):
        return self.rows.setdefault(fabric, Row(fabric))

    def add(self, label, text):
        """Takes a test.xml of the target. Files that are not the suite's are passed over."""
        if not CONFORMANCE.match(label):
            return
        try:
            top = xml.etree.ElementTree.fromstring(text)
        except xml.etree.ElementTree.ParseError:
            self.add_lost(label)
            return
        found = [element for element in top.iter() if element.get("fabric")]
        if not found:
            self.add_lost(label)
            return
        for results in found:
            row = self._row(results.get("fabric"))
            row.evidence = results.get("evidence", "")
            row.libfabric = results.get("libfabric", "")
            for suite in results.iter("testsuite"):
                self._add_suite(row, suite)

    def add_lost(self, label):
        """A target whose suite ended without a result."""
        if label.startswith("//tests/conformance:") and label.endswith(("_calls_test", "_transport_test")):
            self._row(label.split(":")[1]).lost.append(label)

    @staticmethod
    def _add_suite(row, suite):
        group = group_of(suite.get("name", ""))
        for case in suite.iter("testcase"):
            # What a filter left out has not been asked for.
            if case.get("status") == "notrun" and case.get("result") == "suppressed":
                continue
            result = _result_of(case)
            row.counts[group][result] += 1
            if result == "skip" and _reason(case):
                row.reasons.setdefault(group, _reason(case))

    def _columns(self):
        seen = {group for row in self.rows.values() for group in row.counts}
        return [group for group in _GROUPS if group in seen] + sorted(seen - set(_GROUPS))

    def lines(self):
        """The matrix as text; nothing if the suite did not run."""
        if not self.rows:
            return []
        columns = self._columns()
        rows = sorted(self.rows.values(), key=lambda row: (row.evidence == "emulation", row.fabric))
        table = [["fabric"] + columns]
        for row in rows:
            if row.lost:
                table.append([row.fabric] + ["ended without a result" if not columns else "?"] * max(len(columns), 1))
            else:
                table.append([row.fabric] + [_cell(row.counts.get(group)) for group in columns])
        widths = [max(len(line[i]) for line in table if i < len(line)) for i in range(len(table[0]))]
        text = ["Fabrics (ok: tests that passed; -: nothing that this fabric has)", ""]
        for line in table:
            text.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        text.append("")
        text.extend(self._legend(rows))
        return text

    @staticmethod
    def _legend(rows):
        lines = []
        for row in rows:
            if row.lost:
                lines.append("%s: ended without a result, see %s" % (row.fabric, " ".join(row.lost)))
                continue
            version = ", libfabric %s" % row.libfabric if row.libfabric else ""
            lines.append("%s: %s%s" % (row.fabric, _EVIDENCE.get(row.evidence, row.evidence or "unknown"), version))
            for group, count in row.counts.items():
                if set(count) == {"skip"}:
                    lines.append("    no %s: %s" % (group, row.reasons.get(group, "no reason given")))
        return lines


def _cell(count):
    if not count or set(count) == {"skip"}:
        return "-"
    total = count["ok"] + count["fail"]
    if count["fail"]:
        return "FAIL %d/%d" % (count["fail"], total)
    return "ok %d" % total

"""The matrix fabric x group of what the conformance suite found, from the test.xml files of a run.

A test.xml belongs to the suite if its top element, or one for each run of the suite below it, has the property
"fabric"; one that has the property "lost" stands for a run that left nothing else. A group is a test suite's name,
without what parameters add to it.
"""

import collections
import re
import xml.etree.ElementTree

# Columns, in this order; a group that is not listed stands behind them.
_GROUPS = ["expectations", "addresses", "address vector", "writes", "notifications", "atomics", "waits",
           "back pressure", "cancel", "calls", "clients", "loss", "leases"]

_EVIDENCE = {
    "host": "the provider itself, between processes of this host",
    "soft-roce": "the provider itself, over Soft-RoCE in a virtual machine",
    "emulated-device": "the provider itself, on an emulated card of this host; says nothing of hardware",
    "emulation": "an emulation of the contract, on this host; says nothing of hardware",
    "none": "the provider itself, which nothing is known of",
}

# How the suite begins the reason of a test that it skips because of a known limit of the fabric.
_LIMIT = "limit: "

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
        self.limits = []  # known limits because of which tests were skipped
        self.lost = []  # what ended without a result: targets, or runs of one


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


def _lift_properties(top):
    """Makes attributes of recorded properties, which newer versions of GoogleTest write as elements."""
    for element in list(top.iter()):
        for properties in element.findall("properties"):
            for each in properties.findall("property"):
                element.set(each.get("name", ""), each.get("value", ""))


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
        _lift_properties(top)
        found = [element for element in top.iter() if element.get("fabric")]
        if not found:
            self.add_lost(label)
            return
        for results in found:
            row = self._row(results.get("fabric"))
            if results.get("lost"):
                row.lost.append("%s (its run %s)" % (label, results.get("lost")))
                continue
            row.evidence = results.get("evidence", "")
            row.libfabric = results.get("libfabric", "")
            for suite in results.iter("testsuite"):
                self._add_suite(row, suite)

    def add_lost(self, label):
        """A target whose suite ended without a result."""
        if label.startswith("//tests/soft_roce") or label.endswith(("_calls_test", "_leases_test", "_transport_test")):
            lost = self._row(label.split(":")[-1]).lost
            if label not in lost:
                lost.append(label)

    @staticmethod
    def _add_suite(row, suite):
        group = group_of(suite.get("name", ""))
        for case in suite.iter("testcase"):
            # What a filter left out has not been asked for.
            if case.get("status") == "notrun" and case.get("result") == "suppressed":
                continue
            result = _result_of(case)
            row.counts[group][result] += 1
            reason = _reason(case)
            if result == "skip" and reason.startswith(_LIMIT):
                reason = reason[len(_LIMIT) :]
                if reason not in row.limits:
                    row.limits.append(reason)
            if result == "skip" and reason:
                row.reasons.setdefault(group, reason)

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
            if row.lost and not columns:
                table.append([row.fabric, "ended without a result"])
            else:
                table.append([row.fabric] + [_cell(row.counts.get(group), row.lost) for group in columns])
        widths = [max(len(line[i]) for line in table if i < len(line)) for i in range(len(table[0]))]
        text = ["Fabrics (ok 6: tests that passed; -1: and one that was skipped; -: nothing that this fabric has; "
                "?: ended without a result)", ""]
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
            if not row.counts:
                continue
            version = ", libfabric %s" % row.libfabric if row.libfabric else ""
            lines.append("%s: %s%s" % (row.fabric, _EVIDENCE.get(row.evidence, row.evidence or "unknown"), version))
            for group, count in row.counts.items():
                if set(count) == {"skip"}:
                    lines.append("    no %s: %s" % (group, row.reasons.get(group, "no reason given")))
            if row.limits:
                lines.append("    limits: %s" % "; ".join(row.limits))
        return lines


def _cell(count, lost):
    if not count:
        return "?" if lost else "-"
    if set(count) == {"skip"}:
        return "-"
    total = count["ok"] + count["fail"]
    text = "FAIL %d/%d" % (count["fail"], total) if count["fail"] else "ok %d" % total
    return "%s -%d" % (text, count["skip"]) if count["skip"] else text

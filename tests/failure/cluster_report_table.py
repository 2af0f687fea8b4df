"""The table of the cluster's failure report: a row for each failure, client and kind of work."""

import collections
import mmap
import re

from cluster_report_client import KINDS, NUMBERS_OF_A_KIND, UNKNOWN, UNSEEN, UPLOADS

_FATES = ("ok", "not_sent", "not_executed", "maybe_executed", UNSEEN, UNKNOWN)
_COLUMNS = ("calls", "ok", "not sent", "not exec", "maybe", "unseen", "unknown", "other", "renewed", "refused")
_HEAD = "%-23s %6s %-8s" + " %8s" * len(_COLUMNS) + " %9s %7s"
_LINE = "%-23s %6d %-8s" + " %8d" * len(_COLUMNS) + " %9.2f %7s"
# The kinds of work of which a failure that has to hit a client hits one at least.
_STRUCK = (("calls",), (UPLOADS, "uploaded"))


class Row:
    """The ends of the calls of one kind of work of one client during one failure. The calls of UPLOADS are uploads."""

    def __init__(self, span, away, host, kind, calls, renewed, refused):
        """away: the times for which the client was stopped or cut off.

        calls, renewed, refused: those of all failures, as in cluster_report_client.
        """
        self.failure = span.failure
        self.host = host
        self.kind = kind
        self._away = away
        met = [call for call in calls if span.has(call[2])]
        self.calls = len(met)
        self.fates = collections.Counter(call[3] for call in met)
        self.other = self.calls - sum(self.fates[fate] for fate in _FATES)
        self.answered_after = sum(call[3] == "ok" and call[1] > span.end for call in met)
        self._answers = [call[1:3] for call in met]
        self._leases = [times for times in renewed if span.has(times[1])]
        self._refused = [tries for tries in refused if span.has(tries[1])]
        self.renewed = len(self._leases)

    @property
    def place(self):
        """Which row it is, in words."""
        return "%s, client %d, %s" % (self.failure.name, self.host, self.kind)

    @property
    def lost(self):
        """How many calls have no result."""
        return self.calls - self.fates["ok"]

    @property
    def hit(self):
        """Whether a call was lost, or a session, a map or the lease of an upload was followed by another one."""
        return self.lost > 0 or (self.renewed > 0 and self.kind != "leases")

    def late(self, arguments):
        """The calls, uploads and leases that took longer than is promised, in words."""
        said = []
        for name, times, limit in (
            ("an upload" if self.kind == UPLOADS else "a call", self._answers, arguments.within),
            ("a lease", self._leases, arguments.lease_within),
        ):
            for begin, end in times:
                if _length(begin, end, self._away) > limit:
                    said.append("%s took %.2f s, and %g s are allowed" % (name, _length(begin, end, self._away), limit))
                    said[-1] += "".join(
                        "\n  at %.2f s a try failed after %.2f s: %s" % (tried - begin, failed - tried, why)
                        for tried, failed, why in self._refused
                        if name == "a lease" and begin <= tried and failed <= end
                    )
        return said

    def __str__(self):
        counts = (*(self.fates[fate] for fate in _FATES), self.other, self.renewed, len(self._refused))
        lease = "%.2f" % _longest(self._leases) if self.kind in (UPLOADS, "leases") else ""
        line = _LINE % (self.failure.name, self.host, self.kind, self.calls, *counts, _longest(self._answers), lease)
        return line.rstrip()


def _length(begin, end, away=()):
    """The time from begin to end, without the parts for which the client was away."""
    return end - begin - sum(max(0, min(end, back) - max(begin, gone)) for gone, back in away)


def _longest(times):
    return max((_length(begin, end) for begin, end in times), default=0.0)


class Span:
    """The times at which a failure began, was made good, and at which all work went on.

    Calls that end until then belong to it.
    """

    def __init__(self, failure, begin, end, next_one):
        self.failure = failure
        self.begin = begin
        self.end = end
        self.next = next_one

    def has(self, moment):
        """Whether a call, a lease or an upload that ended then belongs to it."""
        return self.begin < moment <= self.next

    def rows(self, seen, spans):
        """The rows of each client that lived. seen: by host and kind, as in cluster_report_client. spans: all spans."""
        return [
            Row(
                self,
                [(span.begin, span.end) for span in spans if host in span.failure.cut_off],
                host,
                kind,
                *(work[part] for part in ("calls", "renewed", "refused")),
            )
            for host, kinds in seen.items()
            if host not in self.failure.gone
            for kind, work in kinds.items()
        ]


class Marks:
    """How often each number's call ran, in files that functions have written. A context manager."""

    def __init__(self, paths):
        self._files = {path: open(path, "rb") for path in paths}
        self._maps = {
            path: mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for path, file in self._files.items()
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in (*self._maps.values(), *self._files.values()):
            each.close()

    def runs(self, number):
        """How often its call ran."""
        return sum(each[number] for each in self._maps.values())

    def is_in(self, path, number):
        """Whether its call ran on a worker that writes this file."""
        return self._maps[path][number] > 0

    def twice(self, first):
        """How many calls of one kind in one process of a client ran more than once."""
        runs = collections.Counter()
        for each in self._maps.values():
            part = each[first : first + NUMBERS_OF_A_KIND]
            for match in re.finditer(rb"[^\0]", part):
                runs[match.start()] += part[match.start()]
        return sum(count > 1 for count in runs.values())


class Verdict:
    """The mistakes with the calls of one kind of a client. There must be none."""

    def __init__(self, host, kind, work, firsts, marks):
        """work: has the form that cluster_report_client prints. firsts: each process of the client, also one that was
        killed, has its first number here.
        """
        self._host = host
        self._kind = kind
        self._calls = len(work["calls"])
        offset = KINDS.index(kind) * NUMBERS_OF_A_KIND
        self._twice = sum(marks.twice(first + offset) for first in firsts)
        self._wrong = sum(call[3] == "wrong" for call in work["calls"])
        self._untrue = sum(self._is_untrue(result, marks.runs(number)) for number, _, _, result in work["calls"])
        self._endless = work["endless"]

    @staticmethod
    def _is_untrue(result, runs):
        return (result in ("ok", "executed") and runs == 0) or (result in ("not_sent", "not_executed") and runs != 0)

    @property
    def bad(self):
        """How many mistakes."""
        return self._twice + self._wrong + self._untrue + self._endless

    def __str__(self):
        mistakes = (self._twice, self._wrong, self._untrue, self._endless)
        said = "run twice: %d, answered wrongly: %d, told an untruth about: %d, without an end: %d" % mistakes
        return "client %d, %s: %d calls; %s" % (self._host, self._kind, self._calls, said)


class Helpers:
    """The workers that have to answer calls during one failure, and how many calls each group of them answered."""

    def __init__(self, span, seen, marks):
        self._failure = span.failure
        self._counts = {}
        for name, (path, kinds) in span.failure.helpers.items():
            calls = [call for host in seen.values() for kind in kinds for call in host[kind]["calls"]]
            self._counts[name] = sum(
                call[3] == "ok" and span.has(call[2]) and marks.is_in(path, call[0]) for call in calls
            )

    def lines(self):
        """How many calls each answered, in words."""
        return ["%s: %s answered %d calls" % (self._failure.name, *each) for each in self._counts.items()]

    def complaints(self):
        """Those that had no calls, in words."""
        return [
            "%s: %s answered no call, so nothing was tested" % (self._failure.name, name)
            for name, count in self._counts.items()
            if count == 0
        ]


def print_rows(rows):
    """Prints the table."""
    print((_HEAD % ("failure", "client", "work", *_COLUMNS, "longest s", "lease s")).rstrip())
    for row in rows:
        print(row)


def complaints(rows, arguments):
    """Broken promises, as lines of text."""
    said = _untested(rows, every=not arguments.failure)
    for row in rows:
        said += ["%s: %s" % (row.place, late) for late in row.late(arguments)]
        # An upload is no call, so its error has no fate.
        without_fate = row.other + (row.fates[UNKNOWN] if row.kind != UPLOADS else 0)
        if without_fate:
            said.append("%s: %d calls with a wrong answer, or an error without a fate" % (row.place, without_fate))
        if row.lost and row.kind in row.failure.spares:
            said.append("%s: %d were lost, and none may be" % (row.place, row.lost))
        if row.renewed and row.kind == "map" and "map" in row.failure.spares:
            said.append("%s: %d maps ended early" % (row.place, row.renewed))
        if not row.answered_after and row.kind != UPLOADS:
            said.append("%s: nothing was answered after the failure" % row.place)
    return said


def _untested(rows, every):
    """Failures that hit none of the clients that they should hit. every: whether the rows are of all failures."""
    said = []
    for failure in {row.failure.name: row.failure for row in rows}.values():
        for kinds in _STRUCK:
            struck = [
                row.hit for row in rows if row.failure is failure and row.kind in kinds and row.host in failure.hits
            ]
            if struck and not any(struck):
                said.append("%s: %s lost nothing, so nothing was tested" % (failure.name, " and ".join(kinds)))
    # Only some of a map's items are under way when a worker is killed.
    if every and not any(row.hit for row in rows if row.kind == "map"):
        said.append("no map lost anything, so nothing was tested")
    return said

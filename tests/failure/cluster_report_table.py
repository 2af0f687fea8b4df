"""The table of the cluster's failure report: a row for each failure, client and kind of work."""

import collections
import mmap
import re

from cluster_report_client import KINDS, NUMBERS, NUMBERS_OF_A_KIND, UNSEEN

_FATES = ("ok", "not_sent", "not_executed", "maybe_executed", UNSEEN)
_HEAD = "%-23s %6s %-7s %7s %7s %8s %8s %6s %6s %6s %7s %9s %7s %8s"
_LINE = "%-23s %6d %-7s %7d %7d %8d %8d %6d %6d %6d %7d %9.2f %7s %8s"


class Row:
    """The ends of the calls of one kind of work of one client during one failure."""

    def __init__(self, span, away, host, kind, calls, renewed, uploaded):
        """away: the times for which the client was stopped or cut off. calls, renewed, uploaded: of all failures, as in
        cluster_report_client.
        """
        self.failure = span.failure
        self.host = host
        self.kind = kind
        self._away = away
        met = [call for call in calls if span.has(call[2])]
        self.calls = len(met)
        self.fates = collections.Counter(call[3] for call in met)
        self.other = self.calls - sum(self.fates[fate] for fate in _FATES)
        self._answers = [call[1:3] for call in met]
        self._leases = [times for times in renewed if span.has(times[1])]
        self._uploads = [times for times in uploaded if span.has(times[1])]
        self.renewed = len(self._leases)

    @property
    def lost(self):
        """How many calls have no result."""
        return self.calls - self.fates["ok"]

    @property
    def hit(self):
        """Whether a call was lost, or a session, a map or the lease of an upload was followed by another one."""
        return self.lost > 0 or (self.renewed > 0 and self.kind != "leases")

    def late(self, arguments):
        """Whether a call, an upload or a lease took longer than is promised."""
        ended = self._answers + self._uploads
        return _longest(ended, self._away) > arguments.within or _longest(self._leases, self._away) > arguments.lease_within

    def __str__(self):
        counts = (self.calls, *(self.fates[fate] for fate in _FATES), self.other, self.renewed)
        lease = "%.2f" % _longest(self._leases) if self.kind in ("uploads", "leases") else ""
        upload = "%.2f" % _longest(self._uploads) if self.kind == "uploads" else ""
        line = _LINE % (self.failure.name, self.host, self.kind, *counts, _longest(self._answers), lease, upload)
        return line.rstrip()


def _longest(times, away=()):
    """The longest of the times, without the parts for which the client was away."""
    overlap = lambda begin, end: sum(max(0, min(end, back) - max(begin, gone)) for gone, back in away)
    return max((end - begin - overlap(begin, end) for begin, end in times), default=0.0)


class Span:
    """The times at which a failure began, was made good, and at which the next one could begin. Calls that end until then belong to it."""

    def __init__(self, failure, begin, end, next_one):
        self.failure = failure
        self.begin = begin
        self.end = end
        self.next = next_one

    def has(self, moment):
        """Whether a call, a lease or an upload that ended then belongs to it."""
        return self.begin < moment <= self.next

    def rows(self, seen, spans):
        """The rows of each client that lived. seen: by host and kind, as in cluster_report_client. spans: all of them."""
        return [
            Row(self, [(span.begin, span.end) for span in spans if host in span.failure.cut_off], host, kind, **work)
            for host, kinds in seen.items()
            if host not in self.failure.gone
            for kind, work in kinds.items()
        ]


class Marks:
    """How often each number's call ran, in files that functions have written. A context manager."""

    def __init__(self, workers, pool):
        """workers, pool: the paths of the file of the hosts' workers, and of that of Slurm's."""
        self._files = [open(path, "rb") for path in (workers, pool)]
        self._maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in self._files]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self._maps + self._files:
            each.close()

    def runs(self, number):
        """How often its call ran."""
        return sum(each[number] for each in self._maps)

    def in_pool(self, number):
        """Whether its call ran on a worker of Slurm's."""
        return self._maps[1][number] > 0

    def twice(self, first):
        """How many calls of one kind in one process of a client ran more than once."""
        workers, pool = (each[first : first + NUMBERS_OF_A_KIND] for each in self._maps)
        both = sum(workers[match.start()] > 0 for match in re.finditer(rb"[^\0]", pool))
        return both + sum(len(part.translate(None, b"\0\1")) for part in (workers, pool))


class Verdict:
    """The mistakes with the calls of one kind of a client. There must be none."""

    def __init__(self, host, kind, calls, firsts, marks):
        """firsts: the first number of each process of the client, also of those that were killed."""
        self._host = host
        self._kind = kind
        self._calls = len(calls)
        offset = KINDS.index(kind) * NUMBERS_OF_A_KIND
        self._twice = sum(marks.twice(first + offset) for first in firsts)
        self._wrong = sum(call[3] == "wrong" for call in calls)
        self._untrue = sum(self._is_untrue(result, marks.runs(number)) for number, _, _, result in calls)

    @staticmethod
    def _is_untrue(result, runs):
        return (result in ("ok", "executed") and runs == 0) or (result in ("not_sent", "not_executed") and runs != 0)

    @property
    def bad(self):
        """How many mistakes."""
        return self._twice + self._wrong + self._untrue

    def __str__(self):
        return "client %d, %s: %d calls; run twice: %d, answered wrongly: %d, told an untruth about: %d" % (
            self._host, self._kind, self._calls, self._twice, self._wrong, self._untrue)


def calls_of_pool(span, seen, marks):
    """How many calls Slurm's workers have answered meanwhile."""
    calls = [call for kinds in seen.values() for work in kinds.values() for call in work["calls"]]
    return sum(marks.in_pool(call[0]) for call in calls if call[3] == "ok" and span.has(call[2]))


def print_rows(rows):
    """Prints the table."""
    print(_HEAD % ("failure", "client", "work", "calls", "ok", "not sent", "not exec", "maybe", "unseen", "other", "renewed",
                   "longest s", "lease s", "upload s"))
    for row in rows:
        print(row)


def complaints(rows, arguments):
    """Broken promises, as lines of text."""
    said = _untested(rows, every=not arguments.failure)
    for row in rows:
        place = "%s, client %d, %s" % (row.failure.name, row.host, row.kind)
        if row.late(arguments):
            said.append("%s: later than --within=%g, or --lease-within=%g" % (place, arguments.within, arguments.lease_within))
        if row.other:
            said.append("%s: %d calls with a wrong answer, or an error without a fate" % (place, row.other))
        if row.failure.spares and row.lost:
            said.append("%s: %d calls were lost" % (place, row.lost))
        if row.failure.graceful and row.kind in ("calls", "map") and row.fates["maybe_executed"]:
            said.append("%s: %d calls of a worker that ended by itself have an unknown end" % (place, row.fates["maybe_executed"]))
    return said


def _untested(rows, every):
    """Failures that hit none of the clients that they should hit. every: whether the rows are of all failures."""
    said = []
    for failure in {row.failure.name: row.failure for row in rows}.values():
        for kind in ("calls", "uploads"):
            struck = [row.hit for row in rows if row.failure is failure and row.kind == kind and row.host in failure.hits]
            if struck and not any(struck):
                said.append("%s: %s lost nothing, so nothing was tested" % (failure.name, kind))
    # Only some of a map's items are under way when a worker is killed.
    if every and not any(row.hit for row in rows if row.kind == "map"):
        said.append("no map lost anything, so nothing was tested")
    return said

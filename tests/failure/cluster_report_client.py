"""A client of the cluster's failure report. When its input ends, it prints the ends of all its calls as JSON.

    cluster_report_client.py CLUSTER FIRST_NUMBER PEER_TIMEOUT EXECUTORS MARKS

Each line of its input is a number of workers. The client prints "ready" when it has a session with so many, all calls
from before the line have ended, and a call of each kind of work from after the line has been answered.

Each call has a number of its own. Its function counts the call in the file MARKS. Certificates come from the
environment. A lease that could not be taken is tried again, and nothing else is. EXECUTORS is the size of the lease to
which the client uploads functions.
"""

import itertools
import json
import math
import os
import sys
import threading
import time
import traceback

import invoker

KINDS = ("calls", "map", "uploaded", "leases")
# The uploads themselves. They have no numbers.
UPLOADS = "uploads"
# Numbers of one process of a client, and of each kind of work in it.
NUMBERS = 1 << 23
NUMBERS_OF_A_KIND = NUMBERS // len(KINDS)
# The result of an item of a map that failed before it came to this item.
UNSEEN = "unseen"
# The fate of an error that does not come from a call, such as an upload's.
UNKNOWN = "unknown"

_IN_FLIGHT = 8
_PAYLOAD = bytes(1016)
# Seconds for which uploaded functions are called on fewer workers than there are, before a lease on all is tried again.
_PARTIAL_LEASE = 1.0
_BETWEEN_LEASES = 0.2  # seconds
_BETWEEN_TRIES = 0.01  # seconds, after a lease that could not be taken or a map that failed
# Seconds between calls of a thread, between items of a map, and between batches of calls of an uploaded function. Eight
# hosts share the processors of this machine. Without these pauses the report would measure how long threads wait for a
# processor.
_BETWEEN_CALLS = 0.005
_BETWEEN_ITEMS = 0.001
_BETWEEN_BATCHES = 0.01


def _request(number):
    """The input of failure.work."""
    return number.to_bytes(8, "little") + _PAYLOAD


def _is_answer(answer, number):
    return int.from_bytes(bytes(answer[:8]), "little") == number


def _close(lease):
    """Gives a lease back on a thread of its own, since the worker may be stopped or cut off."""
    threading.Thread(target=lease.close, daemon=True).start()


class Work:
    """One kind of work, and the ends of its calls."""

    KIND = None  # one of KINDS

    def __init__(self, group, first, ended):
        """first: the number of its first call. ended: the event after which nothing is begun."""
        self._group = group
        self._numbers = itertools.count(first)
        self._ended = ended
        self._under_way = {}  # the begin of each call that has not ended, by number
        self._answered = -math.inf  # the latest begin of a call that was answered
        self.calls = []  # number, begin, end, result: "ok", "wrong", a fate or UNSEEN
        self.renewed = []  # begin and end of each session, map or lease that followed another one
        self.refused = []  # begin, end and error of each try to take a lease that failed

    def threads(self):
        """The functions that its threads run."""
        raise NotImplementedError

    def seen(self):
        """All of it, by kind, for JSON. endless: how many calls have no end, which each should have by now."""
        work = {"calls": self.calls, "renewed": self.renewed, "refused": self.refused, "endless": len(self._under_way)}
        return {self.KIND: work}

    def goes_on(self, since):
        """Whether all calls from before a moment have ended, and a call from after it has been answered."""
        return self._answered > since and all(begin > since for begin in list(self._under_way.values()))

    def _begin(self):
        """Begins a call. Returns its number and the moment."""
        number, begin = next(self._numbers), time.monotonic()
        self._under_way[number] = begin
        return number, begin

    def _note(self, number, begin, result):
        self.calls.append((number, begin, time.monotonic(), result))
        if result == "ok":
            self._answered = max(self._answered, begin)
        del self._under_way[number]

    def _call(self, function):
        """Makes one call of failure.work. Returns whether it was answered."""
        number, begin = self._begin()
        try:
            result = "ok" if _is_answer(function(_request(number)), number) else "wrong"
        except invoker.InvokerError as error:
            result = error.fate
        self._note(number, begin, result)
        return result == "ok"

    def _refuse(self, begin, error):
        """Notes a try to take a lease that failed, and makes a pause before the next one."""
        self.refused.append((begin, time.monotonic(), str(error)))
        time.sleep(_BETWEEN_TRIES)


class Calls(Work):
    """Plain calls, eight at a time. Each new session of the group counts as renewed."""

    KIND = "calls"

    def threads(self):
        return [self._call_on] * _IN_FLIGHT + [self._watch_sessions]

    def _call_on(self):
        work = self._group.function("failure.work")
        while not self._ended.is_set():
            self._call(work)
            time.sleep(_BETWEEN_CALLS)

    def _watch_sessions(self):
        known = set(self._group.clients)
        while not self._ended.wait(0.05):
            sessions = set(self._group.clients)
            self.renewed += [(time.monotonic(),) * 2 for _ in sessions - known]
            known = sessions


class Map(Work):
    """A map over endless inputs, and another one after each that fails.

    Results have to come in the order of the inputs.
    """

    KIND = "map"

    def threads(self):
        return [self._map_on]

    def _map_on(self):
        while not self._ended.is_set():
            self._map()

    def _map(self):
        started = []  # (number, begin) of the items without a result

        def inputs():
            while not self._ended.is_set():
                time.sleep(_BETWEEN_ITEMS)
                started.append(self._begin())
                yield _request(started[-1][0])

        try:
            for answer in self._group.map("failure.work", inputs(), max_in_flight=_IN_FLIGHT):
                number, begin = started.pop(0)
                self._note(number, begin, "ok" if _is_answer(answer, number) else "wrong")
        except invoker.InvokerError as error:
            results = itertools.chain([error.fate], itertools.repeat(UNSEEN))
            for (number, begin), result in zip(started, results):
                self._note(number, begin, result)
            self.renewed.append((time.monotonic(),) * 2)
            time.sleep(_BETWEEN_TRIES)


class Uploads(Work):
    """Calls of a Python function that the client uploads to a lease on all workers.

    A lease that has lost an executor is renewed. Each answer names its lease. So an answer of an executor of an earlier
    lease is a wrong one.
    """

    KIND = "uploaded"

    def __init__(self, group, first, ended, executors, marks):
        super().__init__(group, first, ended)
        self._executors = executors
        self._marks = marks
        self._names = itertools.count()
        self._is_whole = False  # whether the lease has all its executors
        self.uploads = []  # None, begin, end, result: "ok" or a fate

    def threads(self):
        return [self._lease_on]

    def seen(self):
        seen = super().seen()
        # The leases belong to the uploads.
        leases = {name: seen[self.KIND][name] for name in ("renewed", "refused")}
        seen[self.KIND].update({name: [] for name in leases})
        return {UPLOADS: {"calls": self.uploads, "endless": 0, **leases}, **seen}

    def goes_on(self, since):
        return self._is_whole and super().goes_on(since)

    def _lease_on(self):
        wanted = time.monotonic()
        while not self._ended.is_set():
            begin = time.monotonic()
            try:
                lease = self._group.lease(executors=self._executors, at_least=1, spread="server")
            except invoker.InvokerError as error:
                self._refuse(begin, error)
                continue
            self.renewed.append((wanted, time.monotonic()))
            self._upload(lease, next(self._names))
            self._is_whole = False
            _close(lease)
            wanted = time.monotonic()

    def _upload(self, lease, name):
        """Uploads the function, and calls it."""
        begin = time.monotonic()
        try:
            work, result = lease.register(_uploaded(name, self._marks)), "ok"
        except invoker.InvokerError as error:
            work, result = None, error.fate
        self.uploads.append((None, begin, time.monotonic(), result))
        if work is not None:
            self._call_by(lease, name, work)

    def _call_by(self, lease, name, work):
        """Calls until the lease has lost an executor, or until it is time to try a lease on more workers."""
        # The servers of the executors that are left.
        servers = len(lease._native.servers())
        self._is_whole = servers >= self._executors
        limit = time.monotonic() + (math.inf if self._is_whole else _PARTIAL_LEASE)
        answered = True
        while answered and len(lease._native.servers()) == servers and time.monotonic() < limit:
            if self._ended.wait(_BETWEEN_BATCHES):
                return
            answered = self._calls(name, work)

    def _calls(self, name, work):
        """Makes some calls at the same time. Returns whether all were answered."""
        begun = []
        for _ in range(_IN_FLIGHT):
            number, begin = self._begin()
            begun.append((number, begin, work.submit(number)))
        results = []
        for number, begin, future in begun:
            try:
                results.append("ok" if future.result() == (name, number) else "wrong")
            except invoker.InvokerError as error:
                results.append(error.fate)
            self._note(number, begin, results[-1])
        return results == ["ok"] * len(begun)


def _uploaded(name, marks):
    """The function that the client uploads. It counts its run under a lock, since executors are processes."""

    def work(number):
        import fcntl
        import os

        with open(marks, "r+b", buffering=0) as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
            runs = os.pread(file.fileno(), 1, number)[0]
            os.pwrite(file.fileno(), bytes([runs + 1]), number)
        return name, number

    return work


class Leases(Work):
    """Takes leases of one executor, one after the other, and makes one call on each."""

    KIND = "leases"

    def __init__(self, group, first, ended, marks):
        super().__init__(group, first, ended)
        self._marks = marks

    def threads(self):
        return [self._lease_on]

    def _lease_on(self):
        wanted = time.monotonic()
        while not self._ended.is_set():
            if self._lease(wanted):
                self._ended.wait(_BETWEEN_LEASES)
                wanted = time.monotonic()

    def _lease(self, wanted):
        """Takes a lease, and makes a call on it. Returns whether that was answered."""
        begin = time.monotonic()
        try:
            lease = self._group.lease(python=False)
        except invoker.InvokerError as error:
            self._refuse(begin, error)
            return False
        try:
            lease.call("failure.open", self._marks.encode())
        except invoker.InvokerError as error:
            _close(lease)
            self._refuse(begin, error)
            return False
        self.renewed.append((wanted, time.monotonic()))
        answered = self._call(lease.function("failure.work"))
        _close(lease)
        return answered


def _fail(failure):
    """Ends the program when one of its threads fails, so that the report fails too."""
    traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)


def _answers(session):
    """Whether the worker of a session answers."""
    try:
        session.ping(timeout=1.0)
    except invoker.InvokerError:
        return False
    return True


def _await_work(group, every, workers):
    """Waits until so many workers answer in their sessions, and all work goes on. The report limits the time."""
    since = time.monotonic()
    while not all(work.goes_on(since) for work in every) or sum(map(_answers, group.clients)) < workers:
        time.sleep(0.02)


def main(cluster, first, peer_timeout, executors, marks):
    """Runs the client."""
    threading.excepthook = _fail
    # Threads that wait sleep: eight hosts share the processors of this machine.
    group = invoker.connect(cluster, provider="tcp;ofi_rxm", peer_timeout=float(peer_timeout), hot_timeout=0)
    ended = threading.Event()
    firsts = itertools.count(int(first), NUMBERS_OF_A_KIND)
    every = [
        Calls(group, next(firsts), ended),
        Map(group, next(firsts), ended),
        Uploads(group, next(firsts), ended, int(executors), marks),
        Leases(group, next(firsts), ended, marks),
    ]
    threads = [threading.Thread(target=run, daemon=True) for work in every for run in work.threads()]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        _await_work(group, every, int(line))
        print("ready", flush=True)
    ended.set()
    for thread in threads:
        thread.join()
    json.dump({kind: part for work in every for kind, part in work.seen().items()}, sys.stdout)
    sys.stdout.flush()
    # Leases whose worker does not answer are still being given back.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

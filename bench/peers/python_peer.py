"""The Python side of the programs that have one: makes calls as it is told and says how long each took.

    python_peer.py HOST:PORT PROVIDER

Prints "ready" once connected. Then, for each line of standard input,
    burst BYTES COUNT API
it makes COUNT calls, each timed, and prints their nanoseconds in one line. In between it blocks on standard input. Ends when
standard input does.
"""

import asyncio
import itertools
import math
import sys
import time

import invoker

clock = time.perf_counter_ns


class Peer:
    """One client, and a loop for each way to call with it."""

    def __init__(self, client):
        self.client = client
        self.noop = client.function("noop")
        self.events = asyncio.new_event_loop()

    def burst(self, size, count, api):
        """The nanoseconds of each of count calls of size bytes."""
        return getattr(self, api)(bytearray(size), [0] * count)

    def function_out(self, data, times):
        """A function object's call into a buffer of the caller's."""
        noop, out = self.noop, bytearray(len(data))
        for i in range(len(times)):
            begin = clock()
            noop(data, out=out)
            times[i] = clock() - begin
        return times

    def call_out(self, data, times):
        """The client's call by name, into a buffer of the caller's."""
        client, out = self.client, bytearray(len(data))
        for i in range(len(times)):
            begin = clock()
            client.call("noop", data, out=out)
            times[i] = clock() - begin
        return times

    def call_numpy(self, data, times):
        """The same with arrays of numpy's on both sides."""
        import numpy

        client, out = self.client, numpy.zeros(len(data), numpy.uint8)
        data = numpy.frombuffer(data, numpy.uint8)
        for i in range(len(times)):
            begin = clock()
            client.call("noop", data, out=out)
            times[i] = clock() - begin
        return times

    def call(self, data, times):
        """The client's call by name, whose result is new memory."""
        client = self.client
        for i in range(len(times)):
            begin = clock()
            client.call("noop", data)
            times[i] = clock() - begin
        return times

    def submit(self, data, times):
        """A future, waited for at once."""
        client = self.client
        for i in range(len(times)):
            begin = clock()
            client.submit("noop", data).result()
            times[i] = clock() - begin
        return times

    def acall(self, data, times):
        """A call awaited on an event loop."""

        async def run():
            client = self.client
            for i in range(len(times)):
                begin = clock()
                await client.acall("noop", data)
                times[i] = clock() - begin

        self.events.run_until_complete(run())
        return times

    def rate_blocking(self, data, times):
        """Calls one after the other, timed together, like all that follow."""
        noop = self.noop
        begin = clock()
        for _ in times:
            noop(data)
        return shared(begin, times)

    def rate_submit(self, data, times):
        """Futures, each waited for at once."""
        submit = self.noop.submit
        begin = clock()
        for _ in times:
            submit(data).result()
        return shared(begin, times)

    def rate_submit_64(self, data, times):
        """Futures, 64 at a time."""
        submit = self.noop.submit
        begin = clock()
        for first in range(0, len(times), 64):
            for future in [submit(data) for _ in times[first : first + 64]]:
                future.result()
        return shared(begin, times)

    def rate_map(self, data, times):
        """A map, by default."""
        return self._map(data, times)

    def rate_map_64(self, data, times):
        """A map with 64 calls under way."""
        return self._map(data, times, max_in_flight=64)

    def _map(self, data, times, **options):
        begin = clock()
        for _ in self.noop.map(itertools.repeat(data, len(times)), **options):
            pass
        return shared(begin, times)

    def rate_acall(self, data, times):
        """Calls awaited on an event loop."""

        async def run():
            acall = self.noop.acall
            begin = clock()
            for _ in times:
                await acall(data)
            return shared(begin, times)

        return self.events.run_until_complete(run())

    def rate_gather_64(self, data, times):
        """Calls gathered on an event loop, 64 at a time."""
        return self.events.run_until_complete(gathered(self.noop.acall, data, times))

    def rate_gather_none(self, data, times):
        """The same without calls."""

        async def nothing(data):
            pass

        return self.events.run_until_complete(gathered(nothing, data, times))

    def half(self, data, times):
        """A function object's call, whose result is half as long, in new memory."""
        half = self.client.function("half")
        for i in range(len(times)):
            begin = clock()
            half(data)
            times[i] = clock() - begin
        return times

    def first(self, data, times):
        """The same bytes as two arrays of numpy's, and an array for a result."""
        import numpy

        first, array = self.client.typed("first"), numpy.zeros(len(data) // 16 - 1)
        for i in range(len(times)):
            begin = clock()
            first(array, array)
            times[i] = clock() - begin
        return times

    def add(self, data, times):
        """A call of python_server.py's function of two small objects."""
        add = self.client.remote("add")
        for i in range(len(times)):
            begin = clock()
            add(i, 1)
            times[i] = clock() - begin
        return times

    def echo_out(self, data, times):
        """An echo into a buffer of the caller's, whose pages the first call is the first to touch."""
        client, out = self.client, bytearray(len(data))
        for i in range(len(times)):
            begin = clock()
            client.call("echo", data, out=out)
            times[i] = clock() - begin
        return times

    def two_copies(self, data, times):
        """What an echo has to do at least: two copies, each into new memory."""
        for i in range(len(times)):
            begin = clock()
            bytes(bytes(memoryview(data)))
            times[i] = clock() - begin
        return times

    def nothing(self, data, times):
        """No call: what is timed in every other loop besides one."""
        for i in range(len(times)):
            begin = clock()
            times[i] = clock() - begin
        return times


async def gathered(function, data, times):
    """The times of awaiting function(data), 64 at a time."""
    begin = clock()
    for first in range(0, len(times), 64):
        await asyncio.gather(*[function(data) for _ in times[first : first + 64]])
    return shared(begin, times)


def shared(begin, times):
    """The time since begin, shared equally."""
    return [(clock() - begin) // len(times)] * len(times)


def main():
    """Reads what to do, does it, and prints the times."""
    address, provider = sys.argv[1:]
    with invoker.connect(address, provider=provider, connect_timeout=60, peer_timeout=math.inf) as client:
        peer = Peer(client)
        print("ready", flush=True)
        for line in iter(sys.stdin.readline, ""):
            _, size, count, api = line.split()
            print(*peer.burst(int(size), int(count), api), flush=True)
        peer.events.close()


if __name__ == "__main__":
    main()

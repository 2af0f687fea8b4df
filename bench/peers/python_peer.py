"""The Python side of python_overhead, typed_calls and slow_neighbours: makes calls as it is told and says how long each took.

    python_peer.py HOST:PORT PROVIDER

Prints "ready" once connected. Then, for each line of standard input,
    burst BYTES COUNT API
it makes COUNT calls, each timed, and prints their nanoseconds in one line. In between it blocks on standard input. Ends when
standard input does.
"""

import asyncio
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
        self.waiting = []

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

    def naps(self, data, times):
        """Not timed: 64 calls that wait for 100 ms each. Those of the last time have ended."""
        for nap in self.waiting:
            nap.result()
        nap = self.client.typed("nap").options(response_capacity=64)
        self.waiting = [nap.submit(100) for _ in range(64)]
        return times

    def nothing(self, data, times):
        """No call: what is timed in every other loop besides one."""
        for i in range(len(times)):
            begin = clock()
            times[i] = clock() - begin
        return times


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

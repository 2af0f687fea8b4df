#!/usr/bin/python3
"""Serves a function that waits for sockets, as a coroutine, and calls it many times at once.

    examples/run socket_gateway

The function "ask" asks another server over TCP, and takes no thread while it waits. The other server is in this program, too. It
answers nothing until all questions have come, so the program ends only if all calls wait at the same time.
examples/cpp/socket_gateway.cc is the same in C++.
"""

import asyncio
import contextlib
import socket
import sys

import invoker

CALLS = 100  # at a time


def main() -> int:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=CALLS))
        listener.settimeout(30)

        @invoker.typed("(str) -> str")
        async def ask(question):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            try:
                writer.write(question.encode() + b"\n")
                return (await reader.readline()).decode().rstrip("\n")
            finally:
                writer.close()
                await writer.wait_closed()

        @invoker.typed("(f64) -> f64")
        def twice(number):
            return 2 * number

        server = stack.enter_context(invoker.serve({"ask": ask, "twice": twice}))
        client = stack.enter_context(invoker.connect(server.address))
        questions = ["question %d" % i for i in range(CALLS)]
        # Each call says how much room its answer needs, so that all of them find some.
        remote_ask = client.typed("ask").options(timeout=30, response_capacity=256)
        answers = [remote_ask.submit(question) for question in questions]

        # From here on this thread is the other server.
        asked = []
        for _ in questions:
            connection = stack.enter_context(listener.accept()[0])
            connection.settimeout(30)
            asked.append((connection, stack.enter_context(connection.makefile("rb")).readline()))
        meanwhile = client.typed("twice")(21)
        # The last one is answered first.
        for connection, question in reversed(asked):
            connection.sendall(b"the answer to " + question)

        assert [answer.result() for answer in answers] == ["the answer to " + question for question in questions]
        assert meanwhile == 42
    print("%d calls of ask waited for sockets at the same time, and all have their answers" % CALLS)
    print("twice(21) answered meanwhile: %g" % meanwhile)
    return 0


if __name__ == "__main__":
    sys.exit(main())

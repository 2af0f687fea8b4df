"""What a program sets for SIGINT and SIGTERM stays while a fabric opens, though libfabric installs handlers of its own."""

import signal

import pytest
from conftest import run_script

# In a process of its own. A proxy before the server keeps connect() waiting, before it opens a fabric, until the main thread
# has set what it wants.
_PROGRAM = """
    import ctypes, socket

    host, _, port = ADDRESS.rpartition(":")
    listening = socket.create_server(("127.0.0.1", 0))
    asked, may_go_on = threading.Event(), threading.Event()

    def hand_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve():
        while True:
            one = listening.accept()[0]
            asked.set()
            may_go_on.wait()
            other = socket.create_connection((host, int(port)))
            for pair in ((one, other), (other, one)):
                threading.Thread(target=hand_on, args=pair, daemon=True).start()

    def connect():
        clients.append(invoker.connect("127.0.0.1:%d" % listening.getsockname()[1], connect_timeout=60))

    def handler(number):
        action = (ctypes.c_void_p * 64)()
        ctypes.CDLL(None).sigaction(int(number), None, action)
        return action[0] or 0

    clients = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("before"))
    connecting = threading.Thread(target=connect)
    threading.Thread(target=serve, daemon=True).start()
    connecting.start()
    asked.wait()
    for number in numbers:
        signal.signal(number, SET)
    may_go_on.set()
    connecting.join()
    print(clients[0].provider, bytes(clients[0].call("echo", b"x")), flush=True)
"""


def run(server, set_meanwhile, then):
    program = _PROGRAM.replace("SET", set_meanwhile) + "    %s\n" % then
    # Warnings would be of sockets that the proxy leaves open.
    done = run_script(program, server.address, check=False, options=())
    assert done.stderr == ""
    first, _, rest = done.stdout.partition("\n")
    assert first == "%s b'x'" % server.provider
    return done.returncode, rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_default_actions_set_while_a_fabric_opens_stay(server, number):
    then = "signal.raise_signal(%d); print('alive')" % number
    assert run(server, "signal.SIG_DFL", then) == (-number, "")


def test_signals_ignored_while_a_fabric_opens_stay_so(server):
    then = "print(*map(handler, numbers))"
    assert run(server, "signal.SIG_IGN", then) == (0, "%d %d\n" % (signal.SIG_IGN, signal.SIG_IGN))


def test_handlers_set_while_a_fabric_opens_stay(server):
    then = "[signal.raise_signal(number) for number in numbers * 2]"
    assert run(server, "lambda number, _: print(number)", then) == (0, "2\n15\n2\n15\n")

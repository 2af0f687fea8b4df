"""What goes wrong, as exceptions."""

import asyncio
import contextlib
import pickle
import signal
import socket
import struct
import time

import invoker
import pytest
from conftest import microseconds


def test_a_function_that_fails_gives_its_message_and_code(client):
    with pytest.raises(invoker.FunctionFailed, match="oh no") as caught:
        client.call("test.fail", b"oh no")
    error = caught.value
    assert (error.status, error.fate, error.code) == ("UNKNOWN", "executed", -1)
    with pytest.raises(invoker.FunctionFailed, match="own words") as caught:
        client.call("test.fail_with_code", struct.pack("<i", -1234) + b"own words")
    assert caught.value.code == -1234


def test_messages_that_are_not_utf8_are_decoded_nevertheless(client):
    with pytest.raises(invoker.FunctionFailed, match="caf\N{REPLACEMENT CHARACTER}!"):
        client.call("test.fail", b"caf\xe9!")


@pytest.mark.parametrize("name", ["test.throw", "test.throw_int", "broken.overclaim", "broken.silent"])
def test_functions_that_misbehave_have_failed(client, name):
    with pytest.raises(invoker.FunctionFailed):
        client.call(name, b"x")
    assert client.call("echo", b"still there") == b"still there"


def test_an_unknown_function_is_not_found_and_those_there_are_listed(client):
    for use in (client.call, client.submit, client.function):
        with pytest.raises(invoker.NotFound, match='"nope".*thumbnail') as caught:
            use("nope")
        assert isinstance(caught.value, LookupError)
        assert (caught.value.status, caught.value.fate) == ("NOT_FOUND", "not_sent")


def test_a_deadline_that_passes_is_a_timeout(client, rendezvous):
    with pytest.raises(invoker.DeadlineExceeded) as caught:
        client.call("test.rendezvous", rendezvous.path, timeout=0.2)
    rendezvous.release()
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.status == "DEADLINE_EXCEEDED"
    assert caught.value.fate == "maybe_executed"
    for timeout in (0, -1):
        with pytest.raises(TimeoutError) as caught:
            client.call("echo", b"", timeout=timeout)
        assert caught.value.fate == "not_sent"
    assert client.call("echo", b"x", timeout=60) == b"x"
    assert client.call("echo", b"x", timeout=float("inf")) == b"x"
    with pytest.raises(ValueError, match="timeout"):
        client.call("echo", b"x", timeout=float("nan"))
    with pytest.raises(TypeError):
        client.call("echo", b"x", timeout="soon")


def test_a_call_that_timed_out_gives_its_room_back_when_it_is_answered(client, rendezvous):
    with pytest.raises(TimeoutError):
        client.call("test.rendezvous", rendezvous.path, timeout=0.2, response_capacity=client.max_payload // 2)
    rendezvous.release()
    # The one executor answers this after the first.
    client.ping(timeout=60)
    assert client.call("echo", bytes(client.max_payload)) == bytes(client.max_payload)


def test_late_answers_are_noticed_even_if_nothing_else_can_be_sent(client, rendezvous):
    whole = bytes(client.max_payload)
    with pytest.raises(TimeoutError):
        client.call("test.rendezvous", rendezvous.path, timeout=0.2, response_capacity=len(whole))
    rendezvous.release()
    while True:
        try:
            assert client.call("echo", whole) == whole
            break
        except invoker.ResourceExhausted as error:
            assert error.fate == "not_sent"


@pytest.mark.parametrize("how", ["call", "submit"])
def test_a_retry_that_makes_no_sense_is_refused(client, how):
    for wrong in (-1, 2**40):
        with pytest.raises(invoker.InvalidArgument, match="retry=%d" % wrong) as caught:
            outcome = getattr(client, how)("echo", b"x", retry=wrong)
            outcome.result()
        assert caught.value.fate == "not_sent"
    with pytest.raises(TypeError):
        getattr(client, how)("echo", b"x", retry="1")


def test_a_response_without_room_is_resource_exhausted(client):
    with pytest.raises(invoker.ResourceExhausted) as caught:
        client.call("test.too_small", b"")
    assert caught.value.fate == "executed"


def test_a_closed_client_is_a_failed_precondition(client):
    echo = client.function("echo")
    client.close()
    client.close()
    for use in (
        lambda: client.call("echo", b""),
        lambda: client.submit("echo", b""),
        lambda: echo(b""),
        lambda: client.functions(),
        lambda: client.function("echo"),
        lambda: client.ping(),
        lambda: client.provider,
    ):
        with pytest.raises(invoker.FailedPrecondition, match="closed"):
            use()
    assert "closed" in repr(client)


def test_nobody_there_is_unavailable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % unused.getsockname()[1]
        with pytest.raises(invoker.Unavailable, match=address) as caught:
            invoker.connect(address, connect_timeout=2)
    assert isinstance(caught.value, ConnectionError)
    assert caught.value.fate == "unknown"


def test_calls_wait_for_a_server_that_was_stopped_as_long_as_their_client_says(own_server, rendezvous):
    with contextlib.ExitStack() as opened:
        clients = [
            opened.enter_context(invoker.connect(own_server.address, **options))
            for options in ({"peer_timeout": 1}, {"peer_timeout": 2}, {"peer_timeout": 3600})
        ]
        *impatient, patient = [client.submit("test.rendezvous", rendezvous.path) for client in clients]
        rendezvous.wait_until_running()
        own_server.process.send_signal(signal.SIGSTOP)
        try:
            for call in impatient:
                assert isinstance(call.exception(60), invoker.Unavailable)
            # Were the patient one as impatient, it would have ended as well by now.
            time.sleep(2.5)
        finally:
            own_server.process.send_signal(signal.SIGCONT)
        for _ in range(3):
            rendezvous.release()
        assert patient.result(60) == b"held"


def test_a_peer_timeout_too_short_for_heartbeats_is_refused(server):
    with pytest.raises(invoker.InvalidArgument, match="a peer timeout of 1ms"):
        invoker.connect(server.address, peer_timeout=0.001)


def test_pieces_longer_than_any_fabric_sends_are_refused(server):
    with pytest.raises(invoker.InvalidArgument, match="pieces_up_to=-1"):
        invoker.connect(server.address, pieces_up_to=-1)
    with pytest.raises(TypeError, match="pieces_up_to"):
        invoker.connect(server.address, pieces_up_to=1.5)
    with invoker.connect(server.address, pieces_up_to=0) as client:
        assert client.call("echo", b"x" * 20000) == b"x" * 20000
    if server.ready["provider"] == "shm":
        with pytest.raises(invoker.InvalidArgument, match="pieces_up_to=65537"):
            invoker.connect(server.address, pieces_up_to=65537)


def test_another_provider_than_the_workers_is_refused(server):
    other = "shm" if server.ready["provider"] != "shm" else "tcp;ofi_rxm"
    with pytest.raises(invoker.InvokerError) as caught:
        invoker.connect(server.address, provider=other)
    assert other in str(caught.value) and server.ready["provider"] in str(caught.value)
    assert isinstance(caught.value, invoker.FailedPrecondition)


@pytest.mark.parametrize(
    "options",
    [
        {"notify": "loudly"},
        {"data_auth": "loudly"},
        {"window": 0},
        {"window": -4096},
        {"window": 5000},
        {"window": 2**70},
        {"hot_timeout": float("nan")},
        {"hot_timeout": -1},
        {"connect_timeout": 0},
        {"connect_timeout": -1},
        {"peer_timeout": 0},
        {"peer_timeout": -1},
        {"peer_timeout": float("nan")},
        {"provider": "\udc80"},
    ],
    ids=ascii,
)
def test_options_out_of_range_are_value_errors(server, options):
    with pytest.raises(ValueError, match="|".join(options)):
        invoker.connect(server.address, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"server": 7000},
        {"server": b"127.0.0.1:7000"},
        {"provider": 5},
        {"fabric_address": 5},
        {"notify": None},
        {"data_auth": None},
        {"window": "1M"},
        {"window": 4096.0},
        {"connect_timeout": "1"},
        {"hot_timeout": None},
        {"peer_timeout": "1"},
        {"peer_timeout": None},
    ],
    ids=str,
)
def test_options_of_a_wrong_type_are_named(server, options):
    (name,) = options
    with pytest.raises(TypeError, match="^%s must be" % name):
        invoker.connect(**{"server": server.address, **options})


def test_arguments_of_calls_of_a_wrong_type_are_named(client):
    data = b"1234" * 1000
    for name, wrong in (("timeout", "1"), ("response_capacity", 1.5)):
        for start in (client.submit, lambda *args, **options: asyncio.run(client.acall(*args, **options))):
            with pytest.raises(TypeError, match="^%s must be" % name):
                start("echo", data, **{name: wrong})
        with pytest.raises(TypeError):
            client.call("echo", data, **{name: wrong})
        with pytest.raises(TypeError, match="^%s must be" % name):
            client.remote("echo", **{name: wrong})(data)
    with pytest.raises(invoker.InvalidArgument):
        client.submit("echo", data, response_capacity=2**70)
    for use in (client.function, client.call, client.submit):
        with pytest.raises(TypeError, match="name must be a str, not int"):
            use(5)
    with pytest.raises(TypeError, match="^size must be"):
        client.ping("1")
    for many, error in ((0, ValueError), (-1, ValueError), ("3", TypeError), (1.5, TypeError)):
        with pytest.raises(error, match="max_in_flight"):
            client.map("echo", [data], max_in_flight=many)


def test_an_answer_that_is_a_request_is_no_functions_of_objects(client):
    # What echo makes of it is the request again.
    with pytest.raises(invoker.InvalidArgument, match=r"echo.*call\(\)") as caught:
        client.remote("echo")(1)
    assert caught.value.fate == "executed"


def test_a_malformed_address_is_refused():
    with pytest.raises(invoker.InvalidArgument):
        invoker.connect("no port")


def test_every_class_has_a_status_of_its_own():
    classes = [
        value
        for value in vars(invoker).values()
        if isinstance(value, type) and issubclass(value, invoker.InvokerError)
    ]
    statuses = {cls.status for cls in classes}
    # InvokerError, UnknownError, FunctionFailed and RemoteError share UNKNOWN.
    assert len(statuses) == len(classes) - 3 == 16


def test_exceptions_can_be_pickled():
    sent = invoker.FunctionFailed("text", fate="executed", code=-5)
    got = pickle.loads(pickle.dumps(sent))
    assert (type(got), str(got), got.fate, got.code) == (type(sent), "text", "executed", -5)
    sent = invoker.Unavailable("text", fate="maybe_executed")
    got = pickle.loads(pickle.dumps(sent))
    assert (type(got), str(got), got.fate) == (type(sent), "text", "maybe_executed")

"""TLS, tokens and policies from Python, on both sides."""

import contextlib
import hashlib
import os
import subprocess

import invoker
import pytest
from conftest import OWN_USER, Server

TOKEN = "a-token-of-the-test-0123456789"


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A directory with ca.pem, and server.pem and client.pem with their keys."""
    place = tmp_path_factory.mktemp("certificates")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", place / "ca.key", "-out", place / "ca.pem", "-subj", "/CN=test")
    (place / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        request = place / (name + ".csr")
        openssl("req", *new_key, "-keyout", place / (name + ".key"), "-out", request, "-subj", "/O=Example/CN=" + name)
        openssl(
            "x509", "-req", "-in", request, "-CA", place / "ca.pem", "-CAkey", place / "ca.key", "-CAcreateserial",
            "-extfile", place / "names", "-out", place / (name + ".pem"),
        )  # fmt: skip
        os.chmod(place / (name + ".key"), 0o600)
    return place


def secret(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_server_of_python_functions_asks_for_certificate_and_token(certificates, tmp_path):
    with invoker.serve(
        {"echo": bytes},
        tls_cert=certificates / "server.pem",
        tls_key=certificates / "server.key",
        tls_client_ca=certificates / "ca.pem",
        token_file=secret(tmp_path / "token", TOKEN),
    ) as server:
        tls = {"tls_ca": certificates / "ca.pem"}
        own = {"tls_cert": certificates / "client.pem", "tls_key": certificates / "client.key"}
        with invoker.connect(server.address, token_file=tmp_path / "token", **tls, **own) as client:
            assert bytes(client.call("echo", b"abc")) == b"abc"
        with pytest.raises(invoker.FailedPrecondition, match="speaks TLS"):
            invoker.connect(server.address)
        with pytest.raises(invoker.Unauthenticated, match="asks clients for a certificate"):
            invoker.connect(server.address, token_file=tmp_path / "token", **tls)
        with pytest.raises(invoker.Unauthenticated, match="asks for a token"):
            invoker.connect(server.address, **tls, **own)
        wrong = secret(tmp_path / "wrong", "another-token-0123456789")
        with pytest.raises(invoker.Unauthenticated) as refused:
            invoker.connect(server.address, token_file=wrong, **tls, **own)
        assert "another-token" not in str(refused.value)


def test_leases_use_what_connect_was_given(certificates, tmp_path):
    token = secret(tmp_path / "token", TOKEN)
    policy = tmp_path / "policy"
    policy.write_text(
        'tenant { name: "me" token_sha256: "%s" function: "test.*" max_cores: 1 }\n'
        % hashlib.sha256(TOKEN.encode()).hexdigest()
    )
    server = Server(
        "tcp;ofi_rxm",
        "--lease-cores=2",
        "--policy=%s" % policy,
        "--tls-cert=%s" % (certificates / "server.pem"),
        "--tls-key=%s" % (certificates / "server.key"),
    )
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        with invoker.connect(server.address, tls_ca=certificates / "ca.pem", token_file=token) as client:
            assert client.functions() and all(name.startswith("test.") for name in client.functions())
            assert client.capacity().cores == 2
            with pytest.raises(invoker.PermissionDenied, match="1 core"):
                client.lease(executors=2)
            with client.lease() as lease:
                assert bytes(lease.call("test.echo", b"abc")) == b"abc"
                with pytest.raises(invoker.ResourceExhausted, match="me"):
                    client.lease()
            with pytest.raises(invoker.PermissionDenied, match="someone"):
                client.lease(tenant="someone")


def test_the_environment_is_enough(certificates, tmp_path, monkeypatch):
    with invoker.serve(
        {"echo": bytes},
        tls_cert=str(certificates / "server.pem"),
        tls_key=str(certificates / "server.key"),
        token_file=secret(tmp_path / "token", TOKEN),
    ) as server:
        monkeypatch.setenv("INVOKER_TLS_CA", str(certificates / "ca.pem"))
        monkeypatch.setenv("INVOKER_TOKEN_FILE", str(tmp_path / "token"))
        with invoker.connect(server.address) as client:
            assert bytes(client.call("echo", b"abc")) == b"abc"


def test_plaintext_stays_on_this_machine(tmp_path):
    with pytest.raises(invoker.InvalidArgument, match="--allow-plaintext"):
        invoker.serve({"echo": bytes}, listen="0.0.0.0:0")
    with pytest.raises(invoker.InvalidArgument, match="plaintext=True"):
        invoker.connect("192.0.2.1:7000", connect_timeout=0.2)
    open_to_all = tmp_path / "token"
    open_to_all.write_text(TOKEN)
    open_to_all.chmod(0o644)
    with pytest.raises(invoker.FailedPrecondition, match="chmod 600"):
        invoker.connect("127.0.0.1:1", token_file=open_to_all)


@pytest.fixture
def tenants(tmp_path):
    """A policy with two tenants, and the file of each one's token by its name."""
    tokens = {name: secret(tmp_path / name, "the-token-of-%s-0123456789" % name) for name in ("ann", "bob")}
    policy = tmp_path / "policy"
    policy.write_text(
        "".join(
            'tenant { name: "%s" token_sha256: "%s" function: "*" upload: "python" max_cores: 1 }\n'
            % (name, hashlib.sha256(token.read_text().encode()).hexdigest())
            for name, token in tokens.items()
        )
    )
    return policy, tokens


def tenant():
    return invoker.context().tenant


async def tenant_of_coroutine():
    import asyncio

    before = invoker.context().tenant
    await asyncio.sleep(0)
    assert invoker.context().tenant == before
    return before


def test_a_function_learns_its_callers_tenant(tenants):
    policy, tokens = tenants
    functions = {
        "typed": invoker.typed("() -> str")(tenant),
        "coroutine": invoker.typed("() -> str")(tenant_of_coroutine),
        "thread": invoker.typed("() -> str", concurrency=2)(tenant),
    }
    objects = {
        "objects": invoker.pickled(tenant),
        "objects_coroutine": invoker.pickled(tenant_of_coroutine),
        "objects_thread": invoker.pickled(tenant, concurrency=2),
    }
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(invoker.serve({**functions, **objects}, provider="tcp;ofi_rxm", policy=policy))
        clients = {
            name: stack.enter_context(invoker.connect(server.address, token_file=token)) for name, token in tokens.items()
        }
        for _ in range(2):
            for name, client in clients.items():
                assert [client.typed(each)() for each in functions] == [name] * 3
                assert [client.remote(each)() for each in objects] == [name] * 3


def test_a_function_in_a_lease_learns_its_callers_tenant(tenants):
    policy, tokens = tenants
    server = Server(
        "tcp;ofi_rxm", "--lease-cores=2", "--lease-memory=2G", "--allow-upload=python", "--python=/usr/bin/python3",
        "--policy=%s" % policy, OWN_USER,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        for name, token in tokens.items():
            client = stack.enter_context(invoker.connect(server.address, token_file=token))
            lease = stack.enter_context(client.lease())
            for number, function in enumerate((tenant, tenant_of_coroutine)):
                assert lease.register(function)() == name
                assert lease.register(invoker.typed("() -> str")(function), name="typed-%d" % number)() == name

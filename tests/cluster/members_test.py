"""Clusters: servers that register in etcd, groups that follow them, files and lists of servers."""

import contextlib
import json
import subprocess
import threading

import invoker
import pytest
from conftest import Server, comes_true, loopback_address_of_its_own, microseconds, run_script, hearing
from etcd import Etcd, loopback_address

PROVIDER = "tcp;ofi_rxm"


@pytest.fixture(scope="module")
def etcd():
    with Etcd() as running:
        yield running


@pytest.fixture
def cluster(etcd, request):
    """The address of a cluster of the test's own."""
    return etcd.address(request.node.name.replace("[", ".").replace("]", "")[:64])


@contextlib.contextmanager
def serving(cluster, *options, listen="127.0.0.1:0"):
    server = Server(PROVIDER, "--cluster=" + cluster, *options, listen=listen)
    try:
        yield server
    finally:
        if server.process.returncode is None:
            server.stop()


def name_of(cluster):
    return cluster.rpartition("/")[2]


def members(etcd, cluster):
    return etcd.entries("/invoker/%s/members/" % name_of(cluster))


def await_members(etcd, cluster, count):
    assert comes_true(lambda: len(members(etcd, cluster)) == count)


def servers_of(group):
    return set(group._native.servers())


def test_a_server_says_in_the_cluster_what_it_is(etcd, cluster):
    with serving(cluster, "--label=zone=a", "--label=rack=r=7", "--lease-cores=3", "--lease-memory=96M") as server:
        await_members(etcd, cluster, 1)
        ((key, entry),) = members(etcd, cluster).items()
        assert key.endswith("/" + entry["incarnation"]) and len(entry["incarnation"]) == 16
        assert entry["server"] == server.address
        assert entry["fabrics"] == [PROVIDER]
        assert entry["cores"] == 3 and entry["memory_bytes"] == str(96 << 20)
        assert "echo" in entry["functions"]
        assert entry["labels"] == {"zone": "a", "rack": "r=7"}
        load = "/invoker/%s/loads/%s" % (name_of(cluster), entry["incarnation"])
        assert comes_true(lambda: etcd.entries(load))
        with invoker.connect(server.address) as client, client.lease(executors=2, python=False):
            assert comes_true(lambda: etcd.entries(load)[load].get("free_cores") == 1)
        assert comes_true(lambda: etcd.entries(load)[load].get("free_cores") == 3)
    # It has left when it has ended.
    assert not etcd.entries("/invoker/%s/" % name_of(cluster))


def test_a_group_follows_those_that_join_and_leave(etcd, cluster):
    with serving(cluster) as first:
        with invoker.connect(cluster) as group:
            assert len(group) == 1 and group.call("echo", b"one") == b"one"
            with serving(cluster) as second:
                assert comes_true(lambda: servers_of(group) == {first.address, second.address})
                assert {group.call("echo", b"x") and client._native.server for client in group.clients} == {
                    first.address,
                    second.address,
                }
                first.stop()
                assert group.call("echo", b"still") == b"still"
                assert comes_true(lambda: servers_of(group) == {second.address})
                # Another one takes the place of the first.
                with serving(cluster) as third:
                    assert comes_true(lambda: servers_of(group) == {second.address, third.address})
                    assert len(group) == 2
                    assert group.capacity().cores > 0


def test_servers_join_and_leave_during_a_map_and_no_item_is_lost(etcd, cluster):
    with serving(cluster) as first, invoker.connect(cluster) as group:
        sleep = group.function("test.sleep")
        done = 0
        with contextlib.ExitStack() as joined:
            for _ in sleep.map(microseconds(2000) for _ in range(2000)):
                done += 1
                if done == 200:
                    second = joined.enter_context(serving(cluster))
                    assert comes_true(lambda: second.address in servers_of(group))
                if done == 800:
                    first.stop()
            assert done == 2000
            assert servers_of(group) == {second.address}


def test_a_function_that_was_found_is_called_on_those_that_join(etcd, cluster):
    with invoker.serve({"who": lambda _: b"first"}, cluster=cluster, provider=PROVIDER, labels={"run": "1"}) as first:
        with invoker.connect(cluster) as group:
            who = group.function("who")
            assert bytes(who(b"")) == b"first"
            # One without the function is not called.
            with serving(cluster) as other:
                await_members(etcd, cluster, 2)
                with invoker.serve({"who": lambda _: b"second"}, cluster=cluster, provider=PROVIDER):
                    answers = set()
                    assert comes_true(lambda: answers.add(bytes(who(b""))) or answers == {b"first", b"second"})
                assert other.address not in servers_of(group)
            first.close()
            with pytest.raises(invoker.Unavailable):
                who(b"")


def test_a_server_that_is_killed_and_started_again_is_a_new_member(etcd, cluster):
    with serving(cluster, listen=loopback_address_of_its_own()) as first, serving(cluster) as other:
        with invoker.connect(cluster) as group:
            assert comes_true(lambda: servers_of(group) == {first.address, other.address})
            ((before, _),) = (each for each in members(etcd, cluster).items() if each[1]["server"] == first.address)
            first.kill()
            assert comes_true(lambda: servers_of(group) == {other.address})
            for _ in range(4):
                assert group.call("echo", b"x") == b"x"
            # The entry of the one that was killed is still there, for a moment.
            with serving(cluster, listen=first.address) as again:
                assert comes_true(lambda: servers_of(group) == {again.address, other.address})
                assert comes_true(lambda: before not in members(etcd, cluster))
                assert len(members(etcd, cluster)) == 2
                assert group.call("echo", b"x") == b"x"


def test_stale_entries_cost_no_call(etcd, cluster, tmp_path):
    with hearing(tmp_path) as said, serving(cluster) as server, serving(etcd.address("another")) as stranger:
        await_members(etcd, cluster, 1)
        prefix = "/invoker/%s/members/" % name_of(cluster)
        for i, (address, incarnation) in enumerate(
            # Nobody is there, somebody else is there, and what makes no sense.
            [("127.0.0.1:1", "00000000000000a1"), (stranger.address, "00000000000000a2"), ("nowhere", "1")]
        ):
            etcd.ctl("put", prefix + "%016x" % i, json.dumps({"server": address, "incarnation": incarnation}))
        with invoker.connect(cluster) as group:
            for _ in range(20):
                assert group.call("echo", b"x") == b"x"
            assert servers_of(group) == {server.address}
        assert "is left out" in said()


def test_while_etcd_is_away_clients_and_servers_go_on(tmp_path):
    with hearing(tmp_path) as said, Etcd() as own:
        cluster = own.address("gone")
        with serving(cluster) as first, serving(cluster) as second, invoker.connect(cluster) as group:
            assert comes_true(lambda: servers_of(group) == {first.address, second.address})
            own.members[0].kill()

            def both_have_said_so():
                text = said()
                return "stay in use" in text and text.count("clients that are connected stay so") == 2

            assert comes_true(both_have_said_so)
            for _ in range(10):
                assert group.call("echo", b"x") == b"x"
            with pytest.raises(invoker.Unavailable, match="etcd"):
                invoker.connect(cluster, connect_timeout=0.5)
            # A server that goes meanwhile is known to have gone.
            second.stop()
            assert group.call("echo", b"x") == b"x"
            own.members[0].start()
            own.wait()
            with serving(cluster) as third:
                assert comes_true(lambda: servers_of(group) == {first.address, third.address})
            with invoker.connect(cluster) as late:
                assert comes_true(lambda: servers_of(late) == {first.address})
            assert "etcd answers again" in said()


def test_the_leader_of_three_may_die():
    with Etcd(3) as store:
        cluster = store.address("three")
        with serving(cluster) as first, invoker.connect(cluster) as group:
            store.leader().kill()
            assert group.call("echo", b"x") == b"x"
            with serving(cluster) as second:
                assert comes_true(lambda: servers_of(group) == {first.address, second.address})
                assert group.call("echo", b"x") == b"x"
            assert comes_true(lambda: servers_of(group) == {first.address})


def test_a_cluster_without_members_is_waited_for(etcd, cluster):
    with pytest.raises(invoker.Unavailable, match="there is no member"):
        invoker.connect(cluster, connect_timeout=0.3)
    opened = []
    waiting = threading.Thread(target=lambda: opened.append(invoker.connect(cluster, connect_timeout=60)))
    waiting.start()
    with serving(cluster):
        waiting.join()
        with opened[0] as group:
            assert group.call("echo", b"x") == b"x"


@pytest.mark.parametrize("how", ["list", "file"])
def test_servers_of_a_list_or_a_file_may_be_missing_at_first(how, tmp_path):
    missing = Server(PROVIDER, listen=loopback_address_of_its_own())
    missing.stop()
    there = Server(PROVIDER)
    try:
        servers = [missing.address, there.address]
        (tmp_path / "servers").write_text("# two\n" + "\n".join(servers) + "\n")
        address = ",".join(servers) if how == "list" else "file://%s" % (tmp_path / "servers")
        with invoker.connect(address) as group:
            assert servers_of(group) == {there.address}
            assert group.call("echo", b"x") == b"x"
            late = missing.start_again()
            try:
                assert comes_true(lambda: servers_of(group) == set(servers))
            finally:
                late.stop()
        with pytest.raises(invoker.Unavailable):
            invoker.connect(address, reconnect=False)
    finally:
        there.stop()


def test_a_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "servers"
    first, second = Server(PROVIDER), Server(PROVIDER)
    try:
        path.write_text(first.address + "\n")
        with hearing(tmp_path) as said, invoker.connect("file://%s" % path) as group:
            new = tmp_path / "new"
            new.write_text("%s  # and one more\n%s\n" % (first.address, second.address))
            new.rename(path)
            assert comes_true(lambda: servers_of(group) == {first.address, second.address})
            # A mistake changes nothing, and is named.
            path.write_text("no server\n")
            assert comes_true(lambda: "servers:1" in said())
            assert servers_of(group) == {first.address, second.address}
            # One that is not in it any more is called for as long as it lives.
            path.write_text(second.address + "\n")
            first.stop()
            assert comes_true(lambda: servers_of(group) == {second.address})
            assert group.call("echo", b"x") == b"x"
    finally:
        first.stop_if_running()
        second.stop()


@pytest.mark.parametrize(
    "address, said",
    [
        ("etcd://127.0.0.1:2379", "name is missing"),
        ("etcd://127.0.0.1:2379/", "a name has"),
        ("etcd://127.0.0.1:2379/a/b", "a name has"),
        ("etcd:///name", "host is missing"),
        ("etcd://127.0.0.1:99999/name", "not a number from 0 to 65535"),
        ("etcd://192.0.2.1/name", "would not be encrypted"),
        ("file://relative", "begins at the root"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_in_words(address, said):
    with pytest.raises(invoker.InvalidArgument, match=said):
        invoker.connect(address)
    if address.startswith("etcd"):
        done = subprocess.run(
            ["tools/invoker_server", "--provider=" + PROVIDER, "--cluster=" + address], stderr=subprocess.PIPE, text=True
        )
        assert done.returncode == 2 and said in done.stderr


def test_a_label_without_a_cluster_is_a_mistake():
    done = subprocess.run(["tools/invoker_server", "--label=a=b"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "add --cluster" in done.stderr


def test_the_command_line_takes_a_cluster(etcd, cluster, tmp_path):
    def run(*arguments, text=""):
        return subprocess.run(
            ["tools/invoker", *arguments, "--server=" + cluster], input=text, capture_output=True, text=True
        )

    with serving(cluster, "--label=zone=b") as first, serving(cluster) as second:
        await_members(etcd, cluster, 2)
        listed = run("members")
        assert listed.returncode == 0, listed.stderr
        assert {line.split()[0] for line in listed.stdout.splitlines()} == {first.address, second.address}
        assert "zone=b" in listed.stdout
        entries = [json.loads(line) for line in run("members", "--json").stdout.splitlines()]
        assert {entry["server"] for entry in entries} == {first.address, second.address}
        assert entries[0]["epoch"] != entries[1]["epoch"]
        called = run("call", "echo", "--input=-", text="hello")
        assert (called.returncode, called.stdout) == (0, "hello"), called.stderr
        (tmp_path / "inputs").mkdir()
        for name in "abc":
            (tmp_path / "inputs" / name).write_text(name)
        mapped = run("map", "echo", "--inputs=%s/inputs" % tmp_path, "--outputs=%s/outputs" % tmp_path)
        assert mapped.returncode == 0, mapped.stderr
        assert [(tmp_path / "outputs" / name).read_text() for name in "abc"] == list("abc")
        pinged = run("ping")
        assert pinged.returncode == 2 and "invoker members" in pinged.stderr


def test_leases_are_taken_in_a_cluster(etcd, cluster):
    with serving(cluster, "--lease-cores=2", "--prestart=1"), serving(cluster, "--lease-cores=2"):
        await_members(etcd, cluster, 2)
        with invoker.connect(cluster) as group:
            assert comes_true(lambda: len(servers_of(group)) == 2)
            with group.lease(executors=2, python=False) as one, group.lease(executors=2, python=False) as other:
                assert one.call("echo", b"x") == b"x" and other.call("echo", b"y") == b"y"


def test_the_command_line_leases_by_labels_and_by_the_published_load(etcd, cluster):
    def lease(*options):
        return subprocess.run(
            ["tools/invoker", "call", "echo", "--lease", "--verbose", "--server=" + cluster, *options],
            input="hello",
            capture_output=True,
            text=True,
        )

    with contextlib.ExitStack() as stack:
        zones = {
            zone: stack.enter_context(serving(cluster, "--lease-cores=2", "--label=zone=" + zone)) for zone in "ab"
        }
        await_members(etcd, cluster, 2)
        loads = "/invoker/%s/loads/" % name_of(cluster)
        assert comes_true(lambda: len(etcd.entries(loads)) == 2)
        done = lease("--label=zone=b", "--executors=2")
        assert (done.returncode, done.stdout) == (0, "hello"), done.stderr
        assert zones["b"].address in done.stderr and zones["a"].address not in done.stderr
        assert lease("--executors=4").returncode == 0

        def free():
            return sorted(load.get("free_cores", 0) for load in etcd.entries(loads).values())

        assert comes_true(lambda: free() == [2, 2])
        # One has nothing left, and says so in the cluster.
        client = stack.enter_context(invoker.connect(zones["a"].address))
        stack.enter_context(client.lease(executors=2, python=False))
        assert comes_true(lambda: free() == [0, 2])
        for _ in range(4):
            done = lease("--executors=2")
            assert done.returncode == 0 and zones["b"].address in done.stderr, done.stderr
        refused = lease("--executors=4")
        assert refused.returncode == 3, refused.stderr
        some = lease("--executors=4", "--at-least=2")
        assert (some.returncode, some.stdout) == (0, "hello"), some.stderr
        nowhere = lease("--label=zone=c")
        assert nowhere.returncode == 3 and "zone=c" in nowhere.stderr


def test_etcd_is_told_a_password_only_over_tls(tmp_path):
    """Who may register, and who may look: etcd's users, roles and certificates."""
    own = loopback_address()
    _certificates(tmp_path, own)
    tls = ["--cacert=%s/ca.pem" % tmp_path]
    options = ["--cert-file=%s/etcd.pem" % tmp_path, "--key-file=%s/etcd.key" % tmp_path]
    with Etcd(1, *options, control=tls, addresses=[own]) as store:
        cluster = store.address("safe")
        store.ctl("user", "add", "root:secret-of-root")
        store.ctl("user", "grant-role", "root", "root")
        for role in ("worker", "client"):
            store.ctl("role", "add", role)
            kind = "readwrite" if role == "worker" else "read"
            store.ctl("role", "grant-permission", role, "--prefix=true", kind, "/invoker/safe/")
            store.ctl("user", "add", "%s:secret-of-%s" % (role, role))
            store.ctl("user", "grant-role", role, role)
            (tmp_path / role).write_text("%s:secret-of-%s\n" % (role, role))
            (tmp_path / role).chmod(0o600)
        store.ctl("auth", "enable")
        store._control += ["--user=root:secret-of-root"]

        ca = "%s/ca.pem" % tmp_path
        with pytest.raises(invoker.Unavailable):
            invoker.connect(cluster, connect_timeout=1)
        with pytest.raises(invoker.InvokerError, match="cluster_password_file"):
            invoker.connect(cluster, cluster_tls_ca=ca, connect_timeout=1)
        secret = ["--cluster-tls-ca=" + ca, "--cluster-password-file=%s/worker" % tmp_path]
        with serving(cluster, *secret) as server:
            with invoker.connect(cluster, cluster_tls_ca=ca, cluster_password_file=tmp_path / "client") as group:
                assert group.call("echo", b"x") == b"x"
            (tmp_path / "wrong").write_text("client:guess\n")
            (tmp_path / "wrong").chmod(0o600)
            with pytest.raises(invoker.InvokerError, match="etcd"):
                invoker.connect(
                    cluster, cluster_tls_ca=ca, cluster_password_file=tmp_path / "wrong", connect_timeout=1
                )
            (tmp_path / "open").write_text("client:secret-of-client\n")
            (tmp_path / "open").chmod(0o644)
            with pytest.raises(invoker.FailedPrecondition, match="open"):
                invoker.connect(cluster, cluster_tls_ca=ca, cluster_password_file=tmp_path / "open")
            # By the environment, and a client may not register.
            script = "with invoker.connect(%r) as group: assert group.call('echo', b'x') == b'x'" % cluster
            environment = {
                "INVOKER_CLUSTER_TLS_CA": ca,
                "INVOKER_CLUSTER_PASSWORD_FILE": str(tmp_path / "client"),
            }
            run_script(script, environment=environment)
            assert len(store.entries("/invoker/safe/members/")) == 1
            refused = subprocess.Popen(
                [
                    "tools/invoker_server",
                    "--provider=" + PROVIDER,
                    "--cluster=" + cluster,
                    "--cluster-tls-ca=" + ca,
                    "--cluster-password-file=%s/client" % tmp_path,
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            with refused:
                line = next(line for line in refused.stderr if "cluster safe" in line)
                assert "permission denied" in line and "secret" not in line
                refused.terminate()
            assert server.process.poll() is None


def _certificates(folder, address):
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test", "-days", "2")
    openssl("req", *new_key, "-keyout", "etcd.key", "-out", "etcd.csr", "-subj", "/CN=etcd")
    (folder / "names").write_text("subjectAltName=IP:%s\n" % address)
    openssl(
        *("x509", "-req", "-in", "etcd.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-out", "etcd.pem", "-days", "2", "-extfile", "names"),
    )

"""The examples that lease executors: each checks its own results, and is run small here."""

import os
import re

import pytest
from conftest import run

PHOTOGRAPH = "/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg"
FUNCTIONS = "examples/functions/libexample_functions.so"
WITH_LIBRARY = ["crash_isolation.py", "option_price.py"]
PYTHON = ["blocked_matmul.py", "joblib_sweep.py", "lease_numpy.py", "shared_array.py", *WITH_LIBRARY]


def python(name, server, *options):
    return run("examples/python/" + name, "--server=" + server.address, *options)


def only(pattern, text):
    """What the one match's group is."""
    found = re.findall(pattern, text)
    assert len(found) == 1, text
    return found[0]


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    done = run("examples/python/make_photographs.py", "--output=%s" % folder, "--count=12")
    assert done.returncode == 0, done.stderr
    return folder


def test_photographs_made_from_one_differ_and_are_the_same_each_time(photographs, tmp_path):
    files = {path.name: path.read_bytes() for path in photographs.iterdir()}
    assert len(files) == 12 and len(set(files.values())) == 12
    again = run("examples/python/make_photographs.py", "--output=%s" % tmp_path, "--count=12")
    assert again.returncode == 0, again.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_photographs_are_not_made_of_what_is_none(tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    done = run("examples/python/make_photographs.py", "--input=%s" % bad, "--output=%s" % tmp_path)
    assert done.returncode == 1 and "bad.jpg" in done.stderr and "Traceback" not in done.stderr


def test_typed_functions_are_called_from_cpp_and_from_python(server):
    for done in (
        run("examples/cpp/typed_calls", "--server=" + server.address),
        python("typed_calls.py", server),
    ):
        assert done.returncode == 0, done.stderr
        assert "dot(a, ones) = 499500" in done.stdout and "ends with 9990" in done.stdout


def test_typed_calls_say_what_is_wrong():
    for program in ("examples/cpp/typed_calls", "examples/python/typed_calls.py"):
        done = run(program, "--server=127.0.0.1:1")
        assert done.returncode == 1 and "127.0.0.1:1" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_joblib_sweeps_a_parameter_over_executors(server):
    pytest.importorskip("joblib", reason="needs python3-joblib")
    done = python("joblib_sweep.py", server, "--executors=2")
    assert done.returncode == 0, done.stderr
    assert re.search(r"60 points, in [12] processes of the worker", done.stdout), done.stdout


def test_a_map_shares_an_array_of_100_megabytes(server):
    done = python("shared_array.py", server, "--executors=2")
    assert done.returncode == 0, done.stderr
    assert "100 MB stored in 2 executors" in done.stdout
    assert int(only(r"calls +(\d+)\n", done.stdout)) == 200


@pytest.mark.parametrize("program", ["examples/cpp/socket_gateway", "examples/python/socket_gateway.py"])
def test_a_hundred_calls_wait_for_sockets_at_the_same_time(program):
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert "100 calls of ask waited for sockets at the same time" in done.stdout
    assert "answered meanwhile: 42" in done.stdout


def test_a_python_function_with_numpy_is_mapped_over_arrays_and_billed(server):
    done = python("lease_numpy.py", server, "--executors=2", "--arrays=8", "--rows=50")
    assert done.returncode == 0, done.stderr
    assert "the results agree" in done.stdout and "speed-up" in done.stdout
    assert "bill" in done.stdout


def test_a_blocked_product_is_numpys(server):
    # The blocks at the edges are smaller.
    done = python("blocked_matmul.py", server, "--executors=2", "--size=100", "--block=32")
    assert done.returncode == 0, done.stderr
    assert "64 calls" in done.stdout and "the products agree" in done.stdout
    assert done.stdout.count("speed-up") == 2


def test_an_option_costs_the_same_remotely_and_what_the_formula_says(server):
    done = python(
        "option_price.py",
        server,
        "--executors=2",
        "--paths=100001",
        "--calls=7",
        "--library=examples/functions/liboption_price.so",
    )
    assert done.returncode == 0, done.stderr
    assert "to the last bit" in done.stdout and "Black-Scholes" in done.stdout


def test_the_image_pipeline_makes_the_same_thumbnails_as_a_process_of_its_own(
    server, photographs, tmp_path
):
    done = run(
        "examples/cpp/image_pipeline",
        "--server=" + server.address,
        "--executors=2",
        "--input=%s" % photographs,
        "--output=%s" % tmp_path,
        "--library=" + FUNCTIONS,
    )
    assert done.returncode == 0, done.stderr
    assert "12 photographs, the same thumbnails" in done.stdout and "speed-up" in done.stdout
    assert int(only(r"bill: (\d+) calls", done.stdout)) == 12
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(photographs))
    assert all(path.read_bytes()[:2] == b"\xff\xd8" for path in tmp_path.iterdir())


def test_the_image_pipeline_names_the_picture_that_is_none(server, photographs, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jpg").write_bytes((photographs / "0000.jpg").read_bytes())
    (folder / "b.jpg").write_bytes(b"no picture")
    done = run(
        "examples/cpp/image_pipeline",
        "--server=" + server.address,
        "--input=%s" % folder,
        "--output=%s" % (tmp_path / "out"),
        "--library=" + FUNCTIONS,
    )
    assert done.returncode == 1 and "b.jpg" in done.stderr, done.stderr


def test_faults_end_their_own_leases_and_no_other(server):
    done = python(
        "crash_isolation.py",
        server,
        "--rounds=1",
        "--library=examples/functions/libfaults.so",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 leases ended by their functions" in done.stdout
    calls, failed = only(r"the other lease: (\d+) calls, (\d+) failed", done.stdout)
    assert int(calls) > 0 and int(failed) == 0
    # Each was told what had happened, and not only that something had.
    for fault, said in (
        ("dereference_null", "SIGSEGV|signal 11"),
        ("exit", r"status 3|exit.*3"),
        # A sanitizer's own memory does not fit into the lease's.
        *(() if os.environ.get("INVOKER_SANITIZER") else (("leak", "memory"),)),
        ("never_return", "limit|longer"),
    ):
        line = only(r"(?m)^fault\.%s +(.*)$" % fault, done.stdout)
        assert re.search(said, line), line


def test_a_library_with_rfaas_signature_makes_a_thumbnail_in_a_lease(server, tmp_path):
    output = tmp_path / "thumbnail.jpg"
    done = run(
        "tools/invoker",
        "call",
        "thumbnailer",
        "--server=" + server.address,
        "--lease",
        "--upload=examples/rfaas/librfaas_thumbnailer.so",
        "--response-capacity=64K",
        "--input=" + PHOTOGRAPH,
        "--output=%s" % output,
    )
    assert done.returncode == 0, done.stderr
    assert output.read_bytes()[:2] == b"\xff\xd8"


@pytest.mark.parametrize("name", PYTHON)
def test_examples_say_what_is_wrong(name, server):
    if name == "joblib_sweep.py":
        pytest.importorskip("joblib", reason="needs python3-joblib")
    library = ["--library=none.so"] if name in WITH_LIBRARY else []
    # Nobody is there.
    done = run("examples/python/" + name, "--server=127.0.0.1:1", *library)
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    if name == "crash_isolation.py":
        return
    # More than the server has.
    done = run("examples/python/" + name, "--server=" + server.address, "--executors=1000", *library)
    assert done.returncode == 1 and "1000" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", PYTHON + ["make_photographs.py"])
def test_examples_explain_themselves(name):
    if name == "joblib_sweep.py":
        pytest.importorskip("joblib", reason="needs python3-joblib")
    done = run("examples/python/" + name, "--help")
    assert done.returncode == 0 and "default:" in done.stdout

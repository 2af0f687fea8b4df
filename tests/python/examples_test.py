"""The example functions and programs, on real input."""

import struct
import subprocess
import sys

import invoker
import numpy
import pytest
from conftest import PATIENCE

PHOTOGRAPH = "/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg"


def size_of(jpeg):
    """Width and height, from the start-of-frame segment."""
    assert jpeg[:2] == b"\xff\xd8" and jpeg[-2:] == b"\xff\xd9"
    at = 2
    while True:
        marker, length = struct.unpack(">HH", jpeg[at : at + 4])
        if marker in (0xFFC0, 0xFFC2):
            height, width = struct.unpack(">HH", jpeg[at + 5 : at + 9])
            return width, height
        at += 2 + length


# Runs a program that does not say for how long its server may be silent.
_PATIENT = """
import runpy, sys
import invoker
%s
sys.argv = sys.argv[1:]
sys.path[0] = sys.argv[0].rpartition("/")[0]
runpy.run_path(sys.argv[0], run_name="__main__")
""" % PATIENCE


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", _PATIENT, "examples/python/" + program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_thumbnail_of_a_photograph_is_a_small_jpeg_and_always_the_same(client):
    with open(PHOTOGRAPH, "rb") as file:
        photograph = file.read()
    first = bytes(client.call("thumbnail", photograph))
    assert size_of(photograph) == (512, 600)
    assert size_of(first) == (109, 128)
    assert client.call("thumbnail", photograph) == first
    assert client.submit("thumbnail", photograph).result() == first


def test_the_thumbnail_program_writes_what_a_call_returns(client, server, tmp_path):
    output = tmp_path / "thumbnail.jpg"
    done = run("thumbnail.py", "--server=" + server.address, "--output=%s" % output)
    assert done.returncode == 0, done.stderr
    with open(PHOTOGRAPH, "rb") as file:
        assert output.read_bytes() == client.call("thumbnail", file.read())
    assert str(output) in done.stdout


def test_the_thumbnail_program_says_what_is_wrong(server, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    output = tmp_path / "out.jpg"
    for arguments, message in (
        (["--server=" + server.address, "--input=%s" % bad], "JPEG"),
        (["--server=" + server.address, "--input=%s" % (tmp_path / "none")], "none"),
        (["--server=127.0.0.1:1"], "127.0.0.1:1"),
    ):
        done = run("thumbnail.py", "--output=%s" % output, *arguments)
        assert done.returncode == 1 and message in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert not output.exists()


@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (3, 5, 2), (64, 64, 64), (100, 1, 100), (0, 3, 2)])
def test_matmul_agrees_with_numpy(client, m, k, n):
    chance = numpy.random.default_rng(m + k + n)
    a, b = chance.random((m, k)), chance.random((k, n))
    request = struct.pack("<QQQ", m, k, n) + a.tobytes() + b.tobytes()
    product = client.call("matmul", request, dtype=float, response_capacity=8 * m * n + 8)
    assert numpy.allclose(product.reshape(m, n), a @ b, rtol=1e-12)


def test_the_matmul_program_checks_the_result_and_reports_times(server):
    done = run("matmul.py", "--server=" + server.address, "--size=64", "--count=5")
    assert done.returncode == 0, done.stderr
    assert "remote" in done.stdout and "numpy" in done.stdout and "agree" in done.stdout


def test_the_matmul_program_takes_matrices_larger_than_the_window(client, server):
    assert 2 * 400 * 400 * 8 > client.max_payload
    done = run("matmul.py", "--server=" + server.address, "--size=400", "--count=2")
    assert done.returncode == 0 and "agree" in done.stdout, done.stderr


def test_the_matmul_program_says_what_is_wrong():
    done = run("matmul.py", "--server=nowhere")
    assert done.returncode == 1 and "HOST:PORT" in done.stderr and "Traceback" not in done.stderr


def test_programs_explain_themselves():
    for program in ("thumbnail.py", "matmul.py"):
        done = run(program, "--help")
        assert done.returncode == 0 and "--server" in done.stdout
    assert issubclass(invoker.FunctionFailed, invoker.InvokerError)

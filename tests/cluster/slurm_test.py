"""Jobs of workers in Slurm: real slurmctld, slurmd and munge."""

import contextlib
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import slurm_jobs
from conftest import OWN_USER, WITH_THE_TEST, comes_true

NODES = 4

pytestmark = slurm_jobs.needs_root


@pytest.fixture(scope="module")
def slurm():
    with slurm_jobs.start(NODES) as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    # slurmd does not need to be root's to read it.
    return tmp_path


def up(program, *options):
    """The command of a job whose program is Python text."""
    return [
        slurm_jobs.INVOKER,
        "up",
        *slurm_jobs.WORKER,
        *options,
        "--",
        sys.executable,
        "-c",
        "import os, sys, time, invoker\ncluster = os.environ['INVOKER_CLUSTER']\n" + program,
    ]


def processes_with(word):
    """The processes whose command lines or environments have a word."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            command = pathlib.Path(path, "cmdline").read_bytes()
            if word.encode() in command and int(path[6:]) != os.getpid():
                found.append(command)
    return found


def test_a_job_has_a_worker_on_each_node_and_its_programs_exit_status(slurm, folder):
    done = slurm.run(
        "srun",
        "-N%d" % NODES,
        *up(
            """
with invoker.connect(cluster) as group:
    print(len(group), sorted(bytes(each) for each in group.map("echo", [b"%d" % i for i in range(50)]))[-1])
    with invoker.Executor(group, max_workers=1) as executor:
        print(executor.submit(lambda: 6 * 7).result())
sys.exit(7)
"""
        ),
        cwd=folder,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == [str(NODES), "b'9'", "42"] or done.stdout.split() == [str(NODES), "b'9'", "42"]
    # All of them left the cluster, and nothing of the job is left.
    assert done.stderr.count("cluster job: left") == NODES, done.stderr
    assert not os.listdir(folder)
    assert comes_true(lambda: not processes_with("--name=job"))


def batch(slurm, folder, options, *command):
    """What a script of sbatch prints that runs the command."""
    script = folder / "job.sh"
    words = " ".join("'%s'" % word.replace("'", "'\\''") for word in command)
    script.write_text("#!/bin/sh\n%s\n" % words)
    slurm.run("sbatch", "--wait", *options, "--output=out", "--error=err", str(script), cwd=folder)
    return (folder / "out").read_text()


def test_a_script_of_sbatch_runs_a_job(slurm, folder):
    said = batch(slurm, folder, ["-N3"], "srun", *up("print(len(invoker.connect(cluster)))"))
    assert said.split() == ["3"], (folder / "err").read_text()


def test_outside_of_a_step_it_says_how_to_start_it(slurm, folder):
    def fails(*command):
        done = slurm.run(*command, cwd=folder, check=False)
        assert done.returncode == 1
        return done.stderr

    assert "SLURM_JOB_ID is not set; start it with srun" in fails(*up("pass"))
    assert "there is nothing to run" in fails("srun", "-N1", slurm_jobs.INVOKER, "up")
    assert "start this with srun" in fails("env", "SLURM_JOB_ID=3", *up("pass"))
    assert "\"etcd:/x\"" in fails("srun", "-N1", slurm_jobs.INVOKER, "up", "--cluster=etcd:/x")
    # The program is there to be started, or not.
    assert "cannot start no-such-program" in fails("srun", "-N1", slurm_jobs.INVOKER, "up", "--", "no-such-program")


def test_workers_that_do_not_start_end_the_job(slurm, folder):
    done = slurm.run("srun", "-N1", *up("print('never')", "--worker=--window=3"), cwd=folder, check=False)
    assert done.returncode == 1 and not done.stdout
    assert "window" in done.stderr and "no worker has registered" in done.stderr


def test_tasks_that_share_no_folder_say_so(slurm, folder):
    done = slurm.run(
        "srun",
        "-N2",
        "sh",
        "-c",
        # It is as if each node had a file system of its own.
        'mkdir -p $SLURMD_NODENAME && cd $SLURMD_NODENAME && exec "$@"',
        "-",
        *up("print(len(invoker.connect(cluster)))", "--wait=3s"),
        cwd=folder,
        check=False,
    )
    assert "does not find that of rank 0" in done.stderr and "--meet" in done.stderr
    # The program runs with what there is.
    assert done.stdout.split() == ["1"] and "starting with 1 of 2 workers" in done.stderr


def test_what_the_job_has_is_what_its_workers_lease_and_each_executor_has_a_core(slurm, folder):
    said = batch(
        slurm,
        folder,
        ["-c2", "--mem=200M"],
        "srun",
        "-c2",
        *up(
            """
import json
with invoker.connect(cluster) as group:
    capacity = group.capacity()
    with group.lease(executors=2, memory=40 << 20) as lease:
        @lease.function
        def cores(_):
            time.sleep(0.1)
            return os.getpid(), sorted(os.sched_getaffinity(0))
        print(json.dumps([capacity.cores, capacity.memory, list(dict(cores.map(range(8))).values())]))
"""
        ),
    )
    cores, memory, bound = json.loads(said)
    assert (cores, memory) == (2, 100 << 20)
    assert [len(each) for each in bound] == [1, 1]
    if len(os.sched_getaffinity(0)) > 1:
        assert bound[0] != bound[1]


def test_nobody_without_the_jobs_certificate_reaches_its_etcd_or_its_workers(slurm, folder):
    done = slurm.run(
        "srun",
        "-N1",
        *up(
            """
import subprocess
server = subprocess.run(["%s", "members", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
print(__import__("json").loads(server)["server"])
for name in list(os.environ):
    if name.startswith("INVOKER_"):
        del os.environ[name]
for address, options in [(cluster, {"cluster_plaintext": True}), (cluster, {})]:
    try:
        invoker.connect(address, plaintext=True, connect_timeout=2, **options)
        print("connected")
    except invoker.InvokerError as error:
        print("refused")
"""
            % slurm_jobs.INVOKER
        ),
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    server, *refused = done.stdout.split()
    assert refused == ["refused"] * 2
    assert server.startswith("127.0.0.1:")


def wait_for(process, line):
    for each in process.stdout:
        if each.strip() == line:
            return
    raise AssertionError(process.wait())


def start(slurm, *command, cwd):
    return subprocess.Popen(
        [*WITH_THE_TEST, *command],
        env=slurm.environment,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=open(cwd / "err", "w"),
        text=True,
    )


WAITS = """
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
group = invoker.connect(cluster)
print("running", flush=True)
while True:
    time.sleep(1)
"""


def test_preemption_drains_the_workers_and_tells_the_program(slurm, folder):
    process = start(slurm, "srun", "-N%d" % NODES, "-c2", "--partition=low", *up(WAITS), cwd=folder)
    wait_for(process, "running")
    slurm.run("srun", "-N%d" % NODES, "-c2", "--partition=high", "true")
    process.wait(60)
    said = (folder / "err").read_text()
    # etcd gets the signal, too, so that not all can say good-bye to it.
    assert said.count("draining") == NODES, said
    assert "task 0: Exited with exit code 5" in said


def test_the_time_limit_drains_the_workers_and_lets_calls_end(slurm, folder):
    process = start(
        slurm,
        "srun",
        "-N2",
        "--job-name=limited",
        *up(
            """
import signal, threading
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
with invoker.connect(cluster) as group, group.lease(executors=2, memory=16 << 20, spread="server") as lease:
    go = os.path.abspath("go")
    @lease.function
    def run(number):
        open(go + "-%d" % number, "w").close()
        while not os.path.exists(go):
            time.sleep(0.01)
        return number
    calls = [run.submit(number) for number in range(2)]
    told.wait()
    with open("results", "w") as file:
        print(*[call.result() for call in calls], file=file)
    os._exit(5)
""",
            # The test says when the calls end.
            "--worker=--drain-timeout=14s",
            "--worker=" + OWN_USER,
        ),
        cwd=folder,
    )
    said = lambda: (folder / "err").read_text()
    assert comes_true(lambda: (folder / "go-0").exists() and (folder / "go-1").exists()), said()
    job = slurm.run("squeue", "--noheader", "--name=limited", "--format=%i").stdout.strip()
    slurm.run("scontrol", "update", "JobId=" + job, "EndTime=now+1")
    # Slurm looks at limits every 30 s.
    assert comes_true(lambda: said().count("draining") == 2, 90), said()
    (folder / "go").touch()
    process.wait(60)
    assert "DUE TO TIME LIMIT" in said() and "task 0: Exited with exit code 5" in said()
    assert (folder / "results").read_text().split() == ["0", "1"], said()


CAPACITY = """
with invoker.connect(cluster) as group, group.lease(executors=1, memory=16 << 20) as lease:
    capacity = group.capacity()
    @lease.function
    def cores(_):
        return sorted(os.sched_getaffinity(0))
    print(capacity.cores, capacity.memory >> 20, *cores(0))
"""


@pytest.mark.skipif(
    not any(os.access("/sys/fs/cgroup/" + name, os.W_OK) for name in ("memory/tasks", "cgroup.subtree_control")),
    reason="the kernel's groups are not mounted, or not writable",
)
def test_the_jobs_cgroup_says_what_its_worker_leases(folder):
    try:
        slurm = slurm_jobs.start(1, cgroups=True)
    except AssertionError as error:
        # Slurm supports version 2 only as systemd sets it up.
        if os.path.exists("/sys/fs/cgroup/memory"):
            raise
        pytest.skip(str(error))
    with slurm:
        # srun sets no variable for memory. Slurm says so with its group alone.
        alone = slurm.run("srun", "-c1", "--mem=1000M", *up(CAPACITY), cwd=folder).stdout.split()
        assert alone[:2] == ["1", "500"] and len(alone) == 3
        # The step's group allows less than the job's variables say.
        step = ["srun", "-n1", "-c1", "--exact", "--mem=600M", *up(CAPACITY)]
        part = slurm.run("salloc", "-c2", "--mem=1000M", *step, cwd=folder).stdout.split()
        assert part[:2] == ["1", "300"] and len(part) == 3


def test_a_worker_that_is_killed_does_not_end_the_job(slurm, folder):
    process = start(
        slurm,
        "srun",
        "-N2",
        *up(
            """
group = invoker.connect(cluster)
assert len(group) == 2
print("running", flush=True)
while len(group._native.servers()) != 1:
    time.sleep(0.01)
print(bytes(group.call("echo", b"still")).decode(), flush=True)
"""
        ),
        cwd=folder,
    )
    wait_for(process, "running")
    ((victim, _),) = [each for each in workers_of(slurm) if each[1] == "n1"][:1]
    os.kill(victim, signal.SIGKILL)
    assert process.stdout.read().split() == ["still"]
    assert process.wait(60) == 0
    assert "the worker of this node has ended, with status 137" in (folder / "err").read_text()


def workers_of(slurm):
    """The workers that run, and their nodes."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            words = pathlib.Path(path, "cmdline").read_bytes().decode().split("\0")
            environment = pathlib.Path(path, "environ").read_bytes().decode(errors="replace").split("\0")
            if words[0].endswith("/invoker_server") and "SLURM_CONF=" + slurm.environment["SLURM_CONF"] in environment:
                found.append((int(path[6:]), *[word[13:] for word in words if word.startswith("--label=node=")]))
    return found

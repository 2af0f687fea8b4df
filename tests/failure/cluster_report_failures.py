"""The failures of the cluster's failure report, in their order."""

import shutil
import signal

# Clients are on the first two hosts.
CLIENTS = (0, 1)
# A worker's own limit is five seconds. It ends the sessions of a client that is silent for longer.
_CLIENT_STOPPED = 7.0


class Failure:
    """One failure: how it is caused and made good, and which losses it may cost the clients."""

    def __init__(self, name, breaks, mends, *, lasts=None, hits=CLIENTS, gone=(), cut_off=(), graceful=False, spares=False,
                 of_pool=False, prepares=lambda: None, missing=None):
        """lasts: seconds; None: as long as others. hits: clients; one of them at least has to lose a call or a session. gone:
        clients that end with it. cut_off: clients that are promised a lease and an answer only after it.
        graceful: no plain call and no map may have an unknown end. spares: no call of any kind may end without its result.
        of_pool: Slurm's workers have to answer calls meanwhile. prepares: is called before it. missing: why it cannot be caused
        here.
        """
        self.name = name
        self.breaks = breaks
        self.mends = mends
        self.lasts = lasts
        self.hits = hits
        self.gone = gone
        self.cut_off = cut_off
        self.graceful = graceful
        self.spares = spares
        self.of_pool = of_pool
        self.prepares = prepares
        self.missing = missing


def _end(process, number):
    process.send_signal(number)
    process.wait()


def failures(world):
    """All failures. Each looks up its processes when it begins."""
    hosts, workers, clients = world.hosts, world.workers, world.clients
    return [
        # This is the first, since nobody hears of the calls that a killed client has made.
        Failure(
            "client 1 killed",
            lambda: _end(clients.processes[1], signal.SIGKILL),
            lambda: clients.start(1),
            hits=(),
            gone=(1,),
        ),
        *_of_workers(hosts, workers),
        Failure("client 1's link cut", lambda: hosts.cut(1), lambda: hosts.heal(1), hits=(1,), cut_off=(1,)),
        Failure(
            "client 1 stopped",
            lambda: clients.processes[1].send_signal(signal.SIGSTOP),
            lambda: clients.processes[1].send_signal(signal.SIGCONT),
            lasts=_CLIENT_STOPPED,
            hits=(1,),
            cut_off=(1,),
        ),
        *_of_etcd(hosts, world.stores),
        # Client 0 has one of five workers on its side, and a member of etcd without a leader.
        Failure("network in two halves", world.split, world.unite),
        _of_slurm(world.pool),
    ]


def _of_workers(hosts, workers):
    def again(host):
        workers.start(host)
        workers.wait()

    return [
        Failure("worker killed", lambda: _end(workers.processes[5], signal.SIGKILL), lambda: again(5)),
        Failure(
            "worker stopped",
            lambda: workers.processes[6].send_signal(signal.SIGSTOP),
            lambda: workers.processes[6].send_signal(signal.SIGCONT),
        ),
        Failure("worker's link cut", lambda: hosts.cut(7), lambda: hosts.heal(7)),
        Failure(
            "two workers cut off",
            lambda: [hosts.cut(host) for host in (5, 6)],
            lambda: [hosts.heal(host) for host in (5, 6)],
        ),
        Failure(
            "worker drained", lambda: _end(workers.processes[5], signal.SIGTERM), lambda: again(5), hits=(), graceful=True
        ),
    ]


def _of_etcd(hosts, stores):
    leader = None

    def find_leader():
        nonlocal leader
        leader = stores.leader()
        return leader

    def start_leader():
        stores.start(leader)
        stores.wait()

    return [
        Failure(
            "etcd's leader killed",
            lambda: _end(stores.processes[find_leader()], signal.SIGKILL),
            start_leader,
            hits=(),
            spares=True,
        ),
        Failure(
            "etcd's leader stopped",
            lambda: stores.processes[find_leader()].send_signal(signal.SIGSTOP),
            lambda: stores.processes[leader].send_signal(signal.SIGCONT),
            hits=(),
            spares=True,
        ),
        # Two of these hosts have a worker, too.
        Failure("etcd's leader cut off", lambda: hosts.cut(find_leader()), lambda: hosts.heal(leader), hits=()),
    ]


def _of_slurm(pool):
    """This is the last, since Slurm's workers stay."""
    programs = [program for program in pool.PROGRAMS if shutil.which(program) is None]
    return Failure(
        "slurm controller killed",
        pool.kill_controller,
        pool.start_controller,
        hits=(),
        spares=True,
        of_pool=True,
        prepares=pool.start,
        missing="no " + ", ".join(programs) if programs else None,
    )

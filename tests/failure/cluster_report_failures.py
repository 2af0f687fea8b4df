"""The failures of the cluster's failure report, in their order."""

import shutil
import signal

from cluster_report_client import KINDS, UPLOADS

# Clients are on the first two hosts.
CLIENTS = (0, 1)
# A worker's own limit is five seconds. It ends the sessions of a client that is silent for longer.
_CLIENT_STOPPED = 7.0
# The kinds of work on executors that clients share: without leases.
_SHARED = ("calls", "map")
_ALL = (*KINDS, UPLOADS)


class Failure:
    """One failure: how it is caused and made good, and which losses it may cost the clients."""

    def __init__(self, name, breaks, mends=lambda: None, *, lasts=None, hits=CLIENTS, gone=(), cut_off=(), spares=(),
                 helpers=None, prepares=lambda: None, missing=None):
        """lasts: seconds between breaks and mends; None: as long as others. 0: breaks itself waits until it is over.
        hits: clients; one of them at least has to lose a call or a session. gone: clients that end with it.
        cut_off: clients that are promised a lease and an answer only after it.
        spares: the kinds of work of which no call may end without its result.
        helpers: the file of marks and the kinds of work of workers that have to answer such calls meanwhile, by name.
        prepares: is called before it. missing: why it cannot be caused here.
        """
        self.name = name
        self.breaks = breaks
        self.mends = mends
        self.lasts = lasts
        self.hits = hits
        self.gone = gone
        self.cut_off = cut_off
        self.spares = spares
        self.helpers = helpers or {}
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
        *_of_guests(world.guests),
        Failure("client 1's link cut", lambda: hosts.cut(1), lambda: hosts.heal(1), hits=(1,), cut_off=(1,)),
        Failure(
            "client 1 stopped",
            lambda: clients.processes[1].send_signal(signal.SIGSTOP),
            lambda: clients.processes[1].send_signal(signal.SIGCONT),
            lasts=_CLIENT_STOPPED,
            hits=(1,),
            cut_off=(1,),
        ),
        *_of_etcd(hosts, world.stores, world.guests),
        # Client 0 has one of five workers on its side, and a member of etcd without a leader.
        Failure("network in two halves", world.split, world.unite),
        *_of_slurm(world.pool),
    ]


def _of_workers(hosts, workers):
    return [
        Failure("worker killed", lambda: _end(workers.processes[5], signal.SIGKILL), lambda: workers.start(5)),
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
        # Calls of leased executors end with their lease.
        Failure(
            "worker drained",
            lambda: _end(workers.processes[5], signal.SIGTERM),
            lambda: workers.start(5),
            hits=(),
            spares=_SHARED,
        ),
    ]


def _of_guests(guests):
    """Both wait until maps run on the guests, so that the maps are known to be under way."""
    two = guests.HOSTS[:2]
    helpers = {"the guest on host %d" % host: (guests.marks[host].path, ("map",)) for host in two}

    def leave():
        guests.await_map_items(two)
        guests.leave(two)

    return [
        Failure("two workers join", lambda: guests.join(two), lasts=0, hits=(), spares=_ALL, helpers=helpers),
        Failure(
            "two workers leave",
            leave,
            lasts=0,
            hits=(),
            spares=_SHARED,
            helpers=helpers,
            prepares=lambda: guests.join(two),
        ),
    ]


def _of_etcd(hosts, stores, guests):
    leader = None
    killed = []
    newcomer = guests.HOSTS[2:]

    def find_leader():
        nonlocal leader
        leader = stores.leader()
        return leader

    def start_leader():
        stores.start(leader)
        stores.wait()

    def kill_most():
        # The leader is among those, so that the others have to find out that there is none.
        killed[:] = sorted(stores.processes, key=find_leader().__ne__)[:2]
        for host in killed:
            _end(stores.processes[host], signal.SIGKILL)

    def start_most():
        for host in killed:
            stores.start(host)
        stores.wait()
        # It stays.
        guests.join(newcomer)

    return [
        Failure(
            "etcd's leader killed",
            lambda: _end(stores.processes[find_leader()], signal.SIGKILL),
            start_leader,
            hits=(),
            spares=_ALL,
        ),
        Failure(
            "etcd's leader stopped",
            lambda: stores.processes[find_leader()].send_signal(signal.SIGSTOP),
            lambda: stores.processes[leader].send_signal(signal.SIGCONT),
            hits=(),
            spares=_ALL,
        ),
        # Two of these hosts have a worker, too.
        Failure("etcd's leader cut off", lambda: hosts.cut(find_leader()), lambda: hosts.heal(leader), hits=()),
        # Without most of its members etcd answers nothing. When they are back, a worker joins.
        Failure(
            "two of etcd killed",
            kill_most,
            start_most,
            hits=(),
            spares=_ALL,
            helpers={"the guest on host %d" % host: (guests.marks[host].path, ("map",)) for host in newcomer},
        ),
    ]


def _of_slurm(pool):
    """These are the last, since Slurm's workers stay. The jobs go on without slurmd and without the controller."""
    programs = [program for program in pool.PROGRAMS if shutil.which(program) is None]
    same = {
        "hits": (),
        "spares": _ALL,
        "helpers": {"Slurm's workers": (pool.marks.path, KINDS)},
        "prepares": pool.start,
        "missing": "no " + ", ".join(programs) if programs else None,
    }
    return [
        Failure("slurm controller killed", pool.kill_controller, pool.start_controller, **same),
        Failure("slurmd killed", pool.kill_node, pool.start_node, **same),
    ]

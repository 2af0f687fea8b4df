"""Hosts in a box: network namespaces of this machine, joined by a bridge. Needs root, and iproute2.

They have one kernel and one file system, and an address each. Everything goes away with the process that made them.
"""

import os
import signal
import subprocess
import sys

_INSIDE = "INVOKER_BOX"


def enter():
    """Starts this program again in namespaces of its own. Call it first; it returns in the second one."""
    if _INSIDE not in os.environ:
        if os.geteuid() != 0:
            sys.exit("%s: needs root: it makes network namespaces" % sys.argv[0])
        command = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private"]
        os.execvpe(command[0], [*command, sys.executable, *sys.argv], {**os.environ, _INSIDE: "1"})
    # Where ip keeps the namespaces' names.
    os.makedirs("/run/netns", exist_ok=True)
    _run("mount", "-t", "tmpfs", "none", "/run/netns")


def _run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Hosts:
    """So many of them; number 0 is the first."""

    def __init__(self, count):
        self.count = count
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bridge", "type", "bridge")
        _run("ip", "link", "set", "bridge", "up")
        for host in range(count):
            name = self._name(host)
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", name, "master", "bridge", "up")
            _run("ip", "-n", name, "addr", "add", self.address(host) + "/16", "dev", "eth0")
            for link in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", link, "up")

    def address(self, host):
        """Its IP address."""
        return "10.9.%d.%d" % (host // 250, host % 250 + 1)

    def on(self, host):
        """What comes before a command that is to run there."""
        return ["nsenter", "--net=/run/netns/" + self._name(host), "--"]

    def shape(self, host, rate, queue, delay=None, loss=0.0):
        """Limits what goes to it to a rate, such as "100mbit", with a queue in bytes beyond which packets are lost.

        loss: this share of the packets is lost besides, at random. delay: such as "1ms", of each packet. Returns whether this kernel
        can delay packets (sch_netem). Where it cannot, they wait in the queue only.
        """
        link = ["dev", self._name(host)]
        # Packets of the first class go on, and those of the second one are lost.
        _run("tc", "qdisc", "add", *link, "root", "handle", "1:", "htb", "default", "1")
        for number in (1, 2):
            limits = ["rate", rate, "burst", "32kb", "quantum", "1514"]
            _run("tc", "class", "add", *link, "parent", "1:", "classid", "1:%d" % number, "htb", *limits)
        _run("tc", "qdisc", "add", *link, "parent", "1:2", "blackhole")
        if loss:
            # A random number below the limit: class 1:2. Else: the default one.
            program = ["32 0 0 0xfffff038", "53 1 0 %d" % (loss * 2**32), "6 0 0 0x10002", "6 0 0 0"]
            bytecode = ",".join(["%d" % len(program), *(" ".join(str(int(word, 0)) for word in each.split()) for each in program)])
            _run("tc", "filter", "add", *link, "parent", "1:", "protocol", "all", "prio", "1", "bpf", "bytecode", bytecode)
        first = ["tc", "qdisc", "add", *link, "parent", "1:1"]
        if delay and subprocess.run([*first, "netem", "delay", delay], stderr=subprocess.DEVNULL).returncode == 0:
            return True
        _run(*first, "bfifo", "limit", queue)
        return False

    def cut(self, host):
        """Takes its cable out."""
        _run("ip", "link", "set", self._name(host), "down")

    def heal(self, host):
        """Puts it in again."""
        _run("ip", "link", "set", self._name(host), "up")

    def kill(self, host):
        """Ends it as a power cut does: the cable first, so that nobody is told."""
        self.cut(host)
        done = subprocess.run(["ip", "netns", "pids", self._name(host)], stdout=subprocess.PIPE, text=True, check=True)
        for pid in done.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    @staticmethod
    def _name(host):
        return "host%d" % host

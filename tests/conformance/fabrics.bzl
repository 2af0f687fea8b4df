"""The fabrics that the conformance suite runs on, and a test target for each part of it."""

load("//tests/efa_device:on_card.bzl", "card_test")

# libfabric 1.17.0 ends the new process when the old one's packets reach it.
_NO_RESTART = (
    "AddressVector.APeerThatWasRestartedIsReachedAtItsOldAddress: the provider does not survive " +
    "packets for the process that had the port before"
)

# Its completions come in the order of the posts, over all peers, and one of a process that died never
# comes. A send that waits for a completion waits for ever then.
_ORDERED_COMPLETIONS = [
    "BackPressure.%s/%s: operations of a process that died hold up all later completions" % (test, way)
    for test in (
        "AProcessThatDiedHoldsUpNothingForLongerThanTheRetryLimit",
        "OperationsToProcessesThatDiedCostNoCapacity",
    )
    for way in ("AfterDelivery", "Eager")
]

def _expect(notification, order, atomics, wait, keys, immediate, addressing, local):
    return ",".join([
        "notification=" + notification,
        "order=" + order,
        "atomics=" + atomics,
        "wait=" + wait,
        "keys=" + keys,
        "immediate=%d" % immediate,
        "addressing=" + addressing,
        "local=%d" % local,
        "eager=1",
    ])

# What docs/reference/fabrics.md says of each fabric. Not taken from the code: a row there that lost something would only skip
# its tests.
_TCP = _expect("write_imm", "pipelined", "message", "fd", "random/8", 8, "offset", 0)
# From libfabric 1.18 on; tests/libfabric/faults/rxm_half_a_write.c says why.
_TCP_2 = _expect("send_after_write", "pipelined", "message", "fd", "random/8", 8, "offset", 0)
_NATIVE_TCP = _expect("write_imm", "pipelined", "message", "fd", "random/8", 8, "offset", 0)
_SHM = _expect("write_imm", "after-delivery", "native", "back-off", "random/8", 8, "offset", 0)
_SOCKETS = _expect("write_imm", "pipelined", "native", "fd", "random/8", 8, "offset", 0)
_UDP = _expect("write_imm", "pipelined", "native", "sread", "random/8", 8, "offset", 0)
_NET = _expect("write_imm", "pipelined", "message", "sread", "random/8", 8, "offset", 0)
_EFA1 = _expect("write_imm", "after-delivery", "native", "back-off", "provider/4", 8, "virtual", 1)
_EFA2 = _expect("write_imm", "after-delivery", "native", "back-off", "provider/4", 4, "virtual", 1)
_GNI = _expect("write_imm", "after-delivery", "native", "back-off", "provider/8", 8, "virtual", 1)

# Also of what is layered over it.
_SHARED_LOCK = [
    "%s: a peer process that is killed while it posts may hold the lock of our queue in shared memory, which " % test +
    "ends the use of the endpoint"
    for test in (
        "Cancel.AReactorCanGoAwayInTheMiddleOfEverything",
        "Loss.AClientThatIsKilledCostsItsOwnSessionOnly",
    )
]

_PLACED_WHOLE = (
    "LateFence.TheRestOfAWriteLandsInNobodysMemory: the writer itself copies all of a write into the target's memory " +
    "when it posts (process_vm_writev): none is ever half placed when anybody has seen any of it"
)

# Writes keep to their way; only sends are lost behind many long writes, some hundred runs of a busy machine apart.
_LOST_SENDS = [
    "Cancel.AnOwnerThatGoesAwayHearsNothingMore/%s: behind many long writes under way, the provider may stop for " % way +
    "good to deliver what is sent"
    for way in ("Pipelined", "Eager")
]

# libfabric's EFA provider, on a card or emulated.
_MET_ONCE = (
    "AddressVector.APeerThatWasRemovedCanBeInsertedAgain: a peer sends its handshake once, and the provider, which has " +
    "forgotten it, waits for another one before a long write or any delivery"
)

# libfabric 1.17's EFA provider without RDMA write; docs/design/libfabric.md tells more of each.
_EFA_PROVIDER = [
    _MET_ONCE,
    "Writes.AWriteWithAWrongKeyHurtsNeitherOtherMemoryNorOtherPeers: the provider ends the target's process",
]

# The same without reads by the card: rxr_rma_post_write takes "not known yet" for "the peer reads".
_EFA_MESSAGES = [
    "LateFence.TheRestOfAWriteToAPeerIsOfNobodyElse/WriteImm: a long write that is posted before the peer's handshake " +
    "has come is sent in a way that the peer does not have, and is lost",
]

# The same with the provider's own shm within a host.
_EFA_SHM = [_PLACED_WHOLE] + [
    "%s: the provider confuses peers of one host that come and go" % test
    for test in (
        "Atomics.SumsAreExactUnderContentionOfSeveralPeers/Message",
        "LateFence.TheRestOfAWriteToAPeerIsOfNobodyElse",
        "Notifications.NeitherFromSeveralPeersAtOnce",
    )
] + [
    "BackPressure.%s: its shm does not tell that a process has died" % test
    for test in (
        "AProcessThatDiedHoldsUpNothingForLongerThanTheRetryLimit",
        "OperationsToProcessesThatDiedCostNoCapacity",
    )
]

# The same with writes by the card, which libfabric 1.17 does not use.
_EFA_WRITES = [
    "LateFence.TheRestOfAWriteToAPeerIsOfNobodyElse: the peer's card places a write, whatever the peer's program does",
]

def _fabric(
        name,
        provider,
        expect,
        label = "",
        expect_2 = "",
        address = "",
        scale = 100,
        limits = [],
        leases = False,
        env = {},
        data = [],
        card = None,
        tags = []):
    """`expect`: what Invoker must find it to be, from _expect.

    `expect_2`: the same with libfabric 1.18 and later, where that differs.

    `scale`: how often repeated things are repeated, in percent, for some fabrics are not made for speed.

    `limits`: what the fabric does not do, "Suite.Test: reason" or "Suite.Test/Parameter: reason".

    `leases`: whether leases are tried on it. They are on what executors are meant for.

    `card`: what card_test is told of the emulated EFA card, if the fabric is one.
    """
    if address == "::1":
        tags = ["thorough"]
    elif leases and not tags:
        tags = ["quick"]
    return struct(
        name = name,
        tags = tags,
        data = data,
        leases = leases,
        card = card,
        env = dict(
            env,
            INVOKER_TEST_ADDRESS = address,
            INVOKER_TEST_EXPECT = expect,
            INVOKER_TEST_EXPECT_2 = expect_2,
            INVOKER_TEST_FABRIC = provider,
            INVOKER_TEST_LABEL = label or provider,
            INVOKER_TEST_LIMITS = "; ".join(limits),
            INVOKER_TEST_SCALE = str(scale),
        ),
    )

def _emulated(name, provider, expect, label, env = {}, limits = []):
    return _fabric(
        name,
        provider,
        expect,
        label,
        limits = _SHARED_LOCK + limits,  # they run over shared memory
        scale = 25,
        env = dict(
            env,
            FI_PROVIDER_PATH = "tests/contract_providers/" + provider,
            INVOKER_TEST_EVIDENCE = "emulation",
        ),
        data = ["//tests/contract_providers:%s/lib%s-fi.so" % (provider, provider)],
    )

def _efa(name, generation, shm = False, limits = [], leases = False, tags = ["thorough"]):
    """The real EFA provider on an emulated card."""
    return _fabric(
        name,
        "efa",
        _EFA1,
        "%s (real provider, emulated device%s)" % (generation, ", shm" if shm else ""),
        expect_2 = _EFA2,
        limits = _EFA_PROVIDER + limits,
        leases = leases,
        scale = 5,
        card = {"generation": generation, "shm": shm},
        tags = tags,
    )

_FABRICS = [
    _fabric("tcp", "tcp;ofi_rxm", _TCP, expect_2 = _TCP_2, address = "127.0.0.1", leases = True),
    _fabric("tcp_ipv6", "tcp;ofi_rxm", _TCP, "tcp;ofi_rxm IPv6", expect_2 = _TCP_2, address = "::1"),
    _fabric("native_tcp", "tcp", _NATIVE_TCP, address = "127.0.0.1"),
    _fabric("native_tcp_ipv6", "tcp", _NATIVE_TCP, "tcp IPv6", address = "::1"),
    _fabric("shm", "shm", _SHM, limits = _ORDERED_COMPLETIONS + _SHARED_LOCK + [_PLACED_WHOLE], leases = True),
    _fabric("sockets", "sockets", _SOCKETS, address = "127.0.0.1", limits = _LOST_SENDS, scale = 5),
    _fabric("sockets_ipv6", "sockets", _SOCKETS, "sockets IPv6", address = "::1", limits = _LOST_SENDS, scale = 5),
    _fabric("udp", "udp;ofi_rxd", _UDP, address = "127.0.0.1", limits = [_NO_RESTART]),
    _fabric("udp_ipv6", "udp;ofi_rxd", _UDP, "udp;ofi_rxd IPv6", address = "::1", limits = [_NO_RESTART]),
    _fabric("net", "net", _NET, address = "127.0.0.1"),
    _fabric("net_ipv6", "net", _NET, "net IPv6", address = "::1"),
    _emulated("efa1", "efa", _EFA1, "efa as of 1.17", {"CONTRACT_EFA_GENERATION": "1"}, [_MET_ONCE]),
    _emulated("efa2", "efa", _EFA2, "efa as of 2.x", {"CONTRACT_EFA_GENERATION": "2"}, [_MET_ONCE]),
    _emulated("gni", "gni", _GNI, "gni"),
    _efa("efa_card0", "efa0", limits = _EFA_MESSAGES),
    _efa("efa_card1", "efa1", leases = True),
    # Invoker switches that shm off, unless the user has switched it on.
    _efa("efa_card1_shm", "efa1", shm = True, limits = _EFA_SHM),
    _efa("efa_card2", "efa2", limits = _EFA_WRITES),
    _efa("efa_card3", "efa3", limits = _EFA_WRITES),
]

# The suite's parts, as filters on the names of its test suites.
_CALLS = "*Calls.*:*Clients.*:*Loss.*"
_LEASES = "*Leases.*"
_PARTS = {
    "calls": _CALLS,
    "leases": _LEASES,
    "transport": "-%s:%s" % (_CALLS, _LEASES),
}

def conformance_tests():
    """Defines FABRIC_calls_test and FABRIC_transport_test for every fabric, and FABRIC_leases_test for some."""
    for fabric in _FABRICS:
        for part, tests in _PARTS.items():
            if part == "leases" and not fabric.leases:
                continue
            name = "%s_%s_test" % (fabric.name, part)
            args = ["'--gtest_filter=%s'" % tests]
            if fabric.card:
                card_test(
                    name = name,
                    size = "medium",
                    args = args,
                    env = fabric.env,
                    program = ":suite",
                    tags = fabric.tags,
                    **fabric.card
                )
                continue
            native.sh_test(
                name = name,
                size = "medium",
                srcs = [":suite"],
                args = args,
                data = [":suite"] + fabric.data,
                env = fabric.env,
                tags = fabric.tags,
            )

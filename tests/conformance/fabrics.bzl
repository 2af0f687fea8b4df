"""The fabrics that the conformance suite runs on, and a test target for each half of it."""

# libfabric 1.17.0 ends the new process when the old one's packets reach it.
_NO_RESTART = (
    "AddressVector.APeerThatWasRestartedIsReachedAtItsOldAddress: the provider does not survive " +
    "packets for the process that had the port before"
)

# What the provider has taken for a peer that is gone stays outstanding.
_NO_GIVING_UP = "BackPressure.OperationsToAProcessThatDiedAreGivenBack: the provider keeps them for ever"

def _fabric(name, provider, label = "", address = "", scale = 100, limits = [], env = {}, data = []):
    """`scale`: how often repeated things are repeated, in percent, for some fabrics are not made for speed.

    `limits`: what the fabric does not do, "Suite.Test: reason".
    """
    return struct(
        name = name,
        data = data,
        env = dict(
            env,
            INVOKER_TEST_ADDRESS = address,
            INVOKER_TEST_FABRIC = provider,
            INVOKER_TEST_LABEL = label or provider,
            INVOKER_TEST_LIMITS = "; ".join(limits),
            INVOKER_TEST_SCALE = str(scale),
        ),
    )

def _emulated(name, provider, label, env = {}):
    return _fabric(
        name,
        provider,
        label,
        limits = [_NO_GIVING_UP],  # the shared memory below it
        scale = 25,
        env = dict(env, FI_PROVIDER_PATH = "tests/contract_providers/" + provider),
        data = ["//tests/contract_providers:%s/lib%s-fi.so" % (provider, provider)],
    )

_FABRICS = [
    _fabric("tcp", "tcp;ofi_rxm", address = "127.0.0.1"),
    _fabric("tcp_ipv6", "tcp;ofi_rxm", "tcp;ofi_rxm IPv6", address = "::1"),
    _fabric("shm", "shm", limits = [_NO_GIVING_UP]),
    _fabric("sockets", "sockets", address = "127.0.0.1", scale = 5),
    _fabric("sockets_ipv6", "sockets", "sockets IPv6", address = "::1", scale = 5),
    _fabric("udp", "udp;ofi_rxd", address = "127.0.0.1", limits = [_NO_RESTART, _NO_GIVING_UP]),
    _fabric("udp_ipv6", "udp;ofi_rxd", "udp;ofi_rxd IPv6", address = "::1", limits = [_NO_RESTART, _NO_GIVING_UP]),
    _fabric("net", "net", address = "127.0.0.1"),
    _fabric("net_ipv6", "net", "net IPv6", address = "::1"),
    _emulated("efa1", "efa", "efa as of 1.17", {"CONTRACT_EFA_GENERATION": "1"}),
    _emulated("efa2", "efa", "efa as of 2.x", {"CONTRACT_EFA_GENERATION": "2"}),
    _emulated("gni", "gni", "gni"),
]

# The suite's halves, as filters on the names of its test suites.
_CALLS = "*Calls.*:*Clients.*:*Loss.*"
_HALVES = {
    "calls": _CALLS,
    "transport": "-" + _CALLS,
}

def conformance_tests():
    """Defines FABRIC_calls_test and FABRIC_transport_test for every fabric."""
    for fabric in _FABRICS:
        for half, tests in _HALVES.items():
            native.sh_test(
                name = "%s_%s_test" % (fabric.name, half),
                size = "medium",
                srcs = [":suite"],
                args = ["'--gtest_filter=%s'" % tests],
                data = [":suite"] + fabric.data,
                env = fabric.env,
            )

"""Runs a test's program on the emulated EFA card."""

def card_test(name, program, generation = "efa1", shm = False, args = [], env = {}, tags = [], **kwargs):
    """Defines a test that runs `program` with `args` on a card, with the fabric efa in place of others.

    `generation`: of the card.

    `shm`: whether processes of one host reach each other over shm, and not over the card.
    """
    variables = {
        "INVOKER_EFA_DEVICE_GENERATION": generation,
        "INVOKER_EFA_DEVICE_LIBRARY": "tests/efa_device/libefa_device.so",
        "FI_EFA_ENABLE_SHM_TRANSFER": "1" if shm else "0",
        "FI_EFA_USE_DEVICE_RDMA": "0" if generation == "efa0" else "1",
        # SRD delivers in no order.
        "INVOKER_EFA_DEVICE_FAULTS": "seed=1,reorder=100,delay=5",
        "INVOKER_TEST_FABRIC": "efa",
        "INVOKER_TEST_FABRIC_MIB": "110",
    }
    variables.update(env)
    native.sh_test(
        name = name,
        srcs = ["//tests/efa_device:run"],
        args = ["$(rootpath %s)" % program] + args,
        data = ["//tests/efa_device:device", program],
        env = variables,
        # A sanitizer's runtime must be the first library of a program. tools/test leaves out "efa" where the libfabric
        # lacks that provider.
        tags = tags + ["efa", "no_sanitizer"],
        **kwargs
    )

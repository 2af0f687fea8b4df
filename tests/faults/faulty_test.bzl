"""Tests that run a second time, unchanged, on fabrics with faults."""

def test_with_faults(name, srcs, deps, plan = "rough", **kwargs):
    """A cc_test, and NAME_with_faults: the same under a plan whose faults nobody may notice.

    Another seed: `bazel test --test_env=INVOKER_FAULT_SEED=7 ..._with_faults`; another plan likewise by
    INVOKER_FAULT_PLAN.
    """
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        deps = deps,
        alwayslink = True,
    )
    native.cc_test(name = name, deps = [":" + name + "_cases"], **kwargs)
    native.cc_test(
        name = name + "_with_faults",
        deps = [
            ":" + name + "_cases",
            "//tests/faults:armed_" + plan,
        ],
        **kwargs
    )

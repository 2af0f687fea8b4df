"""Tests that run again, unchanged, on fabrics with faults."""

def test_with_faults(name, srcs, deps, except_tests = [], **kwargs):
    """A cc_test, and NAME_with_faults: the same under faults that nobody may notice.

    The plan is "rough" (tests/faults/fault_plan.cc) and the seed 1. NAME_with_other_faults has the seed 2 and the
    tag "thorough". Another seed, or plan: `bazel test --test_env=INVOKER_FAULT_SEED=7 --test_env=INVOKER_FAULT_PLAN=late ..._with_faults`.

    Args:
      name: of the test.
      srcs: its sources.
      deps: what they need.
      except_tests: those that are about an order that the fabric does not promise; a filter of googletest's.
      **kwargs: of both tests.
    """
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        deps = deps,
        alwayslink = True,
    )
    native.cc_test(name = name, deps = [":" + name + "_cases"], **kwargs)
    args = ["--gtest_filter=-" + ":".join(except_tests)] if except_tests else []
    native.cc_test(
        name = name + "_with_faults",
        args = args,
        deps = [
            ":" + name + "_cases",
            "//tests/faults:armed",
        ],
        **kwargs
    )

    # The same program.
    native.sh_test(
        name = name + "_with_other_faults",
        size = kwargs.get("size"),
        srcs = [":" + name + "_with_faults"],
        args = args,
        data = [":" + name + "_with_faults"],
        env = {"INVOKER_FAULT_SEED": "2"},
        tags = ["thorough"],
    )

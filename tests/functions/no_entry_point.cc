// A shared library that has nothing to do with Invoker.

extern "C" int invoker_test_unrelated(int value) { return value + 1; }

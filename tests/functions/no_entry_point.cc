// A shared library that has nothing to do with Invoker, nor with rFaaS: no plain C function is
// exported.

int invoker_test_unrelated(int value) { return value + 1; }

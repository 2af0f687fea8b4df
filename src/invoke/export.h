// Marks the classes and functions that the shared library offers. All else in it is hidden.

#ifndef INVOKER_SRC_INVOKE_EXPORT_H_
#define INVOKER_SRC_INVOKE_EXPORT_H_

// The same as in function.h, which function libraries may include alone.
#define INVOKER_EXPORT __attribute__((visibility("default")))

#endif  // INVOKER_SRC_INVOKE_EXPORT_H_

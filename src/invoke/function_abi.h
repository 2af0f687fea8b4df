/* The C ABI between a worker and the functions that it runs. Function libraries include function.h.
 *
 * This header needs no other one of Invoker. It compiles as C11 and as C++17. */

#ifndef INVOKER_SRC_INVOKE_FUNCTION_ABI_H_
#define INVOKER_SRC_INVOKE_FUNCTION_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a change would break a library built against an older header. */
#define INVOKER_ABI_VERSION 1

/* A function's name: 1 to INVOKER_MAX_NAME characters out of A-Z a-z 0-9 _ . - */
#define INVOKER_MAX_NAME 128

/* The worker gives at least this much room for an error message, the terminating NUL included. */
#define INVOKER_MIN_ERROR_CAPACITY 256

/* What `input` and `output` are aligned to. (They lie 32 bytes into cells aligned to 64.) */
#define INVOKER_BUFFER_ALIGNMENT 32

/* Negative results. Anything between these and the application's range is reserved: the worker
 * treats it as a failure. Codes of the application's own travel to the caller as they are. */
#define INVOKER_FAILED (-1)           /* the reason is in `error` */
#define INVOKER_OUTPUT_TOO_SMALL (-2) /* `output_needed` bytes would do */
#define INVOKER_DEFERRED (-3)         /* the answer comes later: see invoker_services */
#define INVOKER_NO_ROOM (-4)          /* `defer` has returned NULL; the function has not run */
#define INVOKER_APPLICATION_CODE_MAX (-1000)
#define INVOKER_APPLICATION_CODE_MIN (-2147483647)

#define INVOKER_EXPORT __attribute__((visibility("default")))

struct invoker_call;

/* What a worker knows of a call. Text is the worker's, and holds during the call. */
typedef struct invoker_call_facts {
  uint32_t struct_size; /* set by the function that asks; the worker fills in no more */
  uint32_t reserved;
  const char* tenant;   /* the caller's name in the worker's policy; "" without a policy */
  const char* call_id;  /* this call's alone, for logs */
  int64_t remaining_ns; /* until its deadline, less than 0 after it; or INVOKER_NO_DEADLINE */
} invoker_call_facts;

#define INVOKER_NO_DEADLINE INT64_MAX

/* Data that a caller has put into the memory of its lease's executors. The memory is the worker's,
 * read only, and stays until the call that found it has been answered. */
typedef struct invoker_stored_data {
  uint32_t struct_size; /* set by the function that asks; the worker fills in no more */
  uint32_t reserved;
  const void* data;   /* one value of the type, as in a request; at a multiple of 8 */
  uint64_t size;      /* bytes */
  const char* type;   /* as in a signature: "f64[:]" */
  const void* worker; /* the worker's own */
} invoker_stored_data;

/* What refers to such data: its bytes. */
#define INVOKER_REFERENCE_BYTES 16

/* What a function can ask its worker, as often as it likes, on the thread that it was called on.
 * Later versions may append members. */
typedef struct invoker_services {
  uint32_t struct_size;
  uint32_t reserved;
  /* Not 0: nobody waits for the answer any more, since the caller has cancelled the call or its
   * deadline has passed. For a function that takes long. */
  int32_t (*cancelled)(const struct invoker_call* call);
  void (*describe)(const struct invoker_call* call, invoker_call_facts* facts);
  /* For a function that answers later, from any thread. Returns a call of the function's own, with
   * a copy of the input and with output and error buffers that stay until `complete`; the function
   * then returns INVOKER_DEFERRED, and leaves its own call alone. Asking this call's services is
   * allowed on any thread. NULL: there is no room for one more such call; return INVOKER_NO_ROOM.
   */
  struct invoker_call* (*defer)(struct invoker_call* call);
  /* Answers a call that `defer` returned: what the function would have returned, without
   * INVOKER_DEFERRED. On any thread, once; `call` is gone afterwards. */
  void (*complete)(struct invoker_call* call, int64_t returned);
  /* Finds the data of a reference, of INVOKER_REFERENCE_BYTES bytes. INVOKER_FAILED: there is none
   * in this executor; the caller has freed it, or it is of another lease. */
  int32_t (*find_data)(const struct invoker_call* call, const uint8_t* reference,
                       invoker_stored_data* found);
  /* The answer will be one, but tells the caller of a failure: the worker's metrics count it so.
   * Once a call. */
  void (*count_failure)(struct invoker_call* call);
} invoker_services;

/* One call. The worker fills in everything; the function changes what the buffers hold,
 * `output_needed`, and nothing else. Later versions may append members: `struct_size` says how many
 * bytes there are. */
typedef struct invoker_call {
  uint32_t struct_size;
  uint32_t reserved;
  void* context;            /* the `context` of the entry that was called */
  const void* input;        /* read only; never overlaps `output`; not NULL, even if empty */
  uint64_t input_size;      /* bytes */
  void* output;             /* contents undefined at first; not NULL */
  uint64_t output_capacity; /* bytes; nothing beyond may be touched */
  uint64_t output_needed;   /* 0 at first; set it before returning INVOKER_OUTPUT_TOO_SMALL */
  char* error;              /* "" at first; a NUL-terminated UTF-8 message on failure */
  uint64_t error_capacity;  /* bytes, at least INVOKER_MIN_ERROR_CAPACITY */
  const invoker_services* services; /* NULL: the call is not a worker's */
  void* worker;                     /* the worker's own */
} invoker_call;

/* For functions in C: whether the call is one that nobody waits for any more. */
#define INVOKER_CALL_CANCELLED(call) \
  ((call)->services != NULL && (call)->services->cancelled(call) != 0)

/* Returns the number of bytes written to `output`, 0 to output_capacity, or one of the negative
 * results above. Must not throw, must not end the process, and may block for as long as the caller
 * is willing to wait. */
typedef int64_t (*invoker_function)(invoker_call* call);

typedef struct invoker_entry {
  const char* name;
  invoker_function function;
  void* context;   /* handed back in invoker_call; may be NULL */
  const char* doc; /* one line for people, or NULL */
  /* What travels, such as "(f64[:], str) -> bool" (docs/reference/typed_calls.md); NULL: bytes. */
  const char* signature;
  /* 0: the function runs on the executor's own thread, which does nothing else meanwhile. Else on
   * up to so many threads at a time, beside other functions of the executor. */
  uint32_t concurrency;
  uint32_t reserved;
} invoker_entry;

/* What a library offers. It and all that it points to must stay until the library is unloaded. */
typedef struct invoker_module {
  uint32_t abi_version; /* INVOKER_ABI_VERSION */
  uint32_t struct_size; /* sizeof(invoker_module) */
  uint32_t entry_size;  /* sizeof(invoker_entry) */
  uint32_t count;
  const invoker_entry* entries;
} invoker_module;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif /* INVOKER_SRC_INVOKE_FUNCTION_ABI_H_ */

/* A function library in C11. */

#include <stdio.h>
#include <string.h>

#include "invoker/function.h"

/* The input's bytes in the opposite order. */
static int64_t Reverse(invoker_call* call) {
  const unsigned char* input = call->input;
  unsigned char* output = call->output;
  if (call->input_size > call->output_capacity) {
    call->output_needed = call->input_size;
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  for (uint64_t i = 0; i < call->input_size; ++i) output[i] = input[call->input_size - 1 - i];
  return (int64_t)call->input_size;
}

/* Fails with a code and a message of its own. */
static int64_t Refuse(invoker_call* call) {
  snprintf(call->error, call->error_capacity, "refused %llu bytes",
           (unsigned long long)call->input_size);
  return INVOKER_APPLICATION_CODE_MAX - 7;
}

/* One function behind two names: answers with the text that its entry's context points to. */
static int64_t Greet(invoker_call* call) {
  const char* text = call->context;
  const size_t size = strlen(text);
  if (size > call->output_capacity) {
    call->output_needed = size;
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  memcpy(call->output, text, size);
  return (int64_t)size;
}

static char english[] = "hello";
static char german[] = "hallo";

static const invoker_entry entries[] = {
    {.name = "c.reverse", .function = Reverse, .doc = "the input's bytes in the opposite order"},
    {.name = "c.refuse", .function = Refuse},
    {.name = "c.greet.en", .function = Greet, .context = english},
    {.name = "c.greet.de", .function = Greet, .context = german},
};

static const invoker_module module = {INVOKER_ABI_VERSION, sizeof(invoker_module),
                                      sizeof(invoker_entry), sizeof(entries) / sizeof(entries[0]),
                                      entries};

const invoker_module* invoker_get_module(void) { return &module; }

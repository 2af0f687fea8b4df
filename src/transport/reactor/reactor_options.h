// A reactor's options: how its driver waits, how much it holds, how patient it is.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_OPTIONS_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace invoker::transport {

// How a reactor's driver waits.
enum class ReactorUse : uint8_t {
  kBlocking,  // it sleeps between messages, and each is to wake it
  kHot,       // it busy-polls, and sleeps only after it has waited long: on a fabric where a wait
              // object slows polling there is none, and sleeps grow with the wait
};

struct ReactorOptions {
  // Operations outstanding at most; narrowed to what the endpoint takes.
  size_t operations = 512;
  // Completions that the queue has room for beyond those operations: notifications from peers.
  size_t inbound = 8192;
  // How long a post that the provider refuses with -FI_EAGAIN is tried again before it fails.
  absl::Duration retry_limit = absl::Seconds(30);
  // How long after its owner has gone an operation still counts that the provider does not
  // complete. Longer than any provider keeps trying to finish it.
  absl::Duration quarantine_after = absl::Seconds(10);
  // How long what is retired keeps its registration (Reactor::Retire). Longer than a provider takes
  // to place what a peer posted that did not know yet.
  absl::Duration retirement = absl::Seconds(10);
  // How many bytes of addresses that peers could write to are kept
  // from being used again, before no more such memory is registered: those of two million sessions
  // with windows of 2 MiB.
  uint64_t quarantine_bytes = uint64_t{4} << 40;
  // How long every slot may be taken, with nothing completing, before the reactor is given up.
  absl::Duration stall_limit = absl::Seconds(30);
  // How long a call of the provider may spin for a lock that a peer has, on a fabric where peers
  // share locks. Longer than a peer that has one waits for a processor.
  absl::Duration spin_limit = absl::Milliseconds(500);
  // How long Wait sleeps at most: how late a tick may be while nothing happens.
  absl::Duration longest_sleep = absl::Milliseconds(50);
  ReactorUse use = ReactorUse::kBlocking;
  // Whether peers are to wake a driver that sleeps where the fabric does not, and endpoints are
  // files that they share (SleepFlag).
  bool shows_sleep = false;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_OPTIONS_H_

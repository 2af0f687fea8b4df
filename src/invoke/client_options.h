// Options of a client and of a call.

#ifndef INVOKER_SRC_INVOKE_CLIENT_OPTIONS_H_
#define INVOKER_SRC_INVOKE_CLIENT_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "invoker/client_credentials.h"
#include "invoker/data_auth.h"
#include "invoker/notification.h"

namespace invoker {

struct ConnectTimes;
class RegisteredWindow;

// Whether a call waits when it finds no room in the windows. A call that does not wait ends as
// RESOURCE_EXHAUSTED, NOT_SENT.
enum class WhenFull : uint8_t {
  kFail,
  kWaitForCalls,      // until calls that are under way have ended and their responses have been
                      // released
  kWaitForResponses,  // also until another thread releases responses that it holds: not where this
                      // thread holds any
};

struct ClientOptions {
  // The fabric to use, by libfabric's name; connecting fails if the worker does not offer it.
  // "auto" or empty: the best that both sides have, and the next if that does not work.
  std::string provider;
  // Our side's IP address, interface or libfabric domain; empty: the one that routes to the worker.
  // Where the worker offers several fabrics, it applies to those that have it: an IP address or an
  // interface applies to all fabrics that are addressed by IP.
  std::string fabric_address;
  // kAuto: write-with-immediate if a probe proves it, else send-after-write.
  Notification notification = Notification::kAuto;
  // Bytes per direction: a power of two, at most the worker's; 0: the worker's.
  uint64_t window_bytes = 0;
  // The worker is in this very process: fabrics that are for one host only are left out, since
  // their endpoints in one process share memory that goes with the first of them.
  bool worker_in_this_process = false;
  // What to show the worker's bootstrap, and to know it by. What is empty is taken from the
  // environment (INVOKER_TLS_CA and so on).
  ClientCredentials credentials;
  // For each step of connecting.
  absl::Duration connect_timeout = absl::Seconds(10);
  // For one probe of the data path. Each fabric that is tried gets two at most: one for each
  // notification, or both for the only one. Time that the worker's executor spends in a function is
  // not counted.
  absl::Duration probe_timeout = absl::Seconds(2);
  // Every call ends within this time of its worker's death, whether that is killed, stopped or cut
  // off: heartbeats go out five times in it, and the worker is given up when it has been silent for
  // four fifths of it. Silence counts only while this process runs, so that neither a stop of its
  // own nor a machine that sleeps looks like the worker's death. At least 20 ms; infinite: as long
  // as the worker says (invoker_server --peer-timeout).
  absl::Duration peer_timeout = absl::Seconds(1);
  // ClientGroup::Connect only: connects again, in the background, to a worker that has been lost,
  // and to those that join its cluster.
  bool reconnect = true;
  // ClientGroup only: what to show etcd, where it knows the cluster's members.
  ClusterCredentials cluster;
  // How long a waiting thread busy-polls before it sleeps. Longer: lower latency of slow functions,
  // more CPU.
  absl::Duration hot_timeout = absl::Milliseconds(1);
  // How much of each message is to be under a keyed tag at least (docs/design/security.md). A
  // session has the stronger of this and what the worker wants (--data-auth).
  DataAuth data_auth = DataAuth::kOff;
  // Where the fabric can do both (docs/design/performance.md), payloads of up to so many bytes go
  // in pieces, both ways, if the provider does not inject them whole; 0: every message goes in one
  // write. At most 16 times what the provider injects. Nothing: a short trial decides when the
  // session opens, and again when an end has moved to another processor. Calls that block notice
  // such a move: once a second, one of them waits for a round trip first, and for some
  // milliseconds if there has been a move.
  std::optional<uint64_t> pieces_up_to;
  // Where sequence numbers begin. They wrap; starting near the end makes them wrap soon.
  uint64_t first_sequence = 1;
  // Where what each step of connecting took is added; nullptr: not wanted. Until Connect returns.
  ConnectTimes* times = nullptr;
};

// Puts the bytes of a call's input together, where they are to be: CallInput.
struct InputWriter {
  void (*write)(const void* source, size_t count, std::byte* to) = nullptr;
  const void* source = nullptr;
  size_t count = 0;
};

// Where a call's output goes: into the session's response window, or into memory of the caller's.
class CallOutput {
 public:
  // The response window. CallOptions::response_capacity says how much fits.
  constexpr CallOutput() = default;
  // Memory of any size. It is the call's until the call has ended. What does not fit in the
  // response window is registered for the call alone (registered_window.h).
  CallOutput(absl::Span<std::byte> memory)
      : kind_(Kind::kMemory), place_(memory.data()), capacity_(memory.size()) {}
  CallOutput(void* memory, size_t size)
      : CallOutput(absl::MakeSpan(static_cast<std::byte*>(memory), size)) {}
  // At most `capacity` bytes at `offset` of a window of this client, which outlives the call.
  CallOutput(const RegisteredWindow& window, uint64_t offset, uint64_t capacity)
      : kind_(Kind::kWindow), place_(&window), offset_(offset), capacity_(capacity) {}

 private:
  friend class CallStarter;
  friend class MemoryCall;
  friend class RequestMaker;
  enum class Kind : uint32_t { kResponseWindow, kMemory, kWindow };

  std::byte* memory() const { return static_cast<std::byte*>(const_cast<void*>(place_)); }
  const RegisteredWindow& window() const { return *static_cast<const RegisteredWindow*>(place_); }

  Kind kind_ = Kind::kResponseWindow;
  const void* place_ = nullptr;
  uint64_t offset_ = 0;  // in a window
  uint64_t capacity_ = 0;
};

struct CallOptions {
  // From the start of the call to its end, waiting for free cells included. Infinite: none.
  absl::Duration timeout = absl::InfiniteDuration();
  // Bytes of response to make room for. 0: as many as the request has, or 1/64 of the window if
  // that is more, so that 64 calls fit into a window. A function that returns more fails with
  // RESOURCE_EXHAUSTED, and the message says how much it needs.
  uint32_t response_capacity = 0;
  // Asked every 100 ms by a thread that waits in Invoke, or for room in the windows, without locks.
  // Once it returns true, the call ends as CANCELLED, as by Future::Cancel. nullptr: nobody is
  // asked.
  bool (*interrupted)() = nullptr;
  WhenFull when_full = WhenFull::kWaitForCalls;
  // ClientGroup only: how often to try a call again, on another executor, if its executor was lost
  // (NOT_SENT or MAYBE_EXECUTED) or takes no more calls (NOT_EXECUTED). A caller that sets this
  // permits the function to run more than once. The timeout covers all tries together, and so does
  // the fate: MAYBE_EXECUTED if one of them may have been executed.
  uint32_t retry = 0;
  // With memory or a window of the caller's, the Response is a view of it, and response_capacity is
  // of no effect. RESOURCE_EXHAUSTED says how much the response needs. A window belongs to one
  // client, so calls of a ClientGroup take memory only.
  CallOutput output = CallOutput();
};

// Made once, so that a call without options of its own makes none.
inline constexpr CallOptions kDefaultCallOptions{};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_OPTIONS_H_

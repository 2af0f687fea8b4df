#include "bench/programs/stage_probe.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "src/transport/base/libfabric.h"
#include "src/transport/reactor/reactor.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace invoker::bench {
namespace {

// What one end notes of one call. Written by its thread; the executor's are read by the client's,
// once `posted` says that the last of them is there.
struct Side {
  std::atomic<int64_t> read{0};
  std::atomic<int64_t> seen{0};
  std::atomic<int64_t> function{0};
  std::atomic<int64_t> function_end{0};
  std::atomic<int64_t> post{0};
  std::atomic<int64_t> posted{0};

  void Clear() {
    for (std::atomic<int64_t>* stamp : {&read, &seen, &function, &function_end, &post, &posted}) {
      stamp->store(0, std::memory_order_relaxed);
    }
  }
};

Side client_side;
Side executor_side;
std::atomic<bool> probing{false};
thread_local Side* t_side = nullptr;
// A layered provider opens another with fi_fabric again.
thread_local int t_depth = 0;

void Note(std::atomic<int64_t>* stamp, int64_t ticks) {
  stamp->store(ticks, std::memory_order_release);
}

Side* Noting() { return probing.load(std::memory_order_relaxed) ? t_side : nullptr; }

// A provider's table with some functions of ours in it. An object that has it points to `table`.
template <typename Table>
struct Patched {
  Table table;
  const Table* original;
};

template <typename Table>
const Table& OriginalOf(const Table* table) {
  return *reinterpret_cast<const Patched<Table>*>(table)->original;
}

// Lives for ever, as the provider's own does: objects keep pointing to it.
template <typename Table, typename Change>
Table* Patch(const Table* original, Change change) {
  static std::mutex mutex;
  static auto* const made = new std::vector<std::unique_ptr<Patched<Table>>>;
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::unique_ptr<Patched<Table>>& known : *made) {
    if (known->original == original || &known->table == original) return &known->table;
  }
  made->push_back(std::make_unique<Patched<Table>>(Patched<Table>{*original, original}));
  change(&made->back()->table);
  return &made->back()->table;
}

bool IsArrival(const fi_cq_data_entry& entry) {
  return (entry.flags & (FI_REMOTE_CQ_DATA | FI_WRITE | FI_RECV)) == FI_REMOTE_CQ_DATA;
}

ssize_t ReadQueue(fid_cq* queue, void* buffer, size_t count) {
  const fi_ops_cq& original = OriginalOf(queue->ops);
  Side* side = Noting();
  if (side == nullptr) return original.read(queue, buffer, count);
  const int64_t begin = ProbeTicks();
  const ssize_t read = original.read(queue, buffer, count);
  if (read <= 0) return read;
  const int64_t end = ProbeTicks();
  const auto* entries = static_cast<const fi_cq_data_entry*>(buffer);
  for (ssize_t i = 0; i < read; ++i) {
    if (!IsArrival(entries[i])) continue;
    Note(&side->read, begin);
    Note(&side->seen, end);
  }
  return read;
}

template <typename Call>
ssize_t NotePost(Call call) {
  Side* side = Noting();
  if (side == nullptr) return call();
  const int64_t begin = ProbeTicks();
  const ssize_t result = call();
  if (result == 0) {
    Note(&side->post, begin);
    Note(&side->posted, ProbeTicks());
  }
  return result;
}

ssize_t WriteData(fid_ep* endpoint, const void* buffer, size_t bytes, void* descriptor,
                  uint64_t data, fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
  return NotePost([&] {
    return OriginalOf(endpoint->rma)
        .writedata(endpoint, buffer, bytes, descriptor, data, peer, address, key, context);
  });
}

ssize_t WriteMessage(fid_ep* endpoint, const fi_msg_rma* message, uint64_t flags) {
  return NotePost([&] { return OriginalOf(endpoint->rma).writemsg(endpoint, message, flags); });
}

ssize_t InjectData(fid_ep* endpoint, const void* buffer, size_t bytes, uint64_t data,
                   fi_addr_t peer, uint64_t address, uint64_t key) {
  return NotePost([&] {
    return OriginalOf(endpoint->rma).injectdata(endpoint, buffer, bytes, data, peer, address, key);
  });
}

// Some providers choose an endpoint's functions only when it is enabled.
int ControlEndpoint(fid* handle, int command, void* argument) {
  const int code = OriginalOf(handle->ops).control(handle, command, argument);
  if (code != 0 || command != FI_ENABLE) return code;
  auto* endpoint = reinterpret_cast<fid_ep*>(handle);
  endpoint->rma = Patch(endpoint->rma, [](fi_ops_rma* table) {
    table->writedata = WriteData;
    table->writemsg = WriteMessage;
    table->injectdata = InjectData;
  });
  return code;
}

int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int code = OriginalOf(domain->ops).endpoint(domain, info, endpoint, context);
  if (code == 0) {
    fid& handle = (*endpoint)->fid;
    handle.ops = Patch(handle.ops, [](fi_ops* table) { table->control = ControlEndpoint; });
  }
  return code;
}

int OpenQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
  const int code = OriginalOf(domain->ops).cq_open(domain, attributes, queue, context);
  if (code == 0) {
    (*queue)->ops = Patch((*queue)->ops, [](fi_ops_cq* table) { table->read = ReadQueue; });
  }
  return code;
}

int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  const int code = OriginalOf(fabric->ops).domain(fabric, info, domain, context);
  if (code == 0) {
    (*domain)->ops = Patch((*domain)->ops, [](fi_ops_domain* table) {
      table->cq_open = OpenQueue;
      table->endpoint = OpenEndpoint;
    });
  }
  return code;
}

int OpenFabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  static const auto original =
      reinterpret_cast<decltype(&fi_fabric)>(dlsym(RTLD_NEXT, "fi_fabric"));
  ++t_depth;
  const int code = original(attributes, fabric, context);
  --t_depth;
  if (code == 0 && t_depth == 0) {
    (*fabric)->ops =
        Patch((*fabric)->ops, [](fi_ops_fabric* table) { table->domain = OpenDomain; });
  }
  return code;
}

}  // namespace

int64_t ProbeTicks() {
#if defined(__x86_64__)
  return static_cast<int64_t>(__rdtsc());
#else
  return transport::MonotonicNs();
#endif
}

double TicksPerNs() {
  static const double result = [] {
    constexpr int64_t kLookNs = 50'000'000;
    const int64_t begin_ns = transport::MonotonicNs();
    const int64_t begin = ProbeTicks();
    int64_t now_ns = begin_ns;
    while (now_ns - begin_ns < kLookNs) now_ns = transport::MonotonicNs();
    return static_cast<double>(ProbeTicks() - begin) / static_cast<double>(now_ns - begin_ns);
  }();
  return result;
}

double StampCostNs() {
  constexpr int kStamps = 100'000;
  const int64_t begin = ProbeTicks();
  int64_t last = begin;
  for (int i = 0; i < kStamps; ++i) last = ProbeTicks();
  return static_cast<double>(last - begin) / TicksPerNs() / kStamps;
}

void ProbeThisThread() { t_side = &client_side; }

void SetProbing(bool on) { probing.store(on); }

void ProbeCallBegin() {
  client_side.Clear();
  executor_side.Clear();
}

bool ProbeCallEnd(int64_t invoke, int64_t returned, int64_t released, Stamps* stamps) {
  // The response may be here before the executor's post has returned: on a machine with too few
  // processors, long before.
  const int64_t limit = ProbeTicks() + static_cast<int64_t>(1e10 * TicksPerNs());
  while (executor_side.posted.load(std::memory_order_acquire) == 0) {
    if (ProbeTicks() > limit) return false;
  }
  *stamps = {invoke,
             client_side.post,
             client_side.posted,
             executor_side.read,
             executor_side.seen,
             executor_side.function,
             executor_side.function_end,
             executor_side.post,
             executor_side.posted,
             client_side.read,
             client_side.seen,
             returned,
             released};
  for (int64_t stamp : *stamps) {
    if (stamp == 0) return false;
  }
  return true;
}

int64_t ProbedNoop(invoker_call* call) {
  t_side = &executor_side;
  const bool noting = probing.load(std::memory_order_relaxed);
  if (noting) Note(&executor_side.function, ProbeTicks());
  if (call->input_size > call->output_capacity) {
    call->output_needed = call->input_size;
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  if (noting) Note(&executor_side.function_end, ProbeTicks());
  return static_cast<int64_t>(call->input_size);
}

}  // namespace invoker::bench

// In place of libfabric's, for this program's own code.
extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  return invoker::bench::OpenFabric(attributes, fabric, context);
}

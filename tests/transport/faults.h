// Faults in a real libfabric object: its table of operations is replaced by one of ours that calls
// the provider's, except where a test says otherwise. The destructor puts the provider's back.
//
// Everything here belongs to the thread that drives the object. Install and remove while nobody
// else is inside libfabric with it (from a task of its reactor, for one).

#ifndef INVOKER_TESTS_TRANSPORT_FAULTS_H_
#define INVOKER_TESTS_TRANSPORT_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "src/transport/base/libfabric.h"

namespace invoker::transport {

// One operations table, replaced for as long as this lives. `Owner` is found again from the table.
template <typename Ops, typename Owner>
class ReplacedOps {
 public:
  ReplacedOps(Ops** place, Owner* owner) : place_(place), provider_(*place) {
    table_.ops = *provider_;
    table_.owner = owner;
    *place_ = &table_.ops;
  }
  ~ReplacedOps() { *place_ = provider_; }
  ReplacedOps(const ReplacedOps&) = delete;
  ReplacedOps& operator=(const ReplacedOps&) = delete;

  static Owner& From(Ops* ops) { return *reinterpret_cast<Table*>(ops)->owner; }

  Ops& ours() { return table_.ops; }
  const Ops& provider() const { return *provider_; }

 private:
  struct Table {
    Ops ops;  // first: the object points to it
    Owner* owner;
  };

  Ops** place_;
  Ops* provider_;
  Table table_;
};

// Faults in what is posted to an endpoint.
class EndpointFaults {
 public:
  enum class Kind : uint8_t { kWrite, kWriteData, kInjectData, kWriteMsg, kRead, kSend, kAtomic };

  struct Attempt {
    Kind kind;
    fi_addr_t peer;
    const void* source;
    uint64_t length;
    void* context;
    uint64_t data = 0;     // the immediate
    uint64_t address = 0;  // where a write with immediate goes
  };

  explicit EndpointFaults(fid_ep* endpoint)
      : rma_(&endpoint->rma, this), messages_(&endpoint->msg, this) {
    rma_.ours().write = &Write;
    rma_.ours().writedata = &WriteData;
    rma_.ours().injectdata = &InjectData;
    rma_.ours().writemsg = &WriteMessage;
    rma_.ours().read = &Read;
    messages_.ours().send = &Send;
    if (endpoint->atomic != nullptr) {
      atomics_.emplace(&endpoint->atomic, this);
      atomics_->ours().write = &Atomic;
    }
  }

  // Asked before each attempt: 0 lets it through, a negative fi_errno is what the caller gets
  // instead. Empty: everything goes through.
  std::function<int(const Attempt&)> judge;

  // Writes with an immediate go out as plain writes, as a provider does that drops the immediate
  // without a word: the bytes arrive, the token never does.
  bool drop_immediates = false;

  uint64_t attempts = 0;
  uint64_t refused = 0;
  uint64_t immediates_dropped = 0;

 private:
  using Rma = ReplacedOps<fi_ops_rma, EndpointFaults>;
  using Messages = ReplacedOps<fi_ops_msg, EndpointFaults>;
  using Atomics = ReplacedOps<fi_ops_atomic, EndpointFaults>;

  int Judge(const Attempt& attempt) {
    ++attempts;
    const int code = judge == nullptr ? 0 : judge(attempt);
    if (code != 0) ++refused;
    return code;
  }

  static ssize_t Write(fid_ep* ep, const void* source, size_t length, void* descriptor,
                       fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
    EndpointFaults& self = Rma::From(ep->rma);
    if (int code = self.Judge({Kind::kWrite, peer, source, length, context}); code != 0) {
      return code;
    }
    return self.rma_.provider().write(ep, source, length, descriptor, peer, address, key, context);
  }

  static ssize_t WriteData(fid_ep* ep, const void* source, size_t length, void* descriptor,
                           uint64_t data, fi_addr_t peer, uint64_t address, uint64_t key,
                           void* context) {
    EndpointFaults& self = Rma::From(ep->rma);
    if (int code = self.Judge({Kind::kWriteData, peer, source, length, context, data, address});
        code != 0) {
      return code;
    }
    const fi_ops_rma& provider = self.rma_.provider();
    if (self.drop_immediates) {
      const ssize_t code =
          provider.write(ep, source, length, descriptor, peer, address, key, context);
      if (code == 0) ++self.immediates_dropped;
      return code;
    }
    return provider.writedata(ep, source, length, descriptor, data, peer, address, key, context);
  }

  static ssize_t InjectData(fid_ep* ep, const void* source, size_t length, uint64_t data,
                            fi_addr_t peer, uint64_t address, uint64_t key) {
    EndpointFaults& self = Rma::From(ep->rma);
    const Attempt attempt = {Kind::kInjectData, peer, source, length, nullptr, data, address};
    if (int code = self.Judge(attempt); code != 0) return code;
    const fi_ops_rma& provider = self.rma_.provider();
    if (self.drop_immediates) {
      const ssize_t code = provider.inject(ep, source, length, peer, address, key);
      if (code == 0) ++self.immediates_dropped;
      return code;
    }
    return provider.injectdata(ep, source, length, data, peer, address, key);
  }

  static ssize_t WriteMessage(fid_ep* ep, const fi_msg_rma* message, uint64_t flags) {
    EndpointFaults& self = Rma::From(ep->rma);
    const Attempt attempt = {Kind::kWriteMsg, message->addr, message->msg_iov[0].iov_base,
                             message->msg_iov[0].iov_len, message->context};
    if (int code = self.Judge(attempt); code != 0) return code;
    return self.rma_.provider().writemsg(ep, message, flags);
  }

  static ssize_t Read(fid_ep* ep, void* target, size_t length, void* descriptor, fi_addr_t peer,
                      uint64_t address, uint64_t key, void* context) {
    EndpointFaults& self = Rma::From(ep->rma);
    if (int code = self.Judge({Kind::kRead, peer, target, length, context}); code != 0) {
      return code;
    }
    return self.rma_.provider().read(ep, target, length, descriptor, peer, address, key, context);
  }

  static ssize_t Send(fid_ep* ep, const void* source, size_t length, void* descriptor,
                      fi_addr_t peer, void* context) {
    EndpointFaults& self = Messages::From(ep->msg);
    if (int code = self.Judge({Kind::kSend, peer, source, length, context}); code != 0) {
      return code;
    }
    return self.messages_.provider().send(ep, source, length, descriptor, peer, context);
  }

  static ssize_t Atomic(fid_ep* ep, const void* source, size_t count, void* descriptor,
                        fi_addr_t peer, uint64_t address, uint64_t key, enum fi_datatype type,
                        enum fi_op op, void* context) {
    EndpointFaults& self = Atomics::From(ep->atomic);
    if (int code = self.Judge({Kind::kAtomic, peer, source, count, context}); code != 0) {
      return code;
    }
    return self.atomics_->provider().write(ep, source, count, descriptor, peer, address, key, type,
                                           op, context);
  }

  Rma rma_;
  Messages messages_;
  std::optional<Atomics> atomics_;
};

// Faults in what a completion queue of data entries reports.
class CompletionFaults {
 public:
  explicit CompletionFaults(fid_cq* queue) : queue_(&queue->ops, this) {
    queue_.ours().read = &Read;
    queue_.ours().readerr = &ReadError;
  }

  // Unless kReadReally: what every fi_cq_read returns, with nothing read.
  ssize_t read_result = kReadReally;

  // Asked for each completion: 0 lets it through; a positive fi_errno makes it an error entry of
  // the same context. Empty: everything goes through.
  std::function<int(const fi_cq_data_entry&)> judge;

  // Asked for each completion that `judge` lets through: true keeps it from the reader for good, or
  // until GiveBack. Empty: nothing is kept.
  std::function<bool(const fi_cq_data_entry&)> swallow;

  // Lets what was swallowed come after all, in front of everything else.
  void GiveBack() { returning_.swap(swallowed_); }
  size_t swallowed() const { return swallowed_.size(); }

  // Adds a completion, behind those that come again and in front of everything else.
  void Add(const fi_cq_data_entry& entry) { returning_.push_back(entry); }

  // Adds an error entry: what fi_cq_read announces with -FI_EAVAIL and fi_cq_readerr then hands
  // out.
  void AddError(void* context, int code) {
    fi_cq_err_entry entry = {};
    entry.op_context = context;
    entry.err = code;
    entry.prov_errno = code;
    errors_.push_back(entry);
  }

  size_t errors_waiting() const { return errors_.size(); }

  static constexpr ssize_t kReadReally = 1;

 private:
  using Queue = ReplacedOps<fi_ops_cq, CompletionFaults>;

  static ssize_t Read(fid_cq* cq, void* buffer, size_t count) {
    CompletionFaults& self = Queue::From(cq->ops);
    if (self.read_result != kReadReally) return self.read_result;
    if (!self.errors_.empty()) return -FI_EAVAIL;
    if (!self.returning_.empty()) {
      *static_cast<fi_cq_data_entry*>(buffer) = self.returning_.front();
      self.returning_.pop_front();
      return 1;
    }
    const ssize_t read = self.queue_.provider().read(cq, buffer, count);
    if (read <= 0) return read;
    auto* entries = static_cast<fi_cq_data_entry*>(buffer);
    ssize_t kept = 0;
    for (ssize_t i = 0; i < read; ++i) {
      const int code = self.judge == nullptr ? 0 : self.judge(entries[i]);
      if (code != 0) {
        self.AddError(entries[i].op_context, code);
      } else if (self.swallow != nullptr && self.swallow(entries[i])) {
        self.swallowed_.push_back(entries[i]);
      } else {
        entries[kept++] = entries[i];
      }
    }
    return kept > 0 ? kept : -FI_EAVAIL;
  }

  static ssize_t ReadError(fid_cq* cq, fi_cq_err_entry* entry, uint64_t flags) {
    CompletionFaults& self = Queue::From(cq->ops);
    if (self.errors_.empty()) return self.queue_.provider().readerr(cq, entry, flags);
    *entry = self.errors_.front();
    self.errors_.pop_front();
    return 1;
  }

  Queue queue_;
  std::deque<fi_cq_err_entry> errors_;
  std::deque<fi_cq_data_entry> swallowed_;
  std::deque<fi_cq_data_entry> returning_;
};

// Faults in an address vector's insert.
class AddressFaults {
 public:
  explicit AddressFaults(fid_av* av) : av_(&av->ops, this) { av_.ours().insert = &Insert; }

  // What fi_av_insert returns without inserting anything; every address becomes
  // FI_ADDR_NOTAVAIL.
  int result = 0;

 private:
  using Vector = ReplacedOps<fi_ops_av, AddressFaults>;

  static int Insert(fid_av* av, const void*, size_t count, fi_addr_t* addresses, uint64_t, void*) {
    AddressFaults& self = Vector::From(av->ops);
    for (size_t i = 0; i < count; ++i) addresses[i] = FI_ADDR_NOTAVAIL;
    return self.result;
  }

  Vector av_;
};

}  // namespace invoker::transport

#endif  // INVOKER_TESTS_TRANSPORT_FAULTS_H_

// The calls of one session that are answered later (DeferredCall). Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_DEFERRALS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_DEFERRALS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "src/invoke/executor/deferred/deferred_call.h"
#include "src/invoke/executor/session/function_runner.h"
#include "src/invoke/executor/session/response_writer.h"
#include "src/invoke/executor/session/session_usage.h"
#include "src/invoke/wire/wire.h"

namespace invoker {

class SessionDeferrals {
 public:
  // Both pointers outlive this. `wake` is called when there is something to take.
  SessionDeferrals(FunctionRunner* functions, SessionUsage* usage, std::function<void()> wake);
  // The session ends: nobody waits for the answers any more.
  ~SessionDeferrals();
  SessionDeferrals(const SessionDeferrals&) = delete;
  SessionDeferrals& operator=(const SessionDeferrals&) = delete;

  // The request's function has just returned less than 0. True if it answers later; the run then
  // counts when it has ended. `flags` is the request's byte in the window.
  bool Keep(const RequestHeader& header, uint64_t bytes_in, const std::byte* flags);
  bool Has(uint64_t sequence) const { return calls_.contains(sequence); }
  // Cancels those whose clients have marked them.
  void LookForCancelled();

  // Those that have been answered since the last time. Their runs and times are counted.
  std::vector<std::shared_ptr<DeferredCall>> Take();

  // Returns the output of a call that Take has returned. A call that has not run, or has failed, is
  // answered here; then data() is nullptr.
  static absl::Span<const std::byte> OutputOrAnswer(DeferredCall* call, ResponseWriter* responses,
                                                    int64_t now_ns);

 private:
  // What a call keeps of the session: nothing, once that has ended.
  class Owner final : public DeferredOwner {
   public:
    explicit Owner(SessionDeferrals* deferrals) : deferrals_(deferrals) {}
    void Finish(DeferredCall* call) override;

   private:
    SessionDeferrals* const deferrals_;
  };

  FunctionRunner* const functions_;
  SessionUsage* const usage_;
  const std::function<void()> wake_;
  const std::shared_ptr<Owner> owner_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<DeferredCall>> calls_;  // by sequence
  std::vector<std::shared_ptr<DeferredCall>> finished_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_DEFERRALS_H_

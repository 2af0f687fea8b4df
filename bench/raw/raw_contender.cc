#include "bench/raw/raw_contender.h"

#include "absl/strings/str_cat.h"
#include "bench/raw/round_trips.h"

namespace invoker::bench {

absl::StatusOr<RawPair> StartRawPair(const std::string& provider, const std::string& address,
                                     size_t bytes, int core) {
  absl::StatusOr<std::unique_ptr<RawEndpoint>> ours = RawEndpoint::Open(provider, address, bytes);
  if (!ours.ok()) return ours.status();
  ServerProcess::Options options;
  options.command = {ProgramPath("bench/peers/raw_peer"), absl::StrCat("--provider=", provider),
                     absl::StrCat("--address=", address), absl::StrCat("--bytes=", bytes)};
  options.core = core;
  absl::StatusOr<std::unique_ptr<ServerProcess>> peer = ServerProcess::Start(options);
  if (!peer.ok()) return peer.status();
  if (absl::Status status = (*ours)->Meet((*peer)->first_line()); !status.ok()) return status;
  if (absl::Status status = (*peer)->WriteLine((*ours)->Describe()); !status.ok()) return status;
  return RawPair{*std::move(peer), *std::move(ours)};
}

absl::StatusOr<std::unique_ptr<RawContender>> RawContender::Start(const std::string& provider,
                                                                  const std::string& address,
                                                                  size_t bytes, int core) {
  absl::StatusOr<RawPair> pair = StartRawPair(provider, address, bytes, core);
  if (!pair.ok()) return pair.status();
  return std::unique_ptr<RawContender>(new RawContender(*std::move(pair)));
}

absl::Status RawContender::Burst(size_t bytes, absl::Span<int64_t> times_ns) {
  const absl::Status told = pair_.peer->WriteLine(
      absl::StrCat("pong ", bytes, " ", times_ns.size() + size_t{kSettlingTrips}));
  if (!told.ok()) return told;
  RawEndpoint& raw = *pair_.ours;
  absl::Status status = TimeTrips(times_ns, [&]() -> absl::Status {
    if (absl::Status written = raw.Write(bytes, ++data_); !written.ok()) return written;
    const absl::StatusOr<uint32_t> answer = raw.Await();
    if (!answer.ok()) return answer.status();
    if (*answer != data_) return absl::DataLossError("raw ping-pong: the answer is not the ping's");
    return absl::OkStatus();
  });
  if (status.ok()) status = raw.Drain();
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> done = pair_.peer->ReadLine();
  if (!done.ok()) return done.status();
  if (*done != "done") return absl::InternalError(absl::StrCat("raw_peer said '", *done, "'"));
  return absl::OkStatus();
}

}  // namespace invoker::bench

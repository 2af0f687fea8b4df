#include "bench/programs/peer_inserts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness/counted_memory.h"
#include "bench/programs/peer_addresses.h"
#include "src/transport/fabric/domain.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::bench {
namespace {

using transport::MonotonicNs;
using transport::Reactor;

// Single inserts that are timed once the table is full.
constexpr uint32_t kLastInserts = 2000;
// Raw inserts between two looks at the clock.
constexpr uint32_t kPerLook = 256;

double PerSecond(uint32_t count, int64_t ns) { return ns > 0 ? count * 1e9 / ns : 0; }

class Silent final : public transport::ReactorHandler {
 public:
  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
};

// A vector of nothing but libfabric. Says how many it took, which is then what our table is given.
absl::Status MeasureRaw(const transport::FabricChoice& fabric_choice, PeerAddresses addresses,
                        uint32_t peers, int64_t patience_ns, PeerFigures* figures) {
  absl::StatusOr<transport::FabricChoice> choice = transport::CopyOf(fabric_choice);
  if (!choice.ok()) return choice.status();
  absl::StatusOr<transport::Fabric> fabric = transport::Fabric::Open(*std::move(choice));
  if (!fabric.ok()) return fabric.status();
  absl::StatusOr<transport::Domain> domain = transport::Domain::Open(*fabric);
  if (!domain.ok()) return domain.status();
  fi_av_attr attributes = {};
  attributes.type = FI_AV_TABLE;
  fid_av* av = nullptr;
  if (const int code = fi_av_open(domain->get(), &attributes, &av, nullptr); code != 0) {
    return absl::InternalError(absl::StrCat("fi_av_open: ", fi_strerror(-code)));
  }
  std::vector<fi_addr_t> inserted(peers);
  const int64_t heap_before = HeapBytes();
  const int64_t began_ns = MonotonicNs();
  uint32_t count = 0;
  for (; count < peers; ++count) {
    if (count % kPerLook == 0 && MonotonicNs() - began_ns > patience_ns) {
      figures->refused = absl::StrCat("took longer than ", patience_ns / 1'000'000'000, " s");
      break;
    }
    const int code = fi_av_insert(av, addresses.Get(count).data(), 1, &inserted[count], 0, nullptr);
    if (code != 1) {
      figures->refused = absl::StrCat("fi_av_insert returned ", code);
      break;
    }
  }
  const int64_t inserted_ns = MonotonicNs();
  figures->peers = count;
  figures->raw_inserts_per_s = PerSecond(count, inserted_ns - began_ns);
  figures->provider_bytes = static_cast<double>(HeapBytes() - heap_before) / std::max(count, 1u);
  for (uint32_t i = 0; i < count; ++i) fi_av_remove(av, &inserted[i], 1, 0);
  figures->raw_removals_per_s = PerSecond(count, MonotonicNs() - inserted_ns);
  fi_close(&av->fid);
  return absl::OkStatus();
}

class TableRun {
 public:
  TableRun(Reactor* reactor, PeerAddresses addresses, PeerFigures* figures)
      : reactor_(reactor), addresses_(std::move(addresses)), figures_(figures) {
    peers_.reserve(figures->peers);
  }

  absl::Status Insert() {
    const int64_t ours_before = OurBytes();
    Rounds last(1);
    last[0].reserve(kLastInserts);
    const int64_t last_bytes = OurBytes() - ours_before;
    const int64_t began_ns = MonotonicNs();
    int64_t before_ns = began_ns;
    int64_t slowest_ns = 0;
    for (uint32_t i = 0; i < figures_->peers; ++i) {
      auto peer = reactor_->peers().Insert(addresses_.Get(i));
      // The vector of a reactor has the reactor's own endpoint besides.
      if (!peer.ok() && i > 0) {
        figures_->peers = i;
        break;
      }
      if (!peer.ok()) return peer.status();
      peers_.push_back(*peer);
      const int64_t now_ns = MonotonicNs();
      slowest_ns = std::max(slowest_ns, now_ns - before_ns);
      if (i + kLastInserts >= figures_->peers) last[0].push_back(now_ns - before_ns);
      before_ns = now_ns;
    }
    figures_->inserts_per_s = PerSecond(figures_->peers, before_ns - began_ns);
    figures_->our_bytes =
        static_cast<double>(OurBytes() - ours_before - last_bytes) / figures_->peers;
    figures_->last_inserts = Summarize(last);
    figures_->slowest_insert_us = static_cast<double>(slowest_ns) / 1000;
    return absl::OkStatus();
  }

  // By calls one after the other.
  void Remove() {
    const int64_t began_ns = MonotonicNs();
    ReleaseAll();
    while (reactor_->peers().quarantined() > 0) reactor_->peers().RemoveIdle();
    figures_->removals_per_s = PerSecond(figures_->peers, MonotonicNs() - began_ns);
  }

  // Removes peers the way an executor does.
  void RemoveByPolling() {
    Silent silent;
    reactor_->set_handler(&silent);
    const int64_t began_ns = MonotonicNs();
    ReleaseAll();
    while (reactor_->peers().quarantined() > 0) reactor_->Poll();
    figures_->polled_removals_per_s = PerSecond(figures_->peers, MonotonicNs() - began_ns);
    reactor_->set_handler(nullptr);
  }

 private:
  void ReleaseAll() {
    for (const transport::Peer* peer : peers_) reactor_->peers().Release(peer);
    peers_.clear();
  }

  Reactor* reactor_;
  PeerAddresses addresses_;
  PeerFigures* figures_;
  std::vector<const transport::Peer*> peers_;
};

}  // namespace

absl::StatusOr<PeerFigures> MeasurePeers(const std::string& provider, const std::string& address,
                                         uint32_t peers, int patience_s) {
  transport::FabricRequest request;
  request.provider = provider;
  if (transport::FindRow(provider).address_is_ip) request.address = address;
  absl::StatusOr<transport::FabricChoice> choice = transport::Discover(request);
  if (!choice.ok()) return choice.status();
  absl::StatusOr<PeerAddresses> addresses = PeerAddresses::For(*choice);
  if (!addresses.ok()) return addresses.status();
  PeerFigures figures;
  const int64_t patience_ns = int64_t{patience_s} * 1'000'000'000;
  absl::Status status = MeasureRaw(*choice, *addresses, peers, patience_ns, &figures);
  if (!status.ok()) return status;
  if (figures.peers == 0) return absl::UnavailableError(figures.refused);
  absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Open(*std::move(choice), {});
  if (!reactor.ok()) return reactor.status();
  TableRun run(reactor->get(), *addresses, &figures);
  if (status = run.Insert(); !status.ok()) return status;
  const PeerFigures first = figures;
  run.Remove();
  const double removals_per_s = figures.removals_per_s;
  if (status = run.Insert(); !status.ok()) return status;
  run.RemoveByPolling();
  const double polled_removals_per_s = figures.polled_removals_per_s;
  figures = first;
  figures.removals_per_s = removals_per_s;
  figures.polled_removals_per_s = polled_removals_per_s;
  return figures;
}

}  // namespace invoker::bench

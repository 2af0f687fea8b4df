// Real fabric objects on loopback, for tests of the objects themselves.

#ifndef INVOKER_TESTS_TRANSPORT_LOCAL_FABRIC_H_
#define INVOKER_TESTS_TRANSPORT_LOCAL_FABRIC_H_

#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/fabric/address_vector.h"
#include "src/transport/fabric/completion_queue.h"
#include "src/transport/fabric/domain.h"
#include "src/transport/fabric/endpoint.h"

namespace invoker::transport {

struct LocalFabric {
  std::optional<Fabric> fabric;
  std::optional<Domain> domain;
  std::optional<AddressVector> av;
  std::optional<CompletionQueue> cq;
  std::optional<Endpoint> endpoint;

  // Fails the test and returns nullptr if something cannot be opened.
  static std::unique_ptr<LocalFabric> Open(const std::string& provider) {
    FabricRequest request;
    request.provider = provider;
    if (FindRow(provider).address_is_ip) request.address = "127.0.0.1";
    return Open(Discover(request));
  }
  static std::unique_ptr<LocalFabric> Open(absl::StatusOr<FabricChoice> choice) {
    auto local = std::make_unique<LocalFabric>();
    const auto keep = [](auto opened, auto* place) {
      if (!opened.ok()) {
        ADD_FAILURE() << opened.status();
        return false;
      }
      place->emplace(*std::move(opened));
      return true;
    };
    if (!choice.ok()) {
      ADD_FAILURE() << choice.status();
      return nullptr;
    }
    const bool opened =
        keep(Fabric::Open(*std::move(choice)), &local->fabric) &&
        keep(Domain::Open(*local->fabric), &local->domain) &&
        keep(AddressVector::Open(*local->fabric, *local->domain), &local->av) &&
        keep(CompletionQueue::Open(*local->fabric, *local->domain, 128), &local->cq) &&
        keep(Endpoint::Open(*local->fabric, *local->domain, *local->cq, *local->av),
             &local->endpoint);
    return opened ? std::move(local) : nullptr;
  }
};

}  // namespace invoker::transport

#endif  // INVOKER_TESTS_TRANSPORT_LOCAL_FABRIC_H_

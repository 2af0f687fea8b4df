#include "src/invoke/executor/store/data_store.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace invoker {

absl::Status DataStore::Do(StoreOperation operation, absl::Span<const std::byte> request) {
  switch (operation) {
    case StoreOperation::kPut:
      return Copy(request);
    case StoreOperation::kFree:
      return Free(request);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a data store has no operation ", static_cast<uint16_t>(operation)));
}

absl::Status DataStore::Copy(absl::Span<const std::byte> request) {
  if (request.empty()) return absl::InvalidArgumentError("an empty request to put data");
  absl::StatusOr<transport::HostBuffer> memory = transport::HostBuffer::Allocate(request.size());
  if (!memory.ok()) return memory.status();
  BulkBudget::Share share;
  BulkBudget::Share none;
  if (!BulkBudget::Take(budget_, memory->mapped(), 0, &share, &none)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the executor has no room for ", request.size(), " bytes of data now: of its ",
        budget_->limit(), " bytes for data and large payloads, calls use ", budget_->used()));
  }
  std::memcpy(memory->data(), request.data(), request.size());
  return Take(*std::move(memory), request.size(), std::move(share));
}

absl::Status DataStore::Take(transport::HostBuffer memory, size_t request_bytes,
                             BulkBudget::Share share) {
  PutRequest put;
  if (!DecodePut({memory.data(), request_bytes}, &put)) {
    return absl::InvalidArgumentError("a request to put data that is none");
  }
  share.Keep();
  const auto data = std::make_shared<const StoredData>(std::string(put.type), put.value,
                                                       std::move(memory), std::move(share));
  absl::MutexLock lock(&mutex_);
  if (data_.emplace(put.id, data).second) return absl::OkStatus();
  return absl::InvalidArgumentError("there is data of that reference already");
}

absl::Status DataStore::Free(absl::Span<const std::byte> request) {
  DataId id;
  if (request.size() != id.size()) {
    return absl::InvalidArgumentError("a request to free data that is none");
  }
  std::copy(request.begin(), request.end(), id.begin());
  // Unmapped without the lock.
  std::shared_ptr<const StoredData> data;
  absl::MutexLock lock(&mutex_);
  const auto found = data_.find(id);
  if (found == data_.end()) return absl::OkStatus();
  data = std::move(found->second);
  data_.erase(found);
  return absl::OkStatus();
}

std::shared_ptr<const StoredData> DataStore::Find(const DataId& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = data_.find(id);
  return found == data_.end() ? nullptr : found->second;
}

size_t DataStore::size() const {
  absl::MutexLock lock(&mutex_);
  return data_.size();
}

std::shared_ptr<const StoredData> FindData(const DataStore* store, const uint8_t* reference,
                                           invoker_stored_data* found) {
  if (store == nullptr) return nullptr;
  DataId id;
  std::memcpy(id.data(), reference, id.size());
  std::shared_ptr<const StoredData> data = store->Find(id);
  if (data == nullptr) return nullptr;
  found->data = data->value().data();
  found->size = data->value().size();
  found->type = data->type().c_str();
  found->worker = data.get();
  return data;
}

}  // namespace invoker

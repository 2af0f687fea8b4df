#include "src/python/native/typed/found_data.h"

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/invoke/function/signature.h"
#include "src/python/native/typed/value_codec.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

constexpr char kNoData[] =
    "the reference is to no data of this executor: it has been freed, or is of another lease";

}  // namespace

std::shared_ptr<const StoredData> FoundData::Find(const std::byte* reference) const {
  if (call_ == nullptr || call_->services == nullptr) return nullptr;
  invoker_stored_data data = {};
  data.struct_size = sizeof(data);
  if (call_->services->find_data(call_, reinterpret_cast<const uint8_t*>(reference), &data) != 0) {
    return nullptr;
  }
  return static_cast<const StoredData*>(data.worker)->shared_from_this();
}

bool FoundData::FindAs(void* context, const std::byte* reference, const std::string& type,
                       ValueReader* found) {
  auto* const self = static_cast<FoundData*>(context);
  std::shared_ptr<const StoredData> data = self->Find(reference);
  if (data == nullptr) {
    self->problem_ = kNoData;
    return false;
  }
  if (data->type() != type) {
    self->problem_ =
        absl::StrCat("the reference is to data of type ", data->type(), ", and it is ", type);
    return false;
  }
  *found = ValueReader(data->value().data(), data->value().size());
  self->last_ = std::move(data);
  return true;
}

py::capsule FoundData::TakeOwner() {
  return py::capsule(new std::shared_ptr<const StoredData>(std::move(last_)), [](void* data) {
    delete static_cast<std::shared_ptr<const StoredData>*>(data);
  });
}

py::object FindArray(const invoker_call* call, const std::string& reference) {
  FoundData found(call);
  std::shared_ptr<const StoredData> data;
  if (reference.size() == kReferenceBytes) {
    data = found.Find(reinterpret_cast<const std::byte*>(reference.data()));
  }
  if (data == nullptr) {
    PyErr_SetString(PyExc_LookupError, kNoData);
    throw py::error_already_set();
  }
  const absl::StatusOr<Signature> signature =
      Signature::Parse(absl::StrCat("(", data->type(), ") -> None"));
  if (!signature.ok() || signature->parameters.size() != 1) {
    throw py::value_error(absl::StrCat("the data has no type: ", data->type()));
  }
  // A reference, so that the array keeps the memory as one of a typed call does.
  std::byte request[sizeof(kReferenceMark) + kReferenceBytes];
  std::memcpy(request, &kReferenceMark, sizeof(kReferenceMark));
  std::memcpy(request + sizeof(kReferenceMark), reference.data(), kReferenceBytes);
  ValueReader reader(request, sizeof(request), &FoundData::FindAs, &found);
  return ValueCodec(signature->parameters.front())
      .Decode({&reader, py::none(), /*writable=*/false, &found});
}

}  // namespace invoker::python

#include "core/dataset/exec/refused.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/exec/slab.h"

namespace tutti {

namespace {

constexpr std::string_view kRefusedDetail = "refused";

// How many keep them, in the process: what it costs is paid for failures alone.
std::atomic<int64_t>& Keepers() {
  static std::atomic<int64_t> keepers{0};
  return keepers;
}

}  // namespace

KeepsRefused::KeepsRefused() { Keepers().fetch_add(1, std::memory_order_relaxed); }
KeepsRefused::~KeepsRefused() { Keepers().fetch_sub(1, std::memory_order_relaxed); }

Status WithRefused(const Status& status, const Value& element) {
  if (Keepers().load(std::memory_order_relaxed) == 0) return status;
  StateWriter writer;
  const Ref<Value> value = Ref<Value>::Retain(const_cast<Value*>(&element));
  // What has no form is kept without it.
  if (!writer.Rows(SlabOfValues({&value, 1})).ok()) return status;
  return Status(status).With(kRefusedDetail, writer.bytes());
}

Ref<Value> RefusedElement(const Status& status) {
  const StatusDetail* const detail = status.FindDetail(kRefusedDetail);
  const auto* const bytes = detail == nullptr ? nullptr : std::get_if<std::string>(&detail->value);
  if (bytes == nullptr || bytes->empty()) return nullptr;
  StateReader reader(*bytes);
  Slab slab;
  reader.Rows(&slab);
  if (!reader.ok() || slab.rows != 1) return nullptr;
  Result<Ref<Value>> row = slab.Row(0);
  return row.ok() ? std::move(row).value() : nullptr;
}

Status WithoutRefused(Status status) {
  if (status.FindDetail(kRefusedDetail) == nullptr) return status;
  Status rest(status.code(), std::string(status.message()));
  for (const StatusDetail& detail : status.details()) {
    if (detail.key == kRefusedDetail) continue;
    std::visit([&](const auto& value) { rest = std::move(rest).With(detail.key, value); },
               detail.value);
  }
  for (const Status& cause : status.causes()) rest = std::move(rest).WithCause(cause);
  const HostData* const object = status.host_object();
  if (object == nullptr) return rest;
  return std::move(rest).WithHostObject(Ref<const HostData>::Retain(object));
}

}  // namespace tutti

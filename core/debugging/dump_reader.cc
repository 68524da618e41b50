#include "core/debugging/dump_reader.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/debugging/dump_writer.h"
#include "core/tensor/dtype.h"
#include "tutti/v1/debug_event.pb.h"

namespace tutti {

namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kKnownFormat = 1;
constexpr size_t kRecordHead = 12;
constexpr size_t kRecordTail = 4;
constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kExecution = ".execution-";

uint64_t ReadFixed(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

uint32_t MaskedCrc(std::string_view bytes) {
  return MaskCrc32c(Crc32c(bytes.data(), bytes.size()));
}

// The messages of a file up to the first that does not read; *damage says why there are no more.
std::vector<v1::DebugEvent> ReadRecords(std::string_view bytes, std::string* damage) {
  std::vector<v1::DebugEvent> events;
  size_t at = 0;
  while (at < bytes.size()) {
    const auto fail = [&](const char* why) { *damage = Format("{} at byte {}", why, at); };
    if (bytes.size() - at < kRecordHead) return fail("a record is cut off"), events;
    if (MaskedCrc(bytes.substr(at, 8)) != ReadFixed(bytes, at + 8, 4)) {
      return fail("the length of a record is damaged"), events;
    }
    const uint64_t length = ReadFixed(bytes, at, 8);
    if (length > bytes.size() - at - kRecordHead ||
        bytes.size() - at - kRecordHead - length < kRecordTail) {
      return fail("a record is cut off"), events;
    }
    const std::string_view message = bytes.substr(at + kRecordHead, length);
    if (MaskedCrc(message) != ReadFixed(bytes, at + kRecordHead + length, 4)) {
      return fail("a record is damaged"), events;
    }
    v1::DebugEvent event;
    if (!event.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return fail("a record is no event"), events;
    }
    events.push_back(std::move(event));
    at += kRecordHead + length + kRecordTail;
  }
  return events;
}

// Text that may be anything, as JSON takes it.
Json TextOf(const std::string& bytes) { return Json::parse(JsonQuote(bytes)); }

Json NumberOrNull(int64_t one_more) { return one_more == 0 ? Json() : Json(one_more - 1); }

Json DescribeEvent(const v1::DebugEvent& event, size_t process, DebugMode mode) {
  const v1::TensorTrace& trace = event.trace();
  Json json = {{"process", process},
               {"time_us", event.wall_time_us()},
               {"sequence", trace.sequence()},
               {"op", TextOf(trace.op())},
               {"name", TextOf(trace.name())},
               {"replica", NumberOrNull(trace.replica())},
               {"step", NumberOrNull(trace.step())},
               {"worker", NumberOrNull(trace.worker())},
               {"dtype", std::string(DTypeName(static_cast<DType>(trace.dtype())))}};
  if (trace.has_shape()) {
    json["shape"] = std::vector<int64_t>(trace.shape().dims().begin(), trace.shape().dims().end());
  }
  if (!trace.has_health()) return json;
  const v1::TensorHealth& health = trace.health();
  json["has_nan_or_infinity"] = health.has_nan_or_infinity();
  if (mode == DebugMode::kCurtHealth) return json;
  json["elements"] = health.elements();
  json["nan"] = health.nan();
  json["positive_infinity"] = health.positive_infinity();
  json["negative_infinity"] = health.negative_infinity();
  if (mode != DebugMode::kFullHealth) return json;
  json["rank"] = health.rank();
  json["negative"] = health.negative();
  json["zero"] = health.zero();
  json["positive"] = health.positive();
  return json;
}

// The metadata of a process.
Result<v1::DumpMetadata> ReadMetadata(Disk& disk, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const std::string bytes, disk.ReadFile(path));
  std::string damage;
  const std::vector<v1::DebugEvent> events = ReadRecords(bytes, &damage);
  if (events.empty() || !events[0].has_metadata()) {
    return DataLoss("{} is no metadata of a dump: {}", path,
                    damage.empty() ? "it holds no such record" : damage)
        .With("file", path);
  }
  v1::DumpMetadata metadata = events[0].metadata();
  if (metadata.format_version() > kKnownFormat) {
    return Unimplemented("{} is of format {}; this library reads up to {}: use a newer one", path,
                         metadata.format_version(), kKnownFormat)
        .With("file", path);
  }
  return metadata;
}

}  // namespace

Result<std::string> ReadDumps(Disk& disk, const std::string& directory) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(directory));
  Json processes = Json::array(), damaged = Json::array();
  std::vector<Json> events;
  for (const std::string& name : names) {
    if (!name.starts_with("tutti_debug.") || !name.ends_with(kMetadata)) continue;
    const std::string stem = name.substr(0, name.size() - kMetadata.size());
    TUTTI_ASSIGN_OR_RETURN(const v1::DumpMetadata metadata,
                           ReadMetadata(disk, directory + "/" + name));
    const auto mode = static_cast<DebugMode>(metadata.tensor_debug_mode());
    size_t count = 0;
    for (const std::string& other : names) {
      if (!other.starts_with(stem + std::string(kExecution))) continue;
      TUTTI_ASSIGN_OR_RETURN(const std::string bytes, disk.ReadFile(directory + "/" + other));
      std::string damage;
      for (const v1::DebugEvent& event : ReadRecords(bytes, &damage)) {
        if (!event.has_trace()) continue;
        events.push_back(DescribeEvent(event, processes.size(), mode));
        ++count;
      }
      if (!damage.empty()) damaged.push_back({{"file", other}, {"reason", damage}});
    }
    processes.push_back({{"host", TextOf(metadata.host())},
                         {"pid", metadata.pid()},
                         {"worker", NumberOrNull(metadata.worker())},
                         {"task", metadata.task().empty() ? Json() : TextOf(metadata.task())},
                         {"mode", DebugModeName(mode)},
                         {"format_version", metadata.format_version()},
                         {"circular_buffer_size", metadata.circular_buffer_size()},
                         {"op_regex", TextOf(metadata.op_regex())},
                         {"events", count}});
  }
  if (processes.empty()) {
    return NotFound("{} holds no dump, that is, no file tutti_debug.*.metadata", directory)
        .With("file", directory);
  }
  std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
    return a.at("time_us").get<int64_t>() < b.at("time_us").get<int64_t>();
  });
  Json first;
  for (const Json& event : events) {
    if (event.value("has_nan_or_infinity", false)) {
      first = event;
      break;
    }
  }
  const Json all = {{"processes", std::move(processes)},
                    {"events", std::move(events)},
                    {"first_not_finite", std::move(first)},
                    {"damaged", std::move(damaged)}};
  return all.dump();
}

}  // namespace tutti

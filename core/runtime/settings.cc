#include "core/runtime/settings.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <optional>

#include "core/base/disk.h"
#include "core/base/error.h"

namespace tutti {
namespace {

constexpr SettingInfo kSettings[] = {
    {"collective_table", SettingKind::kText, "", 0, 0, false,
     "which algorithms collectives take: the path of a file of rows, or \"rows:\" and rows with "
     "semicolons between; they come before the built-in ones (tutti doctor prints them)"},
    {"compute_threads", SettingKind::kCount, "0", 0, 65536, false,
     "threads that the host's arithmetic may use in all; 0: as many as there are usable cores"},
    {"cuda_plugin", SettingKind::kText, "", 0, 0, true,
     "the plugin for NVIDIA's GPUs: its path, or none; empty: libtutti_cuda.so beside the library"},
    {"default_timeout", SettingKind::kDuration, "none", 0, 0, false,
     "how long a blocking call may take that was given no timeout"},
    {"elastic", SettingKind::kCount, "0", 0, 1, false,
     "1: a job goes on when a worker other than worker 0 is lost, and takes another process in its "
     "place; worker 0's holds for all"},
    {"flight_recorder_dir", SettingKind::kText, "", 0, 0, false,
     "where flight records are written on errors; empty: nowhere"},
    {"join_timeout", SettingKind::kDuration, "5m", 0, 0, false,
     "how long a worker waits for the others of its cluster to come, where the call says nothing"},
    {"join_warning", SettingKind::kDuration, "10s", 0, 0, false,
     "after how long a worker that waits for others to come warns of who is missing, and again "
     "after twice that; none: never"},
    {"log_level", SettingKind::kLogLevel, "warning", 0, 0, false,
     "debug, info, warning, error or off"},
    {"logical_cpu_devices", SettingKind::kCount, "1", 1, 1024, true,
     "how many CPU devices are listed"},
    {"logical_gpu_devices", SettingKind::kCount, "1", 1, 1024, true,
     "as how many GPU devices, which share its memory, each GPU is presented"},
    {"memory_limit", SettingKind::kBytes, "none", 0, 0, false,
     "bytes that tensors and buffers of the runtime may take"},
    {"metrics_port", SettingKind::kCount, "0", 0, 65535, true,
     "the port on 127.0.0.1 where statistics of datasets are read as Prometheus text over HTTP, at "
     "/metrics; 0: none"},
    {"replicas", SettingKind::kCount, "0", 0, 1024, false,
     "replicas of each worker of a multi-worker strategy that was given no devices; 0: one for "
     "each GPU, else one"},
    {"reproducible", SettingKind::kCount, "0", 0, 1, false,
     "1: every fold goes in the order of the ranks, so that sums of floats have the same bits "
     "however the ranks are spread over hosts, and the replicas of a strategy over workers; if one "
     "worker wants it, all do"},
    {"silence_limit", SettingKind::kDuration, "3s", 0, 0, false,
     "within what time all workers know of one that says nothing more, and counts as dead; none: "
     "never"},
    {"soft_device_placement", SettingKind::kCount, "0", 0, 1, false,
     "1: what is placed on a device that is not there, or cannot hold tensors, lies on CPU:0"},
    {"transport", SettingKind::kTransport, "auto", 0, 0, false,
     "how workers exchange tensors: auto (shared memory within a machine, TCP between), "
     "shared_memory or tcp"},
    {"wait_warning", SettingKind::kDuration, "30s", 0, 0, false,
     "after how long the wait of a bucket plan warns of the tensors that are not ready, and again "
     "after twice that; none: never"},
};

constexpr std::string_view kPrefix = "TUTTI_";
// Variables that are no settings: of the library, of the command, of the tests.
constexpr const char* kOtherVariables[] = {
    "TUTTI_CONFIG_FILE",       "TUTTI_CONFORMANCE_DIR",   "TUTTI_CUDA_DRIVER",
    "TUTTI_FAKE_GPUS",         "TUTTI_GPU_PLUGIN_PATH",   "TUTTI_GPU_REAL",
    "TUTTI_JOB_SECRET",        "TUTTI_JOB_SECRET_FILE",   "TUTTI_NCCL_LIBRARY",
    "TUTTI_NCCL_REGISTER",     "TUTTI_RESTART",           "TUTTI_SIMULATION_SEED",
    "TUTTI_SKIP_PACKAGES",     "TUTTI_TEST_FIRST_SEED",   "TUTTI_TEST_NCCL",
    "TUTTI_TEST_SCALE",        "TUTTI_TEST_SEED",         "TUTTI_UPDATE_GOLDENS",
};

constexpr const char* kTransports[] = {"auto", "shared_memory", "tcp"};  // as CollectiveTransport

std::vector<std::string> Keys() {
  std::vector<std::string> keys;
  for (const SettingInfo& info : kSettings) keys.push_back(info.key);
  return keys;
}

std::optional<size_t> IndexOf(std::string_view key) {
  for (size_t i = 0; i < std::size(kSettings); ++i) {
    if (key == kSettings[i].key) return i;
  }
  return std::nullopt;
}

Status UnknownKey(std::string_view key, std::string_view where) {
  const std::string nearest = NearestName(key, Keys());
  return InvalidArgument("{}unknown setting {}{}; the settings are {}", where, Quote(key),
                         nearest.empty() ? "" : Format(", did you mean {}?", Quote(nearest)),
                         Join(Keys(), ", "))
      .With("key", key);
}

std::string VariableOf(const char* key) {
  std::string name = "TUTTI_";
  for (const char* c = key; *c != '\0'; ++c) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  return name;
}

// The number behind a text, or nothing when the text is not of the setting's kind.
std::optional<int64_t> ParseNumber(const SettingInfo& info, std::string_view text) {
  switch (info.kind) {
    case SettingKind::kCount: {
      const std::optional<int64_t> count = ParseInt64(text);
      if (!count || *count < info.minimum || *count > info.maximum) return std::nullopt;
      return count;
    }
    case SettingKind::kDuration:
      return text == "none" ? 0 : ParseDuration(text);
    case SettingKind::kBytes:
      return text == "none" ? 0 : ParseBytes(text);
    case SettingKind::kLogLevel: {
      const std::optional<LogLevel> level = ParseLogLevel(text);
      if (!level) return std::nullopt;
      return static_cast<int64_t>(*level);
    }
    case SettingKind::kTransport:
      for (size_t i = 0; i < std::size(kTransports); ++i) {
        if (text == kTransports[i]) return static_cast<int64_t>(i);
      }
      return std::nullopt;
    case SettingKind::kText:
      return 0;
  }
  return std::nullopt;
}

std::string Expected(const SettingInfo& info) {
  switch (info.kind) {
    case SettingKind::kCount:
      return Format("a whole number from {} to {}", info.minimum, info.maximum);
    case SettingKind::kDuration:
      return "a duration like 500ms, 30s or 2h, or none";
    case SettingKind::kBytes:
      return "a size like 512M or 2GiB, or none";
    case SettingKind::kLogLevel:
      return "debug, info, warning, error or off";
    case SettingKind::kTransport:
      return "auto, shared_memory or tcp";
    case SettingKind::kText:
      return "text";
  }
  return "";
}

}  // namespace

const char* SettingSourceName(SettingSource source) {
  switch (source) {
    case SettingSource::kDefault:
      return "default";
    case SettingSource::kFile:
      return "file";
    case SettingSource::kVariable:
      return "variable";
    case SettingSource::kArgument:
      return "argument";
  }
  return "unknown";
}

std::span<const SettingInfo> AllSettings() { return kSettings; }

Settings::Settings() {
  for (const SettingInfo& info : kSettings) {
    values_.push_back(
        {info.default_value, *ParseNumber(info, info.default_value), SettingSource::kDefault});
  }
}

Status Settings::Assign(std::string_view key, std::string_view value, SettingSource source,
                        std::string_view where) {
  const std::optional<size_t> index = IndexOf(key);
  if (!index) return UnknownKey(key, where);
  const SettingInfo& info = kSettings[*index];
  const std::string_view text = Trim(value);
  const std::optional<int64_t> number = ParseNumber(info, text);
  if (!number) {
    return InvalidArgument("{}setting {} is {}, expected {}", where, key, Quote(text),
                           Expected(info))
        .With("key", key);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  values_[*index] = {std::string(text), *number, source};
  return OkStatus();
}

Status Settings::LoadFile(const std::string& path, Disk& disk) {
  Result<std::string> contents = disk.ReadFile(path);
  if (!contents.ok()) return contents.status().WithPrefix("the file of TUTTI_CONFIG_FILE");
  int64_t number = 0;
  for (const std::string& line : Split(*contents, '\n')) {
    ++number;
    const std::string_view text = Trim(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("{}:{}: expected key = value, found {}", path, number, Quote(text))
          .With("file", path)
          .With("line", number);
    }
    Status status = Assign(Trim(text.substr(0, equals)), text.substr(equals + 1),
                           SettingSource::kFile, Format("{}:{}: ", path, number));
    if (!status.ok()) return std::move(status).With("file", path).With("line", number);
  }
  return OkStatus();
}

Status Settings::Load(const KeyValues& arguments, Variables variables, Disk& disk) {
  const char* file = variables("TUTTI_CONFIG_FILE");
  if (file != nullptr && *file != '\0') TUTTI_RETURN_IF_ERROR(LoadFile(file, disk));
  for (const SettingInfo& info : kSettings) {
    const std::string variable = VariableOf(info.key);
    const char* value = variables(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    TUTTI_RETURN_IF_ERROR(
        Assign(info.key, value, SettingSource::kVariable, Format("variable {}: ", variable)));
  }
  for (const auto& [key, value] : arguments) {
    TUTTI_RETURN_IF_ERROR(Assign(key, value, SettingSource::kArgument, ""));
  }
  return OkStatus();
}

std::vector<std::string> Settings::FindMisspelt(const char* const* environment) {
  std::vector<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const SettingInfo& info : kSettings) known.push_back(VariableOf(info.key));
  std::vector<std::string> warnings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view text = *environment;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = NearestName(name, known);
    if (nearest.empty()) continue;
    warnings.push_back(
        Format("the variable {} is not known; did you mean {}?", name, nearest));
  }
  return warnings;
}

Status Settings::Change(std::string_view key, std::string_view value) {
  const std::optional<size_t> index = IndexOf(key);
  if (index && kSettings[*index].fixed_at_start) {
    return FailedPrecondition(
        "setting {} is fixed when the runtime starts; give it to the runtime's constructor or set "
        "the variable {} before",
        key, VariableOf(kSettings[*index].key));
  }
  return Assign(key, value, SettingSource::kArgument, "");
}

Result<std::string> Settings::Text(std::string_view key) const {
  const std::optional<size_t> index = IndexOf(key);
  if (!index) return UnknownKey(key, "");
  std::lock_guard<std::mutex> lock(mutex_);
  return values_[*index].text;
}

int64_t Settings::Number(std::string_view key) const {
  const std::optional<size_t> index = IndexOf(key);
  assert(index && "the key of a setting");
  std::lock_guard<std::mutex> lock(mutex_);
  return values_[*index].number;
}

LogLevel Settings::Level(std::string_view key) const { return static_cast<LogLevel>(Number(key)); }

std::string Settings::ToJson() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string json = "{";
  for (size_t i = 0; i < values_.size(); ++i) {
    json +=
        Format("{}\"{}\": {{\"value\": {}, \"source\": \"{}\"}}", i == 0 ? "" : ", ",
               kSettings[i].key, JsonQuote(values_[i].text), SettingSourceName(values_[i].source));
  }
  return json + "}";
}

}  // namespace tutti

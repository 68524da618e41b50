// Settings: the runtime's configuration by name. A value comes from an argument, else from a
// variable (TUTTI_<KEY>), else from a file (the one that TUTTI_CONFIG_FILE names, with lines `key =
// value`), else it is the default. Values are text on the way in and out, typed inside; a key that
// nobody knows is an error, wherever it stands.

#ifndef TUTTI_CORE_RUNTIME_SETTINGS_H_
#define TUTTI_CORE_RUNTIME_SETTINGS_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"

namespace tutti {

class Disk;

enum class SettingSource : int32_t { kDefault, kFile, kVariable, kArgument };

const char* SettingSourceName(SettingSource source);  // "argument", ...

enum class SettingKind : int32_t {
  kCount,     // a whole number between minimum and maximum
  kDuration,  // "30s", "none"
  kBytes,     // "2GiB", "none"
  kLogLevel,  // "warning"
  kTransport,  // "auto", "shared_memory", "tcp"
  kText,
};

struct SettingInfo {
  const char* key;
  SettingKind kind;
  const char* default_value;
  int64_t minimum;  // of counts
  int64_t maximum;
  bool fixed_at_start;
  const char* description;
};

// All settings, in the order of their keys.
std::span<const SettingInfo> AllSettings();

class Settings {
 public:
  using KeyValues = std::vector<std::pair<std::string, std::string>>;
  // Null for a variable that is not set.
  using Variables = const char* (*)(const char* name);

  Settings();

  // Reads file and variables, then the arguments. INVALID_ARGUMENT names the key, where it stood,
  // and what would be accepted.
  Status Load(const KeyValues& arguments, Variables variables, Disk& disk);

  // "the variable TUTTI_LOG_LEVL is not known; did you mean TUTTI_LOG_LEVEL?" for each variable
  // among `environment` ("NAME=value", null at the end; it may be null) that looks like a misspelt
  // one.
  static std::vector<std::string> FindMisspelt(const char* const* environment);

  // Changes a setting of a running runtime. FAILED_PRECONDITION for one that is fixed at start.
  Status Change(std::string_view key, std::string_view value);

  // INVALID_ARGUMENT for an unknown key.
  Result<std::string> Text(std::string_view key) const;
  // Of the keys of AllSettings() only. A count; nanoseconds and bytes, 0 meaning none.
  int64_t Number(std::string_view key) const;
  LogLevel Level(std::string_view key) const;

  // {"compute_threads": {"value": "0", "source": "default"}, ...}
  std::string ToJson() const;

 private:
  struct Value {
    std::string text;
    int64_t number;  // counts, durations, bytes, log levels
    SettingSource source;
  };

  Status Assign(std::string_view key, std::string_view value, SettingSource source,
                std::string_view where);
  Status LoadFile(const std::string& path, Disk& disk);

  mutable std::mutex mutex_;  // guards values_
  std::vector<Value> values_;  // as AllSettings()
};

}  // namespace tutti

#endif  // TUTTI_CORE_RUNTIME_SETTINGS_H_

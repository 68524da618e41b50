// The log: lines with a level, to standard error or to a sink that the host sets. Nothing ever goes
// to standard output.

#ifndef TUTTI_CORE_BASE_LOG_H_
#define TUTTI_CORE_BASE_LOG_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"

namespace tutti {

enum class LogLevel : int32_t { kDebug = 1, kInfo = 2, kWarning = 3, kError = 4, kOff = 5 };

// "debug", "info", "warning", "error", "off".
const char* LogLevelName(LogLevel level);
// The same names in any case, and "warn".
std::optional<LogLevel> ParseLogLevel(std::string_view text);

struct LogRecord {
  LogLevel level;
  int64_t wall_ns;
  std::string_view message;  // one line or more, without a final newline
};

// Where lines go. Write is called on any thread, by one at a time, with no lock of ours held and in
// the notification class. Lines that other threads, or the sink itself, write meanwhile follow.
class LogSink : public RefCounted {
 public:
  virtual void Write(const LogRecord& record) = 0;
};

// "tutti: WARNING: message" to file descriptor 2, in one write.
Ref<LogSink> StandardErrorSink();

class Log {
 public:
  explicit Log(const Clock& clock, LogLevel level = LogLevel::kWarning);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool Enabled(LogLevel level) const noexcept {
    return level >= level_.load(std::memory_order_relaxed);
  }
  void Write(LogLevel level, std::string_view message);
  void Debug(std::string_view message) { Write(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Write(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Write(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Write(LogLevel::kError, message); }

  LogLevel level() const noexcept { return level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) noexcept { level_.store(level, std::memory_order_relaxed); }
  // Null brings standard error back. Returns when the former sink is not running any more, unless
  // it is that sink which calls.
  Status SetSink(Ref<LogSink> sink, const CallOptions& options = {});

 private:
  struct Line {
    LogLevel level;
    int64_t wall_ns;
    std::string message;
  };
  // Lines that wait while a sink hangs; what comes beyond is counted and dropped.
  static constexpr size_t kMaxPending = 10'000;

  const Clock& clock_;
  const uint64_t fork_generation_;
  std::atomic<LogLevel> level_;

  std::mutex mutex_;  // guards all below
  std::condition_variable idle_;
  Ref<LogSink> sink_;
  bool writing_ = false;
  std::thread::id writer_;
  std::vector<Line> pending_;
  uint64_t dropped_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_LOG_H_

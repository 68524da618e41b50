#include "core/base/log.h"

#include <strings.h>
#include <unistd.h>

#include <cctype>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/wait.h"

namespace tutti {
namespace {

class StandardError final : public LogSink {
 public:
  void Write(const LogRecord& record) override {
    std::string line = "tutti: ";
    for (const char* c = LogLevelName(record.level); *c != '\0'; ++c) {
      line += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
    }
    line += ": ";
    line += record.message;
    line += '\n';
    // Nobody can be told when standard error is gone.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
};

}  // namespace

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
    case LogLevel::kOff: return "off";
  }
  return "unknown";
}

std::optional<LogLevel> ParseLogLevel(std::string_view text) {
  const std::string name(text);
  if (strcasecmp(name.c_str(), "warn") == 0) return LogLevel::kWarning;
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                               LogLevel::kError, LogLevel::kOff}) {
    if (strcasecmp(name.c_str(), LogLevelName(level)) == 0) return level;
  }
  return std::nullopt;
}

Ref<LogSink> StandardErrorSink() {
  // Holds a reference for ever: logging works until the last moment of the process.
  static LogSink* const sink = MakeRef<StandardError>().release();
  return Ref<LogSink>::Retain(sink);
}

Log::Log(const Clock& clock, LogLevel level)
    : clock_(clock),
      fork_generation_(ForkGeneration()),
      level_(level),
      sink_(StandardErrorSink()) {}

void Log::Write(LogLevel level, std::string_view message) {
  if (!Enabled(level) || level == LogLevel::kOff) return;
  const int64_t wall_ns = clock_.WallNs();
  if (ForkGeneration() != fork_generation_) {
    // A thread that this process does not have may hold the lock, and the sink may need it too.
    StandardErrorSink()->Write({level, wall_ns, message});
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (writing_) {
    // The writing thread takes it over.
    if (pending_.size() < kMaxPending) {
      pending_.push_back({level, wall_ns, std::string(message)});
    } else {
      ++dropped_;
    }
    return;
  }
  writing_ = true;
  writer_ = std::this_thread::get_id();
  // Also when the sink throws: the next line finds its way, with those that wait.
  const struct Writing {
    Log& log;
    std::unique_lock<std::mutex>& lock;
    ~Writing() {
      if (!lock.owns_lock()) lock.lock();
      log.writing_ = false;
      log.writer_ = std::thread::id();
      log.idle_.notify_all();
    }
  } writing{*this, lock};
  {
    CallbackScope scope(CallbackClass::kNotification);
    Ref<LogSink> sink = sink_;
    lock.unlock();
    sink->Write({level, wall_ns, message});
    sink.reset();  // perhaps the last reference: with no lock held
    lock.lock();
  }
  while (!pending_.empty() || dropped_ > 0) {
    std::vector<Line> lines = std::exchange(pending_, {});
    const uint64_t dropped = std::exchange(dropped_, 0);
    CallbackScope scope(CallbackClass::kNotification);
    Ref<LogSink> sink = sink_;
    lock.unlock();
    for (const Line& line : lines) sink->Write({line.level, line.wall_ns, line.message});
    if (dropped > 0) {
      sink->Write({LogLevel::kWarning, clock_.WallNs(),
                   Format("log: {} lines were dropped, because the sink was busy", dropped)});
    }
    sink.reset();
    lock.lock();
  }
}

Status Log::SetSink(Ref<LogSink> sink, const CallOptions& options) {
  if (!sink) sink = StandardErrorSink();
  std::unique_lock<std::mutex> lock(mutex_);
  std::swap(sink_, sink);  // the former one goes after the lock
  if (writer_ == std::this_thread::get_id()) return OkStatus();
  Status status = WaitUntil(
      lock, idle_, RealClock(), options, [&] { return !writing_; }, "the former log sink's end");
  lock.unlock();
  return status;
}

}  // namespace tutti

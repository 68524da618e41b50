#include "core/cluster/watch/process_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "core/base/file_descriptor.h"
#include "core/base/text.h"

namespace tutti {
namespace {

// A small file of /proc; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  char buffer[4096];
  std::string text;
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count <= 0 || text.size() > 16 * sizeof(buffer)) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

ProcessFacts ReadProcessFacts() {
  ProcessFacts facts;
  facts.pid = ::getpid();
  facts.start_time = ProcessStartTime(facts.pid).value_or(0);
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) == 0) facts.host = host;
  facts.boot_id = std::string(Trim(ReadSmallFile("/proc/sys/kernel/random/boot_id")));
  struct stat pid_namespace = {};
  if (::stat("/proc/self/ns/pid", &pid_namespace) == 0) {
    facts.pid_namespace = Format("{}:{}", pid_namespace.st_dev, pid_namespace.st_ino);
  }
  return facts;
}

std::optional<int64_t> ProcessStartTime(int64_t pid) {
  return StartTimeOfStat(ReadSmallFile(Format("/proc/{}/stat", pid)));
}

std::optional<int64_t> StartTimeOfStat(std::string_view stat) {
  // "4711 (name) S 1 ...": field 22, counted from 1; the name is field 2 and may hold ") ".
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> fields = Split(Trim(stat.substr(name_end + 1)), ' ');
  constexpr size_t kStartTime = 22 - 3;
  if (fields.size() <= kStartTime) return std::nullopt;
  return ParseInt64(fields[kStartTime]);
}

}  // namespace tutti

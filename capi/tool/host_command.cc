#include "capi/tool/host_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>

namespace tutti::tool {
namespace {

std::string OwnPath() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "tutti";
}

std::string OwnFolder() {
  char path[PATH_MAX];
  return getcwd(path, sizeof(path)) != nullptr ? path : "/";
}

}  // namespace

std::string QuoteForShell(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

WorkerCommand CommandOfHost(const RunOptions& options, const std::string& ssh,
                            const Environment& environment, int node, const rlimit& open_files) {
  std::string line = fmt::format(
      "cd {} && exec {} run --follow-input --nodes {} --node-rank {} --coordinator {} "
      "--secret-file {} --workers {}",
      QuoteForShell(OwnFolder()), QuoteForShell(OwnPath()), options.nodes, node,
      QuoteForShell(options.coordinator), QuoteForShell(options.secret_file), options.workers);
  if (options.replicas) line += fmt::format(" --replicas {}", *options.replicas);
  if (!options.prefix) line += " --no-prefix";
  if (!options.log_folder.empty()) line += " --log-dir " + QuoteForShell(options.log_folder);
  line += fmt::format(" --grace {}ms --", options.grace_after_signal.count());
  for (const std::string& word : options.program) line += " " + QuoteForShell(word);
  return WorkerCommand{ssh,
                       {"ssh", "-o", "BatchMode=yes", options.hosts[static_cast<size_t>(node)],
                        line},
                       environment.variables(),
                       open_files,
                       true};
}

}  // namespace tutti::tool

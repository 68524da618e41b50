// The command `tutti`: starts jobs and says what a machine offers. It sees of the library what
// every program sees, the C headers.

#include <fcntl.h>
#include <fmt/format.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "capi/tool/bench_command.h"
#include "capi/tool/debug_command.h"
#include "capi/tool/doctor_command.h"
#include "capi/tool/explain_command.h"
#include "capi/tool/near_name.h"
#include "capi/tool/run_command.h"
#include "capi/tool/run_options.h"
#include "capi/tool/trace_command.h"

namespace {

using namespace tutti::tool;

constexpr const char* kUsage = R"(Usage: tutti COMMAND [OPTIONS]

Commands:
  run      runs a program as several workers of one job on this machine
  trace    merges the flight records of a job that failed, and says where its ranks parted
  debug    reads the dumps of tensors of all workers, and says where a NaN came from
  explain  the plan of a saved dataset, or what limited a run
  bench    measures a collective between workers on this machine
  doctor   says what this machine offers, what is chosen for it, and what will hurt
  help     this text; "tutti help COMMAND" is "tutti COMMAND --help"

  tutti --version says which library this is
)";

struct Command {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
};

// bench-worker is what bench starts, and not for people.
constexpr Command kCommands[] = {{"run", RunCommand},
                                 {"doctor", DoctorCommand},
                                 {"bench", BenchCommand},
                                 {"trace", TraceCommand},
                                 {"debug", DebugCommand},
                                 {"explain", ExplainCommand},
                                 {"bench-worker", BenchWorkerCommand}};

// A program that was started without stdin, stdout or stderr would get its first files as them.
void OpenStandardFiles() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) {
      [[maybe_unused]] const int opened = open("/dev/null", O_RDWR);
    }
  }
}

int Dispatch(std::vector<std::string> words) {
  if (words.empty()) {
    fmt::print(stderr, "{}", kUsage);
    return kExitUsage;
  }
  if (words[0] == "help" && words.size() > 1) words = {words[1], "--help"};
  if (words[0] == "help" || words[0] == "--help" || words[0] == "-h") {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (words[0] == "--version" || words[0] == "version") {
    fmt::print("tutti {}\n", tutti_api_version_string());
    return 0;
  }
  for (const Command& command : kCommands) {
    if (words[0] == command.name) return command.run({words.begin() + 1, words.end()});
  }
  std::vector<std::string> names = {"help", "--version", "--help"};
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = NearName(words[0], names);
  fmt::print(stderr, "tutti: there is no command {}{}\n\n{}", words[0],
             near.empty() ? "" : fmt::format("; did you mean {}?", near), kUsage);
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardFiles();
  return Dispatch({argv + 1, argv + argc});
}

// Runs the conformance vectors through the C interface.
//
//   conformance_cpp [FOLDER]
//
// The folder of the vectors is the argument, else TUTTI_CONFORMANCE_DIR, else the one of the source
// tree. Prints each failure, the names of the cases that are not covered, and one line of totals;
// exits with 1 when a case fails or none passes.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "cases.h"
#include "handles.h"
#include "record_files.h"
#include "traced.h"

namespace conformance {
namespace {

using RunCase = void (*)(const Json &test);

// The workers of one run share a secret that nobody else knows.
void MakeJobSecret() {
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += std::to_string(random());
  setenv("TUTTI_JOB_SECRET", secret.c_str(), 1);
  unsetenv("TUTTI_JOB_SECRET_FILE");
}

int RunAll(const std::filesystem::path &folder) {
  MakeJobSecret();
  const std::map<std::string, RunCase> files = {{"dataset", RunDatasetCase},
                                                {"dataset_ops", RunDatasetCase},
                                                {"dataset_own", RunDatasetCase},
                                                {"debugging", RunDebuggingCase},
                                                {"debugging_own", RunDebuggingCase},
                                                {"values_own", RunValuesCase},
                                                {"device_spec", RunDeviceSpecCase},
                                                {"distribute", RunDistributeCase},
                                                {"reduce", RunReduceCase},
                                                {"values", RunValuesCase}};
  std::set<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.insert(entry.path());
  }
  int passed = 0, not_covered = 0, failed = 0;
  for (const std::filesystem::path &path : paths) {
    std::ifstream stream(path);
    const auto run = files.find(path.stem().string());
    for (const Json &test : Json::parse(stream)) {
      const std::string name = path.stem().string() + "." + test.at("name").get<std::string>();
      try {
        if (run == files.end()) throw NotCovered("the file " + path.filename().string());
        run->second(test);
        ++passed;
      } catch (const NotCovered &reason) {
        std::printf("not covered: %s (%s)\n", name.c_str(), reason.what());
        ++not_covered;
      } catch (const std::exception &error) {
        std::printf("FAILED %s: %s\n", name.c_str(), error.what());
        ++failed;
      }
    }
  }
  RemoveRecordFiles();
  Check(tutti_runtime_shutdown(nullptr, nullptr));
  std::printf("conformance C++: %d passed, %d not covered, %d failed\n", passed, not_covered,
              failed);
  if (TracesFunctions()) std::printf("%d functions as expressions\n", TracedFunctions());
  return failed != 0 || passed == 0 || (TracesFunctions() && TracedFunctions() == 0);
}

}  // namespace
}  // namespace conformance

int main(int argc, char **argv) {
  const char *from_variable = std::getenv("TUTTI_CONFORMANCE_DIR");
  const char *folder = argc > 1 ? argv[1] : from_variable != nullptr ? from_variable : VECTORS;
  try {
    return conformance::RunAll(folder);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "conformance C++: %s\n", error.what());
    return 1;
  }
}

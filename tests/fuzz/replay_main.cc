// Runs a fuzz target without libFuzzer: the corpus, then inputs that are mutated from it.
//
//   x_replay CORPUS [--seconds S] [--inputs N] [--seed SEED] [--only I [--save FILE]]
//
// Inputs are tried for two seconds, which TUTTI_TEST_SCALE scales, or for those of --seconds.
//
// The inputs follow from corpus and seed, which is printed; TUTTI_TEST_SEED sets it, too. They run
// in a child process, so that an input that ends it can be named: --only I repeats it alone, --save
// keeps it.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/base/seeded_runs_testing.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using tutti::SplitMix64;

constexpr size_t kMostBytes = 4096;
constexpr unsigned kHangSeconds = 60;  // one input
constexpr uint64_t kSeconds = 2;

struct Arguments {
  std::filesystem::path corpus;
  double seconds = 0;
  uint64_t inputs = UINT64_MAX;
  uint64_t seed = 0;
  int64_t only = -1;
  std::filesystem::path save;
};

std::vector<std::string> ReadCorpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// Input `index`: the corpus itself, then one of it with a few changes.
std::string Input(const std::vector<std::string>& corpus, uint64_t seed, uint64_t index) {
  if (index < corpus.size()) return corpus[index];
  SplitMix64 random(SplitMix64::Mix(seed) ^ index);
  std::string input = corpus[random.Next() % corpus.size()];
  for (uint64_t changes = 1 + random.Next() % 6; changes > 0; --changes) {
    const size_t at = input.empty() ? 0 : random.Next() % input.size();
    const size_t length = std::min<size_t>(input.size() - at, 1 + random.Next() % 16);
    switch (random.Next() % 8) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random.Next() % 8));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random.Next());
        break;
      case 2:
        if (!input.empty()) input[at] = static_cast<char>("\0\1\x7f\x80\xff"[random.Next() % 5]);
        break;
      case 3: input.insert(at, 1, static_cast<char>(random.Next())); break;
      case 4: input.erase(at, length); break;
      case 5: input.insert(at, std::string(input, at, length)); break;
      case 6: input.resize(at); break;
      default: {
        const std::string& other = corpus[random.Next() % corpus.size()];
        input.resize(at);
        if (!other.empty()) input += other.substr(random.Next() % other.size());
      }
    }
  }
  input.resize(std::min(input.size(), kMostBytes));
  return input;
}

uint64_t RunInputs(const Arguments& arguments, const std::vector<std::string>& corpus,
                   std::atomic<uint64_t>* current) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.seconds);
  uint64_t index = arguments.only >= 0 ? static_cast<uint64_t>(arguments.only) : 0;
  for (;; ++index) {
    current->store(index);
    const std::string input = Input(corpus, arguments.seed, index);
    if (!arguments.save.empty()) std::ofstream(arguments.save, std::ios::binary) << input;
    alarm(kHangSeconds);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    if (arguments.only >= 0 || index + 1 == arguments.inputs) break;
    if (index >= corpus.size() && std::chrono::steady_clock::now() >= end) break;
  }
  return index + 1;
}

bool Read(int argc, char** argv, Arguments* arguments) {
  if (argc < 2 || argc % 2 != 0) return false;
  arguments->corpus = argv[1];
  arguments->seconds = static_cast<double>(tutti::Scaled(kSeconds));
  const char* const seed = std::getenv("TUTTI_TEST_SEED");
  arguments->seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : std::random_device{}();
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--seconds") {
      arguments->seconds = std::strtod(argv[i + 1], nullptr);
    } else if (option == "--inputs") {
      arguments->inputs = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--seed") {
      arguments->seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--only") {
      arguments->only = std::strtoll(argv[i + 1], nullptr, 10);
    } else if (option == "--save") {
      arguments->save = argv[i + 1];
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Read(argc, argv, &arguments)) {
    std::fprintf(stderr, "usage: %s CORPUS [--seconds S] [--inputs N] [--seed SEED] [--only I]\n",
                 argv[0]);
    return 2;
  }
  const std::vector<std::string> corpus = ReadCorpus(arguments.corpus);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: there is no corpus\n", arguments.corpus.c_str());
    return 2;
  }
  void* const page = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 2;
  auto* const current = new (page) std::atomic<uint64_t>(0);
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    const uint64_t inputs = RunInputs(arguments, corpus, current);
    std::printf("%zu inputs of the corpus, %llu in all, seed %llu\n", corpus.size(),
                static_cast<unsigned long long>(inputs),
                static_cast<unsigned long long>(arguments.seed));
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 2;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  std::printf("FAILED (wait status %d); repeat: %s %s --seed %llu --only %llu\n", status, argv[0],
              arguments.corpus.c_str(), static_cast<unsigned long long>(arguments.seed),
              static_cast<unsigned long long>(current->load()));
  return 1;
}

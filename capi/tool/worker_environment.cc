#include "capi/tool/worker_environment.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace tutti::tool {
namespace {

// The libraries that start a thread per core unless told otherwise.
constexpr const char* kThreadVariables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                            "NUMEXPR_NUM_THREADS"};

bool IsNamed(const std::string& variable, const std::string& name) {
  return variable.size() > name.size() && variable[name.size()] == '=' &&
         variable.compare(0, name.size(), name) == 0;
}

}  // namespace

Environment::Environment(const char* const* variables) {
  for (; *variables != nullptr; ++variables) variables_.emplace_back(*variables);
}

const char* Environment::Get(const std::string& name) const {
  for (const std::string& variable : variables_) {
    if (IsNamed(variable, name)) return variable.c_str() + name.size() + 1;
  }
  return nullptr;
}

void Environment::Set(const std::string& name, const std::string& value) {
  Unset(name);
  variables_.push_back(name + "=" + value);
}

void Environment::SetIfUnset(const std::string& name, const std::string& value) {
  if (Get(name) == nullptr) Set(name, value);
}

void Environment::Unset(const std::string& name) {
  std::erase_if(variables_, [&](const std::string& variable) { return IsNamed(variable, name); });
}

std::string TfConfigOf(const std::vector<std::string>& addresses, int index) {
  std::string workers;
  for (const std::string& address : addresses) {
    workers += (workers.empty() ? "\"" : ", \"") + address + "\"";
  }
  return fmt::format(
      "{{\"cluster\": {{\"worker\": [{}]}}, \"task\": {{\"type\": \"worker\", \"index\": {}}}}}",
      workers, index);
}

Environment WorkerEnvironment(const Environment& base, const JobFacts& facts, int index) {
  Environment environment = base;
  environment.Set("TF_CONFIG", TfConfigOf(facts.addresses, index));
  if (facts.replicas) environment.Set("TUTTI_REPLICAS", std::to_string(*facts.replicas));
  if (!facts.secret.empty()) {
    environment.Unset("TUTTI_JOB_SECRET_FILE");  // it would win over the variable
    environment.Set("TUTTI_JOB_SECRET", facts.secret);
  } else if (!facts.secret_file.empty()) {
    environment.Set("TUTTI_JOB_SECRET_FILE", facts.secret_file);
  }
  environment.Set("TUTTI_RESTART", std::to_string(facts.restart));
  if (const char* port = environment.Get("TUTTI_METRICS_PORT")) {
    // One port of a machine is one worker's; what is no number the worker says.
    int first = 0;
    const char* end = port + std::strlen(port);
    const auto read = std::from_chars(port, end, first);
    if (read.ec == std::errc() && read.ptr == end && first > 0 && first + index <= 65535) {
      environment.Set("TUTTI_METRICS_PORT", std::to_string(first + index));
    }
  }
  if (facts.elastic) environment.Set("TUTTI_ELASTIC", "1");

  // Unset it is the library's to decide: a replica for each GPU, else one.
  const char* text = environment.Get("TUTTI_REPLICAS");
  int replicas = 1;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), replicas);
  const auto workers = static_cast<int64_t>(facts.workers_here);
  const int64_t of_worker = std::max<int64_t>(1, facts.usable_cores / workers);
  const int64_t threads = std::max<int64_t>(1, of_worker / std::max(1, replicas));
  environment.SetIfUnset("TUTTI_COMPUTE_THREADS", std::to_string(of_worker));
  for (const char* name : kThreadVariables) environment.SetIfUnset(name, std::to_string(threads));
  environment.SetIfUnset("PYTHONUNBUFFERED", "1");
  return environment;
}

std::string MakeJobSecret() {
  unsigned char bytes[32];
  size_t have = 0;
  while (have < sizeof(bytes)) {
    const ssize_t count = getrandom(bytes + have, sizeof(bytes) - have, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    have += static_cast<size_t>(count);
  }
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace tutti::tool

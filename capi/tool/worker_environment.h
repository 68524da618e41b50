// The environment of each worker: what makes a process worker i of n for Tutti, and the number of
// threads that keeps the workers of one machine out of each other's way.

#ifndef TUTTI_CAPI_TOOL_WORKER_ENVIRONMENT_H_
#define TUTTI_CAPI_TOOL_WORKER_ENVIRONMENT_H_

#include <optional>
#include <string>
#include <vector>

namespace tutti::tool {

// Variables as "NAME=value", in the order of the parent's.
class Environment {
 public:
  explicit Environment(const char* const* variables);

  // Null for one that is not set.
  const char* Get(const std::string& name) const;
  void Set(const std::string& name, const std::string& value);
  void SetIfUnset(const std::string& name, const std::string& value);
  void Unset(const std::string& name);
  const std::vector<std::string>& variables() const { return variables_; }

 private:
  std::vector<std::string> variables_;
};

struct JobFacts {
  std::vector<std::string> addresses;  // one per worker of the job
  int workers_here = 1;
  std::optional<int> replicas;   // per worker, as the user said; else TUTTI_REPLICAS
  std::string secret;            // replaces one of the user's
  std::string secret_file;       // the same; both empty: the user's stays
  int restart = 0;               // TUTTI_RESTART
  bool elastic = false;          // TUTTI_ELASTIC=1; else as the user said
  int usable_cores = 1;
};

// {"cluster": {"worker": ["127.0.0.1:4711", ...]}, "task": {"type": "worker", "index": 0}}
std::string TfConfigOf(const std::vector<std::string>& addresses, int index);

// `base` with TF_CONFIG, TUTTI_REPLICAS, TUTTI_JOB_SECRET, TUTTI_RESTART; and, unless they are set,
// TUTTI_COMPUTE_THREADS, OMP_NUM_THREADS and its likes, and PYTHONUNBUFFERED, without which a
// Python worker's lines would come late, and never when it is killed.
Environment WorkerEnvironment(const Environment& base, const JobFacts& facts, int index);

// 32 bytes of getrandom in hexadecimal. Empty on failure.
std::string MakeJobSecret();

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_WORKER_ENVIRONMENT_H_

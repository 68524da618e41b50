#include "strategies.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace conformance {
namespace {

thread_local tutti_runtime *current_runtime = nullptr;

// The devices of so many replicas: of the type that CONFORMANCE_DEVICE says, else CPUs.
class Devices {
 public:
  explicit Devices(size_t count) {
    const char *const type = std::getenv("CONFORMANCE_DEVICE");
    const std::string kind = type == nullptr ? "CPU:" : std::string(type) + ":";
    for (size_t i = 0; i < count; ++i) names_.push_back(kind + std::to_string(i));
    for (const std::string &name : names_) texts_.push_back(name.c_str());
  }
  size_t count() const { return texts_.size(); }
  const char *const *names() const { return texts_.data(); }

 private:
  std::vector<std::string> names_;
  std::vector<const char *> texts_;
};

// Addresses of the loopback interface that nobody else gets: the ports stay bound, in a way that
// lets a worker listen there all the same (Linux: both sockets have SO_REUSEADDR, and this one does
// not listen).
class ReservedAddresses {
 public:
  explicit ReservedAddresses(size_t count) {
    for (size_t i = 0; i < count; ++i) Reserve();
  }
  ~ReservedAddresses() {
    for (const int socket : sockets_) close(socket);
  }
  ReservedAddresses(const ReservedAddresses &) = delete;
  ReservedAddresses &operator=(const ReservedAddresses &) = delete;
  const std::vector<std::string> &list() const { return addresses_; }

 private:
  void Reserve() {
    const int reserved = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    sockets_.push_back(reserved);
    setsockopt(reserved, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    if (bind(reserved, generic, size) != 0 || getsockname(reserved, generic, &size) != 0) {
      throw std::runtime_error("there is no free port on the loopback interface");
    }
    addresses_.push_back("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  }

  std::vector<int> sockets_;
  std::vector<std::string> addresses_;
};

// A runtime that is the current one of the thread that made it, and is shut down with it: the
// worker says goodbye, whatever became of it.
class WorkerRuntime {
 public:
  WorkerRuntime() {
    Check(tutti_runtime_create(nullptr, runtime_.out()));
    current_runtime = runtime_.get();
  }
  ~WorkerRuntime() {
    current_runtime = nullptr;
    tutti_status_release(tutti_runtime_shutdown(runtime_.get(), nullptr));
  }

 private:
  Runtime runtime_;
};

Strategy MultiWorker(const Json &cluster, size_t worker, size_t replicas) {
  ClusterSpec spec;
  Check(tutti_cluster_spec_create(cluster.dump().c_str(), spec.out()));
  tutti_cluster_resolver_options task = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  task.task_type = "worker";
  task.task_id = {1, static_cast<int64_t>(worker)};
  ClusterResolver resolver;
  Check(tutti_cluster_resolver_create_simple(spec.get(), &task, resolver.out()));
  const Devices devices(replicas);
  tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
  options.resolver = resolver.get();
  options.device_count = devices.count();
  options.devices = devices.names();
  Strategy strategy;
  Check(tutti_strategy_create_multi_worker_mirrored(current_runtime, &options, nullptr,
                                                    strategy.out()));
  return strategy;
}

}  // namespace

tutti_runtime *CurrentRuntime() { return current_runtime; }

Strategy Mirrored(size_t replicas) {
  const Devices devices(replicas);
  Strategy strategy;
  Check(tutti_strategy_create_mirrored(nullptr, devices.count(), devices.names(), nullptr, nullptr,
                                       strategy.out()));
  return strategy;
}

void RunWorkers(size_t workers, size_t replicas, const WorkerBody &body) {
  if (workers == 1) return body(Mirrored(replicas), 0);
  const ReservedAddresses addresses(workers);
  const Json cluster{{"worker", addresses.list()}};
  std::vector<std::exception_ptr> failures(workers);
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        const WorkerRuntime runtime;
        body(MultiWorker(cluster, worker, replicas), worker);
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const std::exception_ptr &failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void CompareLocal(const Json &expected, const Strategy &strategy, const Value &value) {
  Value tuple;
  Check(tutti_strategy_local_results(strategy.get(), value.get(), tuple.out()));
  Compare(Json{{"t", expected}}, tuple);
}

}  // namespace conformance

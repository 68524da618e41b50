#include "capi/tool/bench_job.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "capi/tool/core_round_trip.h"

namespace tutti::tool {
namespace {

// Whoever measures longer than that in one call hangs.
constexpr const char* kCallTimeout = "10min";

}  // namespace

BenchJob::~BenchJob() {
  if (cluster_ != nullptr) CStatus(tutti_cluster_close(cluster_.get(), nullptr));
  if (runtime_ != nullptr) CStatus(tutti_runtime_shutdown(runtime_.get(), nullptr));
}

CStatus BenchJob::Start() {
  const char* keys[] = {"default_timeout", "transport"};
  const char* values[] = {kCallTimeout, options_.transport.c_str()};
  tutti_runtime_options runtime_options = TUTTI_RUNTIME_OPTIONS_INIT;
  runtime_options.setting_count = options_.in_process ? 1 : 2;
  runtime_options.setting_keys = keys;
  runtime_options.setting_values = values;
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_runtime_create(&runtime_options, Out(&runtime_)));
  workers_ = options_.workers;
  if (options_.in_process) return nullptr;
  TUTTI_TOOL_RETURN_IF_FAILED(
      tutti_cluster_join(runtime_.get(), nullptr, nullptr, nullptr, Out(&cluster_)));
  workers_ = static_cast<int>(tutti_cluster_get_worker_count(cluster_.get()));
  return nullptr;
}

CStatus BenchJob::Connect(const std::string& name, std::vector<CCommunicator>* communicators) {
  communicators->clear();
  tutti_communicator_options communicator_options = TUTTI_COMMUNICATOR_OPTIONS_INIT;
  communicator_options.name = name.c_str();
  if (options_.in_process) {
    std::vector<tutti_communicator*> raw(static_cast<size_t>(workers_));
    TUTTI_TOOL_RETURN_IF_FAILED(tutti_communicator_create_local(
        runtime_.get(), raw.size(), &communicator_options, raw.data()));
    for (tutti_communicator* communicator : raw) communicators->emplace_back(communicator);
    hosts_.most_ranks = workers_;
    return nullptr;
  }
  communicators->emplace_back();
  TUTTI_TOOL_RETURN_IF_FAILED(tutti_communicator_create(cluster_.get(), &communicator_options,
                                                        nullptr, Out(&communicators->back())));
  if (std::exchange(has_hosts_, true)) return nullptr;
  tutti_communicator* const communicator = communicators->back().get();
  if (tutti_communicator_get_transport(communicator) == std::string("shared_memory")) {
    hosts_ = {1, workers_, tutti_communicator_get_rank(communicator)};
    return nullptr;
  }
  return RankHosts::Find(runtime_.get(), communicator, &hosts_);
}

int BenchJob::OnRanks(const std::function<int(size_t place)>& rank) const {
  std::vector<int> statuses(static_cast<size_t>(options_.in_process ? workers_ : 1));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < statuses.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = rank(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int status : statuses) {
    if (status != 0) return status;
  }
  return 0;
}

bool BenchJob::BindsRanks() const {
  return options_.bind && workers_ > 1 &&
         UsableCore(static_cast<int>(hosts_.most_ranks) - 1).has_value();
}

void BenchJob::BindRank(int64_t rank) const {
  const int64_t place = options_.in_process ? rank : hosts_.place;
  BindThisThread(*UsableCore(static_cast<int>(place)));
}

int BenchJob::Failed(const std::string& who, const CStatus& status) {
  fmt::print(stderr, "tutti bench: {}{}: {}\n", who,
             tutti_code_get_name(tutti_status_get_code(status.get())),
             tutti_status_get_message(status.get()));
  return 1;
}

}  // namespace tutti::tool

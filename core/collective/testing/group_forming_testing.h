// Workers that are threads here, each with an environment and a listener of its own, form groups on
// machines that are only names.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_GROUP_FORMING_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_GROUP_FORMING_TESTING_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/real_environment.h"
#include "core/cluster/sockets/peer_listener.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/group/group_forming.h"
#include "core/collective/group/local_team.h"
#include "core/tensor/tensor.h"

namespace tutti {

class GroupFormingTest : public testing::Test {
 protected:
  ~GroupFormingTest() override { Reset(); }

  void Reset() {
    teams_.clear();
    for (const Ref<PeerListener>& listener : listeners_) {
      EXPECT_TRUE(listener->Close(CallOptions()).ok());
    }
    listeners_.clear();
    for (const Ref<Environment>& environment : environments_) {
      EXPECT_TRUE(environment->Shutdown(CallOptions()).ok());
    }
    environments_.clear();
    infos_.clear();
    transports_.clear();
  }

  // One worker per machine named.
  void Start(const std::vector<std::string>& machines) {
    secret_ = JobSecret::Generate().value();
    for (size_t worker = 0; worker < machines.size(); ++worker) {
      environments_.push_back(
          MakeRef<RealEnvironment>(RealEnvironmentOptions{.log_level = LogLevel::kOff}));
      PeerListener::Options options;
      options.secret = secret_;
      options.worker = static_cast<int64_t>(worker);
      options.tcp_address = "127.0.0.1:0";
      listeners_.push_back(PeerListener::Create(environments_[worker], options).value());
      WorkerInfo info;
      info.worker = static_cast<int64_t>(worker);
      info.pid = 4711 + info.worker;
      info.host = "host-" + machines[worker];
      info.boot_id = machines[worker];
      info.tcp_address = listeners_[worker]->tcp_address();
      info.local_address = listeners_[worker]->local_address();
      infos_.push_back(info);
    }
    teams_ = LocalTeam::Create(environments_, std::vector<int64_t>(machines.size(), 1));
    transports_.resize(machines.size(), CollectiveTransport::kAuto);
  }

  CallOptions Timeout(int64_t ns) {
    return CallOptions::WithTimeout(environments_[0]->clock(), ns);
  }
  CallOptions Hang() { return Timeout(60 * kSecondNs); }

  // Groups of one epoch tell each other `of` what they are, as parts of different groups do.
  Result<FormedGroup> Form(size_t worker, const CallOptions& call, int64_t epoch = 1,
                           Ref<SharedWindow> window = nullptr, std::string_view of = "") {
    GroupFormingOptions options;
    options.window = std::move(window);
    options.name = "test";
    options.epoch = epoch;
    options.transport = transports_[worker];
    options.table = table_;
    if (static_cast<int64_t>(worker) == reproducible_worker_) {
      options.table = SelectorTable::Reproducible(*SelectorTable::BuiltIn());
    }
    options.worker = static_cast<int64_t>(worker);
    options.workers = infos_;
    if (sees_) sees_(worker, &options.workers);
    options.secret = secret_;
    options.listener = listeners_[worker].get();
    options.exchange = [this, worker, prefix = std::string(of)](
                           std::string_view key, std::string bytes,
                           const CallOptions& exchange_call) -> Result<std::vector<std::string>> {
      Result<std::vector<std::string>> all =
          teams_[worker]->Exchange(prefix + std::string(key), std::move(bytes), exchange_call);
      if (hears_) TUTTI_RETURN_IF_ERROR(hears_(worker, key));
      return all;
    };
    return FormGroup(environments_[worker], std::move(options), call);
  }

  std::vector<Status> Run(const std::function<Status(size_t)>& body) {
    std::vector<Status> statuses(infos_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < infos_.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(i); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  // Forms the group and reduces over it; gives the kinds by worker.
  std::vector<std::string> FormAndUse(int64_t epoch = 1) {
    std::vector<std::string> kinds(infos_.size());
    const auto size = static_cast<int64_t>(infos_.size());
    for (const Status& status : Run([&](size_t worker) -> Status {
           TUTTI_ASSIGN_OR_RETURN(FormedGroup group, Form(worker, Hang(), epoch));
           kinds[worker] = group.kind;
           TUTTI_ASSIGN_OR_RETURN(
               Ref<Communicator> communicator,
               Communicator::CreateOver(environments_[worker].get(), "test",
                                        static_cast<int64_t>(worker), size, epoch,
                                        std::move(group.transport)));
           for (int64_t count : {10, 300000}) {
             Ref<Tensor> tensor = Tensor::Create(DType::kInt64, Shape({count})).value();
             for (int64_t& element : tensor->mutable_span<int64_t>()) {
               element = static_cast<int64_t>(worker) + 1;
             }
             TUTTI_RETURN_IF_ERROR(
                 communicator->AllReduce(*tensor, ReduceOp::kSum, Hang(), tensor.get()));
             for (int64_t element : tensor->span<int64_t>()) {
               if (element != size * (size + 1) / 2) return Internal("a wrong sum");
             }
           }
           return communicator->Close(Hang());
         })) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return kinds;
  }

  JobSecret secret_;
  std::vector<Ref<Environment>> environments_;
  std::vector<Ref<PeerListener>> listeners_;
  std::vector<WorkerInfo> infos_;
  std::vector<Ref<WorkerTeam>> teams_;
  std::vector<CollectiveTransport> transports_;
  std::shared_ptr<const SelectorTable> table_;
  int64_t reproducible_worker_ = -1;
  // Changes what a worker knows of the others; null: nothing.
  std::function<void(size_t worker, std::vector<WorkerInfo>* infos)> sees_;
  // How an exchange that all have come to ends for a worker; null: well.
  std::function<Status(size_t worker, std::string_view key)> hears_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_GROUP_FORMING_TESTING_H_

// For tests: a job of simulated workers in virtual time, each a node of one SimulatedWire with its
// own state machines. What a worker was told is written down in its SimulatedWorker.

#ifndef TUTTI_CORE_CLUSTER_TESTING_SIMULATED_JOB_H_
#define TUTTI_CORE_CLUSTER_TESTING_SIMULATED_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/simulated_control_network.h"
#include "core/base/simulated_environment.h"
#include "core/cluster/control/loop_connection.h"
#include "core/cluster/membership/coordinator.h"
#include "core/cluster/membership/member.h"

namespace tutti {

// Whom a status names, -1: nobody.
inline int64_t BlamedWorker(const Status& status) {
  const StatusDetail* const detail = status.FindDetail("worker");
  return detail == nullptr ? -1 : std::get<int64_t>(detail->value);
}

class SimulatedWorker final : public Member::Observer {
 public:
  SimulatedWorker(SimulatedEnvironment& world, SimulatedWire& wire, Member::Options options)
      : world(world),
        options(std::move(options)),
        network(wire.AddNode(Format("worker {}", this->options.self.worker))) {}
  ~SimulatedWorker() override {
    network->Kill(SimulatedDeath::kSilent);  // no task runs afterwards
  }

  // As Cluster::Join does it, which gives up after a while.
  void Start(int64_t timeout_ns = kNeverNs) {
    (void)network->Post([this, timeout_ns] {
      const int64_t self = options.self.worker;
      Member::Connect connect = [this](std::unique_ptr<ControlHandler> handler) {
        return network->Connect(options.addresses[0], Member::kConnectTimeoutNs,
                                std::move(handler));
      };
      if (self == 0) {
        coordinator = std::make_unique<Coordinator>(
            world, network,
            Coordinator::Options{options.tasks, options.addresses, options.self.host,
                                 options.timing, elastic});
        listening = network->Listen(options.addresses[0], coordinator->MakeAcceptor()).status();
        loop = std::make_unique<LoopConnection>(network);
        connect = [this](std::unique_ptr<ControlHandler> handler) {
          return loop->Connect(std::move(handler), [this](Ref<ControlConnection> connection) {
            return coordinator->Accept(std::move(connection));
          });
        };
        coordinator->Start();
      }
      member = std::make_unique<Member>(world, network, options, std::move(connect), this);
      member->Start();
      if (timeout_ns != kNeverNs) GiveUpAfter(timeout_ns);
    });
  }
  // Runs something on the worker's strand, now or later; never if it is dead by then.
  void Do(std::function<void(Member&)> act, int64_t delay_ns = 0) {
    (void)network->PostAfter(delay_ns, [this, act = std::move(act)] {
      if (member != nullptr) act(*member);
    });
  }
  void GiveUpAfter(int64_t timeout_ns) {
    Do([timeout_ns](Member& m) {
      m.GiveUpJoining(DeadlineExceeded("not done after {}", HumanDuration(timeout_ns)));
    }, timeout_ns);
  }
  void Leave() {
    Do([this](Member& m) {
      if (std::exchange(leaving, true)) return;
      left_ns = world.clock().NowNs();
      m.Leave([this] { left = true; });
    });
  }

  void OnJoined(const Welcome& w) override {
    joined = true;
    joined_ns = world.clock().NowNs();
    welcome = w;
    if (on_joined) on_joined();
  }
  void OnNotJoined(Status reason) override { not_joined = std::move(reason); }
  void OnFailed(const Status& reason) override {
    ++failures;
    failure = reason;
    failed_ns = world.clock().NowNs();
  }
  void OnLeft(int64_t worker, const Status& reason) override {
    departures.emplace(worker, reason);
    if (on_event) on_event(worker);
  }
  void OnArrived(const WorkerInfo& info, uint64_t arrival) override {
    arrivals.emplace_back(MemberId{info.worker, arrival});
  }
  void OnNote(const Note& note) override {
    if (on_note) on_note(note);
  }

  SimulatedEnvironment& world;
  Member::Options options;
  bool elastic = false;  // worker 0's holds
  Ref<SimulatedControlNetwork> network;
  std::unique_ptr<LoopConnection> loop;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Member> member;

  Status listening;
  bool joined = false;
  int64_t joined_ns = kNeverNs;
  Welcome welcome;
  std::function<void()> on_joined;
  Status not_joined;
  int failures = 0;
  Status failure;
  int64_t failed_ns = kNeverNs;
  std::map<int64_t, Status> departures;  // the first of each
  std::vector<MemberId> arrivals;
  std::function<void(int64_t)> on_event;
  std::function<void(const Note&)> on_note;
  bool leaving = false;
  int64_t left_ns = kNeverNs;
  bool left = false;
};

class SimulatedJob {
 public:
  // `adjust` may change what a worker is told before it starts.
  SimulatedJob(uint64_t seed, int64_t num_workers, MembershipTiming timing = {},
               const std::function<void(Member::Options&)>& adjust = {})
      : world(MakeRef<SimulatedEnvironment>(seed)), wire(*world) {
    Member::Options options;
    options.timing = timing;
    for (int64_t i = 0; i < num_workers; ++i) {
      options.tasks.push_back(Format("worker:{}", i));
      options.addresses.push_back(Format("10.0.0.{}:2222", i + 1));
    }
    for (int64_t i = 0; i < num_workers; ++i) {
      Member::Options own = options;
      own.self.worker = i;
      own.self.task = own.tasks[static_cast<size_t>(i)];
      own.self.pid = 4700 + i;
      own.self.host = "node";
      own.self.build = "tutti 0.1.0";
      if (adjust) adjust(own);
      workers.push_back(std::make_unique<SimulatedWorker>(*world, wire, std::move(own)));
    }
  }

  SimulatedWorker& operator[](int64_t worker) { return *workers[static_cast<size_t>(worker)]; }
  int64_t size() const { return static_cast<int64_t>(workers.size()); }
  void StartAll() {
    for (auto& worker : workers) worker->Start();
  }
  void RunFor(int64_t duration_ns) { world->RunFor(duration_ns); }

  const Ref<SimulatedEnvironment> world;
  SimulatedWire wire;
  std::vector<std::unique_ptr<SimulatedWorker>> workers;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_TESTING_SIMULATED_JOB_H_

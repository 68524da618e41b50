// The control channel in virtual time: several nodes, each with a ControlNetwork of its own, joined
// by a wire on which everything takes a random time and may go wrong. All randomness is the
// world's, so a seed decides everything.
//
//   auto world = MakeRef<SimulatedEnvironment>(seed);
//   SimulatedWire wire(*world);
//   Ref<SimulatedControlNetwork> a = wire.AddNode("a");     // a ControlNetwork
//   Ref<SimulatedControlNetwork> b = wire.AddNode("b");
//   wire.Cut(*a, *b);                  // nothing arrives until Heal
//   b->Freeze(10 * kSecondNs);         // as by SIGSTOP
//   a->Kill(SimulatedDeath::kSilent);  // as by pulling the plug
//
// One thread. The world outlives the wire; a node that outlives the wire is dead. Kill and Shutdown
// are not called from a handler.

#ifndef TUTTI_CORE_BASE_SIMULATED_CONTROL_NETWORK_H_
#define TUTTI_CORE_BASE_SIMULATED_CONTROL_NETWORK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/control_channel.h"
#include "core/base/simulated_environment.h"

namespace tutti {

class SimulatedControlNetwork;
class SimulatedLink;

enum class SimulatedDeath {
  kBroken,  // the process ends: peers see its connections break, new ones are refused
  kSilent,  // the machine ends: nothing more is heard of it
};

class SimulatedWire {
 public:
  struct Options {
    int64_t min_delay_ns = 20'000;              // of a message
    int64_t max_delay_ns = 5 * kMillisecondNs;
    int64_t max_task_delay_ns = 100'000;        // between two tasks of a strand
    int64_t max_timer_lateness_ns = 2 * kMillisecondNs;
    int64_t max_break_notice_ns = 20 * kMillisecondNs;  // until a broken connection is noticed
  };
  explicit SimulatedWire(SimulatedEnvironment& world) : SimulatedWire(world, Options()) {}
  SimulatedWire(SimulatedEnvironment& world, const Options& options);
  ~SimulatedWire();
  SimulatedWire(const SimulatedWire&) = delete;
  SimulatedWire& operator=(const SimulatedWire&) = delete;

  Ref<SimulatedControlNetwork> AddNode(std::string name);
  // From now on what the two send each other is held, and delivered after Heal.
  void Cut(SimulatedControlNetwork& a, SimulatedControlNetwork& b);
  void Heal(SimulatedControlNetwork& a, SimulatedControlNetwork& b);
  // Breaks every connection between the two: what is in flight is lost, both are told UNAVAILABLE.
  void Break(SimulatedControlNetwork& a, SimulatedControlNetwork& b);

 private:
  friend class SimulatedControlNetwork;
  friend class SimulatedLink;

  // Uniform within both bounds.
  int64_t Draw(int64_t least, int64_t most);
  bool IsCut(const SimulatedControlNetwork* a, const SimulatedControlNetwork* b) const;
  // Calls `act` with every connection between the two.
  template <typename Act>
  void ForEachLink(SimulatedControlNetwork& a, SimulatedControlNetwork& b, Act act);

  SimulatedEnvironment& world_;
  const Options options_;
  std::set<SimulatedControlNetwork*> nodes_;  // that have not stopped
  std::map<std::string, SimulatedControlNetwork*> listeners_;
  // Addresses of nodes that died silently: whoever connects to them gets no answer.
  std::set<std::string> silent_addresses_;
  std::set<std::pair<const SimulatedControlNetwork*, const SimulatedControlNetwork*>> cuts_;
  int64_t next_port_ = 40'000;
};

class SimulatedControlNetwork final : public ControlNetwork {
 public:
  SimulatedControlNetwork(SimulatedWire& wire, std::string name);

  Result<std::string> Listen(const std::string& address,
                             std::unique_ptr<ControlAcceptor> acceptor) override;
  Ref<ControlConnection> Connect(const std::string& address, int64_t timeout_ns,
                                 std::unique_ptr<ControlHandler> handler) override;
  bool Post(Task&& task) override;
  uint64_t PostAfter(int64_t delay_ns, Task&& task) override;
  bool CancelTimer(uint64_t timer) override;
  // At once; what was sent still arrives.
  Status Shutdown(Status reason, const CallOptions& options) override;

  // Nothing more happens here; no handler is told.
  void Kill(SimulatedDeath how);
  // Nothing happens here for so long; then all that has come meanwhile, at once.
  void Freeze(int64_t duration_ns);

  const std::string& name() const { return name_; }

 private:
  friend class SimulatedWire;
  friend class SimulatedLink;

  struct Item {
    Task task;
    uint64_t timer;  // 0: not of a timer
  };
  struct Timer {
    Task task;
    uint64_t world_timer;
  };

  ~SimulatedControlNetwork() override;
  void Enqueue(Task&& task, uint64_t timer = 0);
  void SchedulePump();
  void Pump();
  void OnTimer(uint64_t timer);
  // Drops all that waits here, and the listener. Peers are told `notice`, unless it is null.
  void Stop(const Status* notice, int64_t most_ns);

  SimulatedWire& wire_;
  const std::string name_;
  bool stopped_ = false;
  std::deque<Item> queue_;
  bool pumping_ = false;  // an event of the world will call Pump, or it runs
  int64_t frozen_until_ns_ = 0;
  bool was_frozen_ = false;
  std::map<uint64_t, Timer> timers_;
  uint64_t next_timer_ = 1;
  std::string address_;
  std::unique_ptr<ControlAcceptor> acceptor_;
  std::vector<std::shared_ptr<SimulatedLink>> links_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_SIMULATED_CONTROL_NETWORK_H_

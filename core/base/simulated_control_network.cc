#include "core/base/simulated_control_network.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/random.h"

namespace tutti {

// One connection. Side 0 has connected, side 1 accepted. What a side sends is *in flight* on its
// way to the other one; each flight has an event of the world, and each such event lands the
// flights that are due, so that they land in order whatever order events of one instant run in.
class SimulatedLink : public std::enable_shared_from_this<SimulatedLink> {
 public:
  SimulatedLink(SimulatedWire& wire, SimulatedControlNetwork* from, std::string address,
                std::unique_ptr<ControlHandler> handler)
      : wire_(wire), address_(std::move(address)) {
    sides_[0].node = from;
    sides_[0].handler = std::move(handler);
  }

  void Start(int64_t timeout_ns);
  void Send(int side, std::string message);
  void Close(int side, Status reason);
  // Loses what is in flight, and tells both sides.
  void Break();
  // A node goes: its handler is dropped, not called. The other side is told `notice`, within
  // `most_ns`, unless it is null.
  void Drop(const SimulatedControlNetwork* node, const Status* notice, int64_t most_ns);
  // What this node has sent and has not landed is lost.
  void Lose(const SimulatedControlNetwork* node) {
    for (Side& side : sides_) {
      if (side.node == node) side.flights.clear();
    }
  }
  // The wire between the sides is whole again.
  void Resume();
  bool Joins(const SimulatedControlNetwork* a, const SimulatedControlNetwork* b) const {
    return (sides_[0].node == a && sides_[1].node == b) ||
           (sides_[0].node == b && sides_[1].node == a);
  }
  std::string PeerAddress(int side) const {
    if (side == 0) return address_;
    return sides_[0].node != nullptr ? sides_[0].node->name() : "gone";
  }

 private:
  enum class Kind { kConnect, kAccepted, kMessage, kEnd };
  struct Flight {
    int64_t lands_ns;
    Kind kind;
    std::string message;
    Status reason;
  };
  struct Side {
    SimulatedControlNetwork* node = nullptr;  // null: none yet, or gone
    std::unique_ptr<ControlHandler> handler;
    bool closed = false;          // sends nothing more
    std::deque<Flight> flights;   // on their way to the other side
    int64_t last_lands_ns = 0;
  };

  void Launch(int side, Flight flight, int64_t least_ns, int64_t most_ns);
  void ScheduleLanding(int side, int64_t delay_ns);
  void Land(int side);
  void Arrive(int to, Flight& flight);
  void Accept();
  // Ends one side: its handler's last call. On the side's strand.
  void Tell(int side, Status reason);
  void TellLater(int side, Status reason);

  SimulatedWire& wire_;
  const std::string address_;
  bool open_ = false;       // side 0 knows that side 1 has accepted
  bool broken_ = false;
  Side sides_[2];
  std::vector<Flight> waiting_;  // of side 0, until the connection is open
};

namespace {

class SimulatedEnd final : public ControlConnection {
 public:
  SimulatedEnd(std::shared_ptr<SimulatedLink> link, int side)
      : link_(std::move(link)), side_(side) {}
  void Send(std::string message) override { link_->Send(side_, std::move(message)); }
  void Close(Status reason) override { link_->Close(side_, std::move(reason)); }
  std::string peer_address() const override { return link_->PeerAddress(side_); }

 private:
  const std::shared_ptr<SimulatedLink> link_;
  const int side_;
};

}  // namespace

// ---- Links

void SimulatedLink::Start(int64_t timeout_ns) {
  Launch(0, {0, Kind::kConnect, {}, {}}, wire_.options_.min_delay_ns, wire_.options_.max_delay_ns);
  wire_.world_.executor().PostAfter(timeout_ns, [link = shared_from_this(), timeout_ns] {
    if (link->open_ || link->broken_) return;
    link->broken_ = true;
    link->TellLater(0, Unavailable("no answer from {} within {}", link->address_,
                                   HumanDuration(timeout_ns)));
    link->TellLater(1, Unavailable("the connection broke"));
  });
}

void SimulatedLink::Launch(int side, Flight flight, int64_t least_ns, int64_t most_ns) {
  Side& from = sides_[side];
  const int64_t now = wire_.world_.clock().NowNs();
  from.last_lands_ns = std::max(from.last_lands_ns, now + wire_.Draw(least_ns, most_ns));
  flight.lands_ns = from.last_lands_ns;
  from.flights.push_back(std::move(flight));
  ScheduleLanding(side, from.last_lands_ns - now);
}

void SimulatedLink::ScheduleLanding(int side, int64_t delay_ns) {
  wire_.world_.executor().PostAfter(delay_ns,
                                    [link = shared_from_this(), side] { link->Land(side); });
}

void SimulatedLink::Land(int side) {
  Side& from = sides_[side];
  const int to = 1 - side;
  const int64_t now = wire_.world_.clock().NowNs();
  while (!broken_ && !from.flights.empty() && from.flights.front().lands_ns <= now) {
    if (wire_.IsCut(from.node, sides_[to].node)) return;  // Resume goes on
    Flight flight = std::move(from.flights.front());
    from.flights.pop_front();
    if (flight.kind == Kind::kConnect) {
      Accept();
      continue;
    }
    if (sides_[to].node == nullptr) continue;
    sides_[to].node->Enqueue([link = shared_from_this(), to, flight = std::move(flight)]() mutable {
      link->Arrive(to, flight);
    });
  }
}

void SimulatedLink::Accept() {
  const auto listener = wire_.listeners_.find(address_);
  if (listener == wire_.listeners_.end()) {
    if (wire_.silent_addresses_.count(address_) > 0) return;
    Launch(1, {0, Kind::kEnd, {}, Unavailable("nobody listens at {}", address_)},
           wire_.options_.min_delay_ns, wire_.options_.max_delay_ns);
    return;
  }
  SimulatedControlNetwork* const node = listener->second;
  if (wire_.IsCut(sides_[0].node, node)) return;
  sides_[1].node = node;
  node->links_.push_back(shared_from_this());
  node->Enqueue([link = shared_from_this(), node] {
    if (link->broken_ || link->sides_[1].closed || !node->acceptor_) return;
    link->sides_[1].handler = node->acceptor_->OnAccept(MakeRef<SimulatedEnd>(link, 1));
    if (link->sides_[1].handler == nullptr) {
      link->Close(1, Unavailable("{} takes no more connections", link->address_));
      return;
    }
    link->Launch(1, {0, Kind::kAccepted, {}, {}}, link->wire_.options_.min_delay_ns,
                 link->wire_.options_.max_delay_ns);
  });
}

void SimulatedLink::Arrive(int to, Flight& flight) {
  Side& side = sides_[to];
  if (flight.kind == Kind::kAccepted) {
    open_ = true;
    for (Flight& waiting : std::exchange(waiting_, {})) {
      Launch(0, std::move(waiting), wire_.options_.min_delay_ns, wire_.options_.max_delay_ns);
    }
  }
  if (flight.kind == Kind::kEnd) Tell(to, std::move(flight.reason));
  if (side.handler == nullptr || side.closed) return;
  if (flight.kind == Kind::kAccepted) side.handler->OnConnected();
  if (flight.kind == Kind::kMessage) side.handler->OnMessage(flight.message);
}

void SimulatedLink::Send(int side, std::string message) {
  Side& from = sides_[side];
  if (from.closed) return;
  if (message.size() > kMaxControlMessageBytes) {
    Close(side, ResourceExhausted("a control message has {} bytes, at most {} are allowed",
                                  message.size(), kMaxControlMessageBytes));
    return;
  }
  Flight flight{0, Kind::kMessage, std::move(message), {}};
  if (side == 0 && !open_) {
    waiting_.push_back(std::move(flight));
    return;
  }
  Launch(side, std::move(flight), wire_.options_.min_delay_ns, wire_.options_.max_delay_ns);
}

void SimulatedLink::Close(int side, Status reason) {
  Side& from = sides_[side];
  if (from.closed) return;
  from.closed = true;
  Flight flight{0, Kind::kEnd, {}, reason};
  if (side == 0 && !open_) {
    waiting_.push_back(std::move(flight));
  } else {
    Launch(side, std::move(flight), wire_.options_.min_delay_ns, wire_.options_.max_delay_ns);
  }
  TellLater(side, std::move(reason));
}

void SimulatedLink::TellLater(int side, Status reason) {
  SimulatedControlNetwork* const node = sides_[side].node;
  if (node == nullptr) return;
  node->Enqueue([link = shared_from_this(), side, reason = std::move(reason)]() mutable {
    link->Tell(side, std::move(reason));
  });
}

void SimulatedLink::Tell(int side, Status reason) {
  sides_[side].closed = true;
  // Taken out first: OnClosed may drop the last references to this connection's ends.
  const std::unique_ptr<ControlHandler> handler = std::move(sides_[side].handler);
  if (handler != nullptr) handler->OnClosed(std::move(reason));
}

void SimulatedLink::Break() {
  if (broken_) return;
  broken_ = true;
  waiting_.clear();
  for (int side = 0; side < 2; ++side) {
    sides_[side].flights.clear();
    wire_.world_.executor().PostAfter(
        wire_.Draw(0, wire_.options_.max_break_notice_ns), [link = shared_from_this(), side] {
          link->TellLater(side, Unavailable("the connection broke"));
        });
  }
}

void SimulatedLink::Drop(const SimulatedControlNetwork* node, const Status* notice,
                         int64_t most_ns) {
  for (int side = 0; side < 2; ++side) {
    if (sides_[side].node != node) continue;
    sides_[side].node = nullptr;
    const bool was_closed = std::exchange(sides_[side].closed, true);
    const std::unique_ptr<ControlHandler> handler = std::move(sides_[side].handler);
    if (notice != nullptr && !broken_ && !was_closed) {
      Launch(side, {0, Kind::kEnd, {}, *notice}, wire_.options_.min_delay_ns, most_ns);
    }
  }
}

void SimulatedLink::Resume() {
  const int64_t now = wire_.world_.clock().NowNs();
  for (int side = 0; side < 2; ++side) {
    if (sides_[side].flights.empty()) continue;
    const int64_t delay = wire_.Draw(wire_.options_.min_delay_ns, wire_.options_.max_delay_ns);
    for (Flight& flight : sides_[side].flights) {
      flight.lands_ns = std::max(flight.lands_ns, now + delay);
    }
    sides_[side].last_lands_ns = std::max(sides_[side].last_lands_ns, now + delay);
    ScheduleLanding(side, sides_[side].last_lands_ns - now);
  }
}

// ---- The wire

SimulatedWire::SimulatedWire(SimulatedEnvironment& world, const Options& options)
    : world_(world), options_(options) {}

SimulatedWire::~SimulatedWire() {
  // Events that the world still holds may own nodes: these must not look back here.
  while (!nodes_.empty()) (*nodes_.begin())->Stop(nullptr, 0);
}

Ref<SimulatedControlNetwork> SimulatedWire::AddNode(std::string name) {
  return MakeRef<SimulatedControlNetwork>(*this, std::move(name));
}

int64_t SimulatedWire::Draw(int64_t least, int64_t most) {
  if (most <= least) return least;
  return least + static_cast<int64_t>(world_.random().Next() %
                                      static_cast<uint64_t>(most - least + 1));
}

bool SimulatedWire::IsCut(const SimulatedControlNetwork* a,
                          const SimulatedControlNetwork* b) const {
  return cuts_.count(std::minmax(a, b)) > 0;
}

template <typename Act>
void SimulatedWire::ForEachLink(SimulatedControlNetwork& a, SimulatedControlNetwork& b, Act act) {
  const std::vector<std::shared_ptr<SimulatedLink>> links = a.links_;
  for (const std::shared_ptr<SimulatedLink>& link : links) {
    if (link->Joins(&a, &b)) act(*link);
  }
}

void SimulatedWire::Cut(SimulatedControlNetwork& a, SimulatedControlNetwork& b) {
  cuts_.insert(std::minmax<const SimulatedControlNetwork*>(&a, &b));
}

void SimulatedWire::Heal(SimulatedControlNetwork& a, SimulatedControlNetwork& b) {
  if (cuts_.erase(std::minmax<const SimulatedControlNetwork*>(&a, &b)) == 0) return;
  ForEachLink(a, b, [](SimulatedLink& link) { link.Resume(); });
}

void SimulatedWire::Break(SimulatedControlNetwork& a, SimulatedControlNetwork& b) {
  ForEachLink(a, b, [](SimulatedLink& link) { link.Break(); });
}

// ---- Nodes

SimulatedControlNetwork::SimulatedControlNetwork(SimulatedWire& wire, std::string name)
    : wire_(wire), name_(std::move(name)) {
  wire_.nodes_.insert(this);
}

SimulatedControlNetwork::~SimulatedControlNetwork() { Stop(nullptr, 0); }

Result<std::string> SimulatedControlNetwork::Listen(const std::string& address,
                                                    std::unique_ptr<ControlAcceptor> acceptor) {
  if (stopped_) return FailedPrecondition("{}: its network has been shut down", name_);
  std::string bound = address;
  if (bound.size() >= 2 && bound.compare(bound.size() - 2, 2, ":0") == 0) {
    bound.replace(bound.size() - 1, 1, Format("{}", wire_.next_port_++));
  }
  if (!wire_.listeners_.emplace(bound, this).second) {
    return Unavailable("{}: cannot listen at {}: address already in use", name_, bound);
  }
  wire_.silent_addresses_.erase(bound);
  address_ = bound;
  acceptor_ = std::move(acceptor);
  return bound;
}

Ref<ControlConnection> SimulatedControlNetwork::Connect(const std::string& address,
                                                        int64_t timeout_ns,
                                                        std::unique_ptr<ControlHandler> handler) {
  auto link = std::make_shared<SimulatedLink>(wire_, this, address, std::move(handler));
  if (stopped_) {
    link->Drop(this, nullptr, 0);
  } else {
    links_.push_back(link);
    link->Start(timeout_ns);
  }
  return MakeRef<SimulatedEnd>(std::move(link), 0);
}

bool SimulatedControlNetwork::Post(Task&& task) {
  if (stopped_) return false;
  Enqueue(std::move(task));
  return true;
}

uint64_t SimulatedControlNetwork::PostAfter(int64_t delay_ns, Task&& task) {
  if (stopped_) return 0;
  const uint64_t timer = next_timer_++;
  const int64_t lateness = wire_.Draw(0, wire_.options_.max_timer_lateness_ns);
  const int64_t delay = std::max<int64_t>(0, delay_ns);
  const uint64_t world_timer = wire_.world_.executor().PostAfter(
      delay > kNeverNs - lateness ? kNeverNs : delay + lateness,
      [node = Ref<SimulatedControlNetwork>::Retain(this), timer] { node->OnTimer(timer); });
  timers_.emplace(timer, Timer{std::move(task), world_timer});
  return timer;
}

void SimulatedControlNetwork::OnTimer(uint64_t timer) {
  auto node = timers_.extract(timer);
  if (!node.empty()) Enqueue(std::move(node.mapped().task), timer);
}

bool SimulatedControlNetwork::CancelTimer(uint64_t timer) {
  const auto waiting = timers_.extract(timer);
  if (!waiting.empty()) {
    wire_.world_.executor().CancelTimer(waiting.mapped().world_timer);
    return true;
  }
  const auto queued = std::find_if(queue_.begin(), queue_.end(), [timer](const Item& item) {
    return timer != 0 && item.timer == timer;
  });
  if (queued == queue_.end()) return false;
  const Task task = std::move(queued->task);
  queue_.erase(queued);
  return true;
}

Status SimulatedControlNetwork::Shutdown(Status reason, const CallOptions&) {
  if (!stopped_) Stop(&reason, wire_.options_.max_delay_ns);
  return OkStatus();
}

void SimulatedControlNetwork::Kill(SimulatedDeath how) {
  if (stopped_) return;
  if (how == SimulatedDeath::kSilent) {
    if (!address_.empty()) wire_.silent_addresses_.insert(address_);
    Stop(nullptr, 0);
    return;
  }
  // What a process has sent before it ends may still arrive, or be lost.
  for (const std::shared_ptr<SimulatedLink>& link : links_) {
    if (wire_.Draw(0, 1) == 0) link->Lose(this);
  }
  const Status broken = Unavailable("the connection broke");
  Stop(&broken, wire_.options_.max_break_notice_ns);
}

void SimulatedControlNetwork::Freeze(int64_t duration_ns) {
  frozen_until_ns_ = std::max(frozen_until_ns_, wire_.world_.clock().NowNs() + duration_ns);
  was_frozen_ = true;
}

void SimulatedControlNetwork::Enqueue(Task&& task, uint64_t timer) {
  if (stopped_) return;
  queue_.push_back({std::move(task), timer});
  SchedulePump();
}

void SimulatedControlNetwork::SchedulePump() {
  if (pumping_ || queue_.empty()) return;
  pumping_ = true;
  const int64_t thaw = std::max<int64_t>(0, frozen_until_ns_ - wire_.world_.clock().NowNs());
  wire_.world_.executor().PostAfter(
      thaw + wire_.Draw(0, wire_.options_.max_task_delay_ns),
      [node = Ref<SimulatedControlNetwork>::Retain(this)] { node->Pump(); });
}

void SimulatedControlNetwork::Pump() {
  if (!stopped_ && !queue_.empty() && frozen_until_ns_ <= wire_.world_.clock().NowNs()) {
    if (std::exchange(was_frozen_, false) && wire_.Draw(0, 1) == 0) {
      // Whether timers or messages come first to a process that goes on is anybody's guess.
      std::stable_partition(queue_.begin(), queue_.end(),
                            [](const Item& item) { return item.timer != 0; });
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    item.task();
  }
  pumping_ = false;
  SchedulePump();
}

void SimulatedControlNetwork::Stop(const Status* notice, int64_t most_ns) {
  if (std::exchange(stopped_, true)) return;
  wire_.nodes_.erase(this);
  if (!address_.empty()) wire_.listeners_.erase(address_);
  for (const auto& [id, timer] : timers_) {
    wire_.world_.executor().CancelTimer(timer.world_timer);
  }
  // Moved out first: what is destroyed may look back at this node.
  const std::unique_ptr<ControlAcceptor> acceptor = std::move(acceptor_);
  const std::map<uint64_t, Timer> timers = std::move(timers_);
  const std::deque<Item> queue = std::move(queue_);
  const std::vector<std::shared_ptr<SimulatedLink>> links = std::move(links_);
  for (const std::shared_ptr<SimulatedLink>& link : links) link->Drop(this, notice, most_ns);
}

}  // namespace tutti

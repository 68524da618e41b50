// What a Cluster holds, and what its member tells it. A part of cluster.h, for the files that
// implement it.

#ifndef TUTTI_CORE_CLUSTER_JOB_CLUSTER_STATE_H_
#define TUTTI_CORE_CLUSTER_JOB_CLUSTER_STATE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/control_channel.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/cluster/control/loop_connection.h"
#include "core/cluster/job/cluster.h"
#include "core/cluster/membership/coordinator.h"
#include "core/cluster/membership/member.h"
#include "core/cluster/membership/worker_info.h"
#include "core/cluster/watch/process_watch.h"

namespace tutti {

struct Cluster::State final : public Member::Observer {
  explicit State(ClusterOptions given)
      : options(std::move(given)),
        workers(options.tasks.size(), nullptr),
        arrivals(options.tasks.size(), 0),
        departures(options.tasks.size()) {}

  using Event = ClusterEvent;
  struct NoteBox {
    std::shared_ptr<NoteListener> listener;
    std::deque<Note> waiting;
    bool running = false;
    std::thread::id thread;
  };
  // Topics that nobody listens to (yet), and notes about one of them.
  static constexpr size_t kMaxBoxes = 1024;
  static constexpr size_t kMaxWaiting = 1024;
  struct Subscriber {
    Listener listener;
    size_t next = 0;  // of events
    bool running = false;
    bool removed = false;
    std::thread::id thread;
  };

  // ---- On the strand
  void OnJoined(const Welcome& welcome) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      joined = welcome;
      for (const WorkerInfo& info : welcome.workers) Keep(info);
      const auto num_workers = static_cast<int64_t>(workers.size());
      for (const MemberId& newcomer : welcome.newcomers) {
        if (newcomer.worker >= num_workers) continue;
        arrivals[static_cast<size_t>(newcomer.worker)] = newcomer.arrival;
      }
      changed.notify_all();
    }
    for (const Departure& absent : welcome.absent) OnLeft(absent.worker, absent.reason);
  }
  void OnNotJoined(Status reason) override {
    std::lock_guard<std::mutex> lock(mutex);
    not_joined = std::move(reason);
    changed.notify_all();
  }
  void OnFailed(const Status& reason) override { Happened({-1, 0, reason}); }
  void OnLeft(int64_t worker, const Status& reason) override {
    const auto index = static_cast<size_t>(worker);
    if (index >= workers.size()) return;
    uint64_t arrival = 0;
    {
      std::lock_guard<std::mutex> lock(mutex);
      arrival = arrivals[index];
    }
    Happened({worker, arrival, reason});
  }
  void OnArrived(const WorkerInfo& info, uint64_t arrival) override {
    ProcessWatch* watching = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex);
      const auto index = static_cast<size_t>(info.worker);
      Keep(info);
      arrivals[index] = arrival;
      departures[index] = OkStatus();
      watching = watch.get();
    }
    // Without a watch, its connection and heartbeats remain.
    if (watching != nullptr) watching->Add(info, arrival).rep();
  }
  void OnNote(const Note& note) override {
    std::unique_lock<std::mutex> lock(mutex);
    if (boxes.count(note.topic) == 0 && boxes.size() >= kMaxBoxes) return;
    NoteBox& box = boxes[note.topic];
    if (box.waiting.size() >= kMaxWaiting) return;
    box.waiting.push_back(note);
    Deliver(lock, note.topic);
  }
  void Deliver(std::unique_lock<std::mutex>& lock, const std::string& topic) {
    for (bool first = true;; first = false) {
      const auto it = boxes.find(topic);
      if (it == boxes.end()) break;  // removed meanwhile
      NoteBox& box = it->second;
      if (first && box.running) return;
      box.running = box.listener != nullptr && !box.waiting.empty();
      if (!box.running) break;
      box.thread = std::this_thread::get_id();
      const Note note = std::move(box.waiting.front());
      box.waiting.pop_front();
      const std::shared_ptr<NoteListener> listener = box.listener;
      lock.unlock();
      (*listener)(note.from, note.content);
      lock.lock();
    }
    changed.notify_all();
  }
  // Under the lock.
  void Keep(const WorkerInfo& info) {
    workers[static_cast<size_t>(info.worker)] = &known.emplace_back(info);
  }

  // ---- Events and their listeners
  void Happened(Event event) {
    std::unique_lock<std::mutex> lock(mutex);
    if (event.worker < 0) {
      if (has_failed.load(std::memory_order_relaxed)) return;
      failure = event.status;
      has_failed.store(true, std::memory_order_release);
    } else {
      departures[static_cast<size_t>(event.worker)] = event.status;
    }
    events.push_back(std::move(event));
    changed.notify_all();
    std::vector<std::shared_ptr<Subscriber>> all;
    for (const auto& [id, subscriber] : subscribers) all.push_back(subscriber);
    for (const std::shared_ptr<Subscriber>& one : all) Deliver(lock, *one);
  }
  // Calls the listener, without the lock, for all that it has not heard of. One thread at a time
  // does so for one listener, so that it hears in order.
  void Deliver(std::unique_lock<std::mutex>& lock, Subscriber& subscriber) {
    if (subscriber.running) return;
    subscriber.running = true;
    subscriber.thread = std::this_thread::get_id();
    while (!subscriber.removed && subscriber.next < events.size()) {
      const Event event = events[subscriber.next++];
      lock.unlock();
      subscriber.listener(event);
      lock.lock();
    }
    subscriber.running = false;
    changed.notify_all();
  }

  const ClusterOptions options;
  WorkerInfo self;
  Ref<ControlNetwork> network;
  // The strand's, from Start until the network's Shutdown.
  std::unique_ptr<LoopConnection> loop;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Member> member;
  bool started = false;

  std::atomic<bool> has_failed{false};
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::unique_ptr<ProcessWatch> watch;  // set once
  std::optional<Welcome> joined;
  Status not_joined;
  bool said_goodbye = false;
  bool closed = false;
  Status failure;
  std::deque<WorkerInfo> known;  // of all that ever had a seat
  std::vector<const WorkerInfo*> workers;
  std::vector<uint64_t> arrivals;
  std::vector<Status> departures;
  std::map<std::string, NoteBox> boxes;
  std::vector<Event> events;
  std::map<uint64_t, std::shared_ptr<Subscriber>> subscribers;
  uint64_t next_subscriber = 1;
};

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_JOB_CLUSTER_STATE_H_

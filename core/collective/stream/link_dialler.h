// LinkDialler: connects to peers on a thread of its own, so that the rank whose call needs the
// links meanwhile hears what the others say, and can be told to stop.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_DIALLER_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_DIALLER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/collective/stream/link.h"
#include "core/collective/stream/link_connector.h"

namespace tutti {

class Environment;

class LinkDialler {
 public:
  struct Outcome {
    int64_t rank = 0;
    bool wish = false;
    Result<std::unique_ptr<Link>> link;  // null for a wish
  };

  // `changed` is called on the thread when there is an outcome; it must not block.
  static Result<std::unique_ptr<LinkDialler>> Start(Environment& environment,
                                                    LinkConnector& connector,
                                                    std::function<void()> changed);
  ~LinkDialler();

  // Gives up what is under way, and joins the thread. Of a link that is as good as made the peer
  // may hold its end: it becomes an outcome still.
  void Stop();

  // Connects to the rank or, as a `wish`, asks it to connect. Nothing new where it does already,
  // or where the outcome has not been taken. A peer that cannot be reached is tried again, for half
  // a minute.
  void Dial(int64_t rank, bool wish);
  // Gives up what has not been begun, and tries nothing again. What is being tried goes on: the
  // peer may hold its end already.
  void GiveUpRest();
  std::vector<Outcome> TakeOutcomes();
  // Nothing is under way, and no outcome waits.
  bool idle() const;

 private:
  struct Target {
    int64_t rank = 0;
    bool wish = false;
    bool only_once = false;  // is not tried again
    int64_t begun_ns = 0;
    int64_t due_ns = 0;
  };

  LinkDialler(Environment& environment, LinkConnector& connector, std::function<void()> changed);
  void Work();
  bool WaitForTarget(Target* target);
  Result<std::unique_ptr<Link>> Try(const Target& target);

  Environment& environment_;
  LinkConnector& connector_;
  const std::function<void()> changed_;
  const Ref<Cancellation> stop_;
  Thread thread_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_targets_;
  std::deque<Target> targets_;  // the one that is being tried is the first
  bool trying_ = false;
  std::vector<Outcome> outcomes_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_DIALLER_H_

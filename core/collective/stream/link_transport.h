// LinkTransport: a rank that has a link to each of its peers, over which frames travel
// (link_frame.h).
//
// A call begins with a header from everybody to everybody, which carries small payloads along. Who
// has all of them knows that everybody is in the same call; only then do segments of large payloads
// follow, so that nobody is sent data that it does not read. Since each call needs everybody,
// nobody is ever two calls ahead. All sending and receiving is one loop on the thread that makes
// the call; it always reads while it writes, so that ranks which all send at once do not lock each
// other up.
//
// Large groups have too many pairs for that (link_tree.cc, link_connect.cc): there a call begins
// with a tree, over which all headers go up and the word that all have come goes down, and small
// payloads and broadcasts along with it. What needs more pairs connects those between which its
// algorithm sends then, once and for all: neighbours for a chain or a ring, a root and everybody,
// or all pairs.
//
// The first error of a rank goes to all its peers, behind what it was sending; whoever learns of an
// error passes it on. A peer may have to send something before it can read as far as the error: who
// has failed reads on, now and then, until its peers have said that they have failed too, or are no
// longer there. A link that ends without a goodbye or an error is a dead peer.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call/transport.h"
#include "core/collective/select/selector.h"
#include "core/collective/stream/link.h"
#include "core/collective/stream/link_connector.h"

namespace tutti {

class Environment;

class LinkTransport final : public Transport {
 public:
  struct Options {
    std::string name;  // of the communicator
    int64_t rank = 0;
    int64_t size = 1;
    int64_t epoch = 1;
    // Look for messages for some microseconds before sleeping: where every rank of this machine has
    // a core.
    bool spin = false;
    // "worker 1, pid 4711" by rank, for messages; may be empty.
    std::vector<std::string> descriptions;
    // The workers that the ranks are, for errors; empty: those of the ranks' numbers.
    std::vector<int64_t> workers;
    // The machine of each rank, by whatever tells machines apart; one that is empty is not known. A
    // connection between two of them may look as if it did not leave this one, as a tunnel's does.
    // Empty: none is known.
    std::vector<std::string> machines;
    // How algorithms are chosen; the same on all ranks. Null: the built-in table.
    std::shared_ptr<const SelectorTable> table;
    Locality locality = Locality::kTcp;  // kMixed where any two ranks of the group share memory
    // What messages call the ranks; empty: as they are. Not for groups with sends and receives.
    std::vector<int64_t> names;
    // How long the end of a link may be there before the news why. A rank that ends of a failure
    // says so over its links, but not where there is no room for it; in a job others tell, through
    // Fail or PeerHasLeft. 0: nobody does.
    int64_t news_ns = 0;
  };
  // For jobs. A death is told within milliseconds, or within 100 where a goodbye may be on its way.
  static constexpr int64_t kNewsNs = 300 * kMillisecondNs;

  // `links` by rank; the own one is null. Not for simulations: links are real sockets. With a
  // connector, only neighbours in the tree (link_tree.h) must have one; others get theirs at first
  // use.
  static Result<std::unique_ptr<LinkTransport>> Create(Ref<Environment> environment,
                                                       Options options,
                                                       std::vector<std::unique_ptr<Link>> links,
                                                       std::unique_ptr<LinkConnector> connector =
                                                           nullptr);
  ~LinkTransport() override;

  const char* name() const override { return name_; }
  bool is_reproducible() const override;
  const char* WhyNoRing(CollectiveOp op) const override;
  Status Execute(CollectiveCall* call) override;
  Status Fail(Status error) override;
  Status failure() const override;
  // The same, where a call is under way that the failure would be one of.
  Status FailureIn(const CollectiveCall& call) const;
  // Links that there are, or have been.
  int64_t num_links() const;
  bool ClaimFlightRecord() override;
  void Leave(Status reason) override;

  // The peer has left the job in good order, as others say: `reason`. It has nothing more to send
  // than what is on its way. That is awaited for as long as it comes; once the link has stood still
  // for `patience_ns`, the call that needs it fails: a connection whose packets are lost says
  // nothing, for ever. Never blocks.
  void PeerHasLeft(int64_t rank, Status reason, int64_t patience_ns);

 private:
  class State;
  LinkTransport(const char* name, std::shared_ptr<State> state);

  const char* const name_;
  const std::shared_ptr<State> state_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_TRANSPORT_H_

// LinkConnector: how the pairs of a group that have no link yet get one, at their first use. The
// higher rank of a pair connects to the lower; a lower one that needs the link asks the higher one
// to. What arrives waits here until the transport takes it, whatever its rank is doing.

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_CONNECTOR_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_CONNECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/status.h"
#include "core/collective/stream/link.h"

namespace tutti {

class LinkConnector {
 public:
  struct Arrivals {
    std::vector<std::pair<int64_t, std::unique_ptr<Link>>> links;  // from higher ranks
    std::vector<int64_t> asking;                                   // lower ranks
  };

  virtual ~LinkConnector() = default;

  // To a lower rank. Blocks, on any thread; UNAVAILABLE where another try may help.
  virtual Result<std::unique_ptr<Link>> Connect(int64_t rank, const CallOptions& call) = 0;
  // Makes a higher rank connect to this one, once it is in any call. Blocks like Connect.
  virtual Status Ask(int64_t rank, const CallOptions& call) = 0;
  // From now on `arrived` is called, on any thread, when there is something to take, until the
  // connector is destroyed, and perhaps once after. It must not block.
  virtual void Watch(std::function<void()> arrived) = 0;
  virtual Arrivals TakeArrivals() = 0;
  // What is said over links that come, or have come, when the connector is destroyed: the frames
  // that all peers have been told last.
  virtual void SetLastWords(std::string) {}
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_CONNECTOR_H_

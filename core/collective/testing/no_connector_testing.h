// For tests: a connector of groups whose links are all there.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_NO_CONNECTOR_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_NO_CONNECTOR_TESTING_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/error.h"
#include "core/collective/stream/link_connector.h"

namespace tutti {

class NoConnector final : public LinkConnector {
 public:
  Result<std::unique_ptr<Link>> Connect(int64_t, const CallOptions&) override {
    return InvalidArgument("there is no other rank");
  }
  Status Ask(int64_t, const CallOptions&) override {
    return InvalidArgument("there is no other rank");
  }
  void Watch(std::function<void()>) override {}
  Arrivals TakeArrivals() override { return {}; }
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_NO_CONNECTOR_TESTING_H_

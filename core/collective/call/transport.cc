#include "core/collective/call/transport.h"

#include <string>

namespace tutti {

Result<std::unique_ptr<Transport>> Transport::Split(const SplitRequest& request,
                                                    const CallOptions&) {
  return Status(StatusCode::kUnimplemented,
                "ranks over " + std::string(name()) + " alone cannot form the group " +
                    request.name);
}

}  // namespace tutti

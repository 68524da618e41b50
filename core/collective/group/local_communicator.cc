// The communicators of a group whose ranks are threads of this process.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/usable_cores.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/thread/local_family.h"
#include "core/collective/thread/local_group.h"
#include "core/collective/thread/local_transport.h"

namespace tutti {

Result<std::vector<Ref<Communicator>>> Communicator::CreateLocal(Environment* environment,
                                                                 size_t size,
                                                                 const LocalOptions& options) {
  TUTTI_RETURN_IF_ERROR(environment->CheckUsable("create communicator"));
  if (size == 0 || size > kMaxLocalSize) {
    return InvalidArgument("create communicator: size is {}; pass 1 to {} ranks", size,
                           kMaxLocalSize);
  }
  const std::string name = options.name.empty() ? "communicator" : options.name;
  const auto ranks = static_cast<int64_t>(size);
  const size_t cores = options.usable_cores != 0 ? options.usable_cores : UsableCores();
  const auto family = std::make_shared<LocalFamily>(Ref<Environment>::Retain(environment), cores,
                                                    options.table);
  const Ref<LocalGroup> group = family->Make(name, ranks, options.epoch);
  std::vector<Ref<Communicator>> communicators;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    TUTTI_ASSIGN_OR_RETURN(Ref<Communicator> communicator,
                           CreateOver(environment, name, rank, ranks, options.epoch,
                                      std::make_unique<LocalTransport>(group, rank, family)));
    communicators.push_back(std::move(communicator));
  }
  return communicators;
}

}  // namespace tutti

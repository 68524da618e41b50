// What calls of communicators share.
#ifndef TUTTI_CAPI_SRC_COMMUNICATOR_CALL_H_
#define TUTTI_CAPI_SRC_COMMUNICATOR_CALL_H_

#include <tutti/communicator.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "capi/src/guard.h"
#include "capi/src/options.h"
#include "capi/src/roots.h"
#include "core/collective/communicator/communicator.h"
#include "core/collective/communicator/future.h"

namespace tutti::capi {

// The options of a collective, with its stream.
inline Result<CollectiveOptions> ReadOrdered(Call call, const Communicator &self,
                                             const tutti_call_options *options) {
  TUTTI_ASSIGN_OR_RETURN(CollectiveOptions read,
                         ReadCollective(call, self.environment(), options));
  TUTTI_ASSIGN_OR_RETURN(const auto set, ReadOptions(call, options));
  read.stream = Ref<GpuStream>::Retain(FromHandle(set.stream));
  return read;
}

// body(communicator, options) -> Status.
template <class Body>
Status Collective(Call call, tutti_communicator *communicator, const tutti_call_options *options,
                  Body &&body) {
  Communicator &self = *FromHandle(communicator);
  TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                         ReadOrdered(call, self, options));
  return body(self, wait);
}

// body(communicator, options) -> Result<Ref<Future>>.
template <class Body>
Status AsyncCollective(Call call, tutti_communicator *communicator,
                       const tutti_call_options *options, tutti_future **out_future, Body &&body) {
  Communicator &self = *FromHandle(communicator);
  TUTTI_ASSIGN_OR_RETURN(const CollectiveOptions wait,
                         ReadOrdered(call, self, options));
  TUTTI_ASSIGN_OR_RETURN(Ref<Future> future, body(self, wait));
  *out_future = Give(std::move(future));
  return OkStatus();
}

template <class Object, class HandleType>
std::vector<Object *> TensorsOf(size_t count, HandleType *const *handles) {
  std::vector<Object *> tensors;
  for (size_t i = 0; i < count; ++i) tensors.push_back(FromHandle(handles[i]));
  return tensors;
}

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_COMMUNICATOR_CALL_H_

// Calls of communicators that return at once with a future.
#include <tutti/communicator.h>

#include <cstddef>

#include "capi/src/communicator_call.h"
#include "capi/src/guard.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_communicator_all_reduce_async(tutti_communicator *communicator,
                                                  const tutti_tensor *input, tutti_reduce_op op,
                                                  const tutti_call_options *options,
                                                  tutti_tensor *output, tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.AllReduceAsync(*FromHandle(input),
                                                        static_cast<ReduceOp>(op), wait,
                                                        FromHandle(output));
                           });
  });
}

tutti_status *tutti_communicator_all_reduce_many_async(tutti_communicator *communicator,
                                                       size_t count,
                                                       const tutti_tensor *const *inputs,
                                                       tutti_reduce_op op,
                                                       const tutti_call_options *options,
                                                       tutti_tensor *const *outputs,
                                                       tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, out_future);
    TUTTI_REQUIRE_ARRAY(call, count, inputs);
    TUTTI_REQUIRE_ARRAY(call, count, outputs);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.AllReduceAsync(TensorsOf<const Tensor>(count, inputs),
                                                        static_cast<ReduceOp>(op), wait,
                                                        TensorsOf<Tensor>(count, outputs));
                           });
  });
}

tutti_status *tutti_communicator_reduce_async(tutti_communicator *communicator,
                                              const tutti_tensor *input, tutti_reduce_op op,
                                              int64_t root, const tutti_call_options *options,
                                              tutti_tensor *output, tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.ReduceAsync(*FromHandle(input), static_cast<ReduceOp>(op),
                                                     root, wait, FromHandle(output));
                           });
  });
}

tutti_status *tutti_communicator_broadcast_async(tutti_communicator *communicator, int64_t root,
                                                 const tutti_call_options *options,
                                                 tutti_tensor *tensor, tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, tensor, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.BroadcastAsync(root, wait, FromHandle(tensor));
                           });
  });
}

tutti_status *tutti_communicator_reduce_scatter_async(tutti_communicator *communicator,
                                                      const tutti_tensor *input, tutti_reduce_op op,
                                                      const tutti_call_options *options,
                                                      tutti_tensor *output,
                                                      tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.ReduceScatterAsync(*FromHandle(input),
                                                            static_cast<ReduceOp>(op), wait,
                                                            FromHandle(output));
                           });
  });
}

tutti_status *tutti_communicator_all_gather_async(tutti_communicator *communicator,
                                                  const tutti_tensor *input,
                                                  const tutti_call_options *options,
                                                  tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.AllGatherAsync(*FromHandle(input), 0, wait);
                           });
  });
}

tutti_status *tutti_communicator_all_gather_into_async(tutti_communicator *communicator,
                                                       const tutti_tensor *input,
                                                       const tutti_call_options *options,
                                                       tutti_tensor *output,
                                                       tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.AllGatherIntoAsync(*FromHandle(input), wait,
                                                            FromHandle(output));
                           });
  });
}

tutti_status *tutti_communicator_gather_async(tutti_communicator *communicator,
                                              const tutti_tensor *input, int64_t root,
                                              const tutti_call_options *options,
                                              tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.GatherAsync(*FromHandle(input), root, 0, wait);
                           });
  });
}

tutti_status *tutti_communicator_scatter_async(tutti_communicator *communicator,
                                               const tutti_tensor *input, int64_t root,
                                               const tutti_call_options *options,
                                               tutti_tensor *output, tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, output, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.ScatterAsync(FromHandle(input), root, wait,
                                                      FromHandle(output));
                           });
  });
}

tutti_status *tutti_communicator_all_to_all_async(tutti_communicator *communicator,
                                                  const tutti_tensor *input,
                                                  const tutti_call_options *options,
                                                  tutti_tensor *output, tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.AllToAllAsync(*FromHandle(input), wait,
                                                       FromHandle(output));
                           });
  });
}

tutti_status *tutti_communicator_barrier_async(tutti_communicator *communicator,
                                               const tutti_call_options *options,
                                               tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.BarrierAsync(wait);
                           });
  });
}

tutti_status *tutti_communicator_send_async(tutti_communicator *communicator,
                                            const tutti_tensor *tensor, int64_t to,
                                            const tutti_call_options *options,
                                            tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, tensor, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.SendAsync(*FromHandle(tensor), to, wait);
                           });
  });
}

tutti_status *tutti_communicator_receive_async(tutti_communicator *communicator, int64_t from,
                                               const tutti_call_options *options,
                                               tutti_tensor *tensor, tutti_future **out_future) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, tensor, out_future);
    return AsyncCollective(call, communicator, options, out_future,
                           [&](Communicator &self, CollectiveOptions wait) {
                             return self.ReceiveAsync(from, wait, FromHandle(tensor));
                           });
  });
}

// Calls of communicators: sums, parts, transfers.
#include <tutti/communicator.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "capi/src/communicator_call.h"
#include "capi/src/guard.h"

using namespace tutti;
using namespace tutti::capi;

tutti_status *tutti_communicator_all_reduce(tutti_communicator *communicator,
                                            const tutti_tensor *input, tutti_reduce_op op,
                                            const tutti_call_options *options,
                                            tutti_tensor *output) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.AllReduce(*FromHandle(input), static_cast<ReduceOp>(op), wait,
                            FromHandle(output));
    });
  });
}

tutti_status *tutti_communicator_all_reduce_many(tutti_communicator *communicator, size_t count,
                                                 const tutti_tensor *const *inputs,
                                                 tutti_reduce_op op,
                                                 const tutti_call_options *options,
                                                 tutti_tensor *const *outputs) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator);
    TUTTI_REQUIRE_ARRAY(call, count, inputs);
    TUTTI_REQUIRE_ARRAY(call, count, outputs);
    const auto from = TensorsOf<const Tensor>(count, inputs);
    const auto to = TensorsOf<Tensor>(count, outputs);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.AllReduce(from, static_cast<ReduceOp>(op), wait, to);
    });
  });
}

tutti_status *tutti_communicator_reduce(tutti_communicator *communicator,
                                        const tutti_tensor *input, tutti_reduce_op op,
                                        int64_t root, const tutti_call_options *options,
                                        tutti_tensor *output) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.Reduce(*FromHandle(input), static_cast<ReduceOp>(op), root, wait,
                         FromHandle(output));
    });
  });
}

tutti_status *tutti_communicator_reduce_scatter(tutti_communicator *communicator,
                                                const tutti_tensor *input, tutti_reduce_op op,
                                                const tutti_call_options *options,
                                                tutti_tensor *output) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.ReduceScatter(*FromHandle(input), static_cast<ReduceOp>(op), wait,
                                FromHandle(output));
    });
  });
}

tutti_status *tutti_communicator_broadcast(tutti_communicator *communicator, int64_t root,
                                           const tutti_call_options *options,
                                           tutti_tensor *tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, tensor);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.Broadcast(root, wait, FromHandle(tensor));
    });
  });
}

tutti_status *tutti_communicator_all_gather(tutti_communicator *communicator,
                                            const tutti_tensor *input,
                                            const tutti_call_options *options,
                                            tutti_tensor **out_tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, out_tensor);
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(Collective(
        call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
          return self.AllGather(*FromHandle(input), 0, wait, &joined);
        }));
    *out_tensor = Give(std::move(joined));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_all_gather_into(tutti_communicator *communicator,
                                                 const tutti_tensor *input,
                                                 const tutti_call_options *options,
                                                 tutti_tensor *output) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.AllGatherInto(*FromHandle(input), wait, FromHandle(output));
    });
  });
}

tutti_status *tutti_communicator_gather(tutti_communicator *communicator,
                                        const tutti_tensor *input, int64_t root,
                                        const tutti_call_options *options,
                                        tutti_tensor **out_tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, out_tensor);
    Ref<Tensor> joined;
    TUTTI_RETURN_IF_ERROR(Collective(
        call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
          return self.Gather(*FromHandle(input), root, 0, wait, &joined);
        }));
    *out_tensor = Give(std::move(joined));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_scatter(tutti_communicator *communicator,
                                         const tutti_tensor *input, int64_t root,
                                         const tutti_call_options *options, tutti_tensor *output) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, output);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.Scatter(FromHandle(input), root, wait, FromHandle(output));
    });
  });
}

tutti_status *tutti_communicator_all_to_all(tutti_communicator *communicator,
                                            const tutti_tensor *input,
                                            const tutti_call_options *options,
                                            tutti_tensor *output) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, output);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.AllToAll(*FromHandle(input), wait, FromHandle(output));
    });
  });
}

tutti_status *tutti_communicator_all_to_all_uneven(tutti_communicator *communicator,
                                                   const tutti_tensor *input, size_t num_ranks,
                                                   const int64_t *send_rows,
                                                   const tutti_call_options *options,
                                                   int64_t *received_rows,
                                                   tutti_tensor **out_tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, input, out_tensor);
    TUTTI_REQUIRE_ARRAY(call, num_ranks, send_rows);
    Ref<Tensor> joined;
    std::vector<int64_t> rows;
    TUTTI_RETURN_IF_ERROR(Collective(
        call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
          return self.AllToAllUneven(*FromHandle(input), std::span(send_rows, num_ranks), wait,
                                     &joined, &rows);
        }));
    if (received_rows != nullptr) std::copy(rows.begin(), rows.end(), received_rows);
    *out_tensor = Give(std::move(joined));
    return OkStatus();
  });
}

tutti_status *tutti_communicator_send(tutti_communicator *communicator, const tutti_tensor *tensor,
                                      int64_t to, const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, tensor);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.Send(*FromHandle(tensor), to, wait);
    });
  });
}

tutti_status *tutti_communicator_receive(tutti_communicator *communicator, int64_t from,
                                         const tutti_call_options *options, tutti_tensor *tensor) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator, tensor);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.Receive(from, wait, FromHandle(tensor));
    });
  });
}

tutti_status *tutti_communicator_barrier(tutti_communicator *communicator,
                                         const tutti_call_options *options) {
  return Guard(__func__, From::kComputing, [&](Call call) -> Status {
    TUTTI_REQUIRE_ANYWHERE(call, communicator);
    return Collective(call, communicator, options, [&](Communicator &self, CollectiveOptions wait) {
      return self.Barrier(wait);
    });
  });
}

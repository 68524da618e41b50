// Transport: one rank's way to its peers. It executes calls that are checked and whose tensors are
// contiguous, and knows the group's membership: who has arrived, failed, left.
//
// The communicator above it checks arguments, counts calls, stages strided tensors and records;
// below it a transport decides how bytes move. Whatever the transport, results have the same bits.

#ifndef TUTTI_CORE_COLLECTIVE_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_TRANSPORT_H_

#include <cstdint>
#include <span>

#include "core/base/call_options.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/call_header.h"
#include "core/tensor/tensor.h"

namespace tutti {

// Memory of one tensor of a call: num_elements of the header's signature, row-major.
struct CollectiveMemory {
  const void* input = nullptr;
  void* output = nullptr;  // equal to `input`, or apart from it
};

// One call of one rank. Everything it points to is used until Execute returns, and not longer, not
// even by peers.
struct CollectiveCall {
  CallHeader header;
  int64_t sequence = 0;
  CallOptions options;
  std::span<const CollectiveMemory> memory;  // all_reduce, broadcast: one per tensor
  const Tensor* gather_input = nullptr;      // all_gather
  Ref<Tensor> gathered;                      // all_gather: the result
};

class Transport {
 public:
  virtual ~Transport() = default;

  // How ranks reach each other: "in_process", "shared_memory", "tcp", "mixed"; static.
  virtual const char* name() const = 0;

  // Runs the call with the peers; the first error of any rank ends the epoch for all.
  virtual Status Execute(CollectiveCall* call) = 0;

  // Ends the epoch with `error`, unless it has ended; gives the error that ended it. Wakes every
  // rank and never blocks.
  virtual Status Fail(Status error) = 0;
  // The error that ended the epoch, or OK.
  virtual Status failure() const = 0;

  // True for one caller in this process and epoch: the one that writes the flight record.
  virtual bool ClaimFlightRecord() = 0;

  // This rank makes no more calls: a peer that needs it fails the epoch with the code of `reason`,
  // whose message goes on after "needs rank 1: ". Wakes every rank and never blocks.
  virtual void Leave(Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TRANSPORT_H_

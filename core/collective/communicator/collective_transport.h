// How the workers of a job may exchange tensors: the setting "transport".

#ifndef TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COLLECTIVE_TRANSPORT_H_
#define TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COLLECTIVE_TRANSPORT_H_

#include <cstdint>

namespace tutti {

enum class CollectiveTransport : int32_t {
  kAuto = 0,          // shared memory within a machine where it works, TCP elsewhere
  kSharedMemory = 1,  // shared memory or an error
  kTcp = 2,           // TCP even within a machine
};

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_COMMUNICATOR_COLLECTIVE_TRANSPORT_H_

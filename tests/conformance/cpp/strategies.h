// Strategies over logical CPUs: of one worker, and of several, each of which is a runtime of its
// own on a thread of its own in this process. They meet through the loopback interface.
#ifndef TESTS_CONFORMANCE_CPP_STRATEGIES_H_
#define TESTS_CONFORMANCE_CPP_STRATEGIES_H_

#include <cstddef>
#include <functional>

#include "handles.h"
#include "json_values.h"

namespace conformance {

// The runtime that this thread makes its datasets and functions with; NULL is the default one.
tutti_runtime *CurrentRuntime();

Strategy Mirrored(size_t replicas);

// Calls `body` once per worker, concurrently, with its strategy and its number; throws what the
// first worker that fails throws.
using WorkerBody = std::function<void(const Strategy &strategy, size_t worker)>;
void RunWorkers(size_t workers, size_t replicas, const WorkerBody &body);

// Compares what the replicas hold with a list of one expected value each.
void CompareLocal(const Json &expected, const Strategy &strategy, const Value &value);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CPP_STRATEGIES_H_

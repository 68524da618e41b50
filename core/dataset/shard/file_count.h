// How many files the elements of a graph name: what auto-sharding has to know before anything is
// read.
#ifndef TUTTI_CORE_DATASET_SHARD_FILE_COUNT_H_
#define TUTTI_CORE_DATASET_SHARD_FILE_COUNT_H_

#include <cstdint>
#include <optional>

#include "core/base/call_options.h"
#include "core/base/status.h"

namespace tutti {

class Dataset;
class Node;

// Whether each element of `names` is known to be one name (bytes[]).
bool HoldsOneName(const Node& names);

// The elements of `node`, counted as below.
Result<std::optional<int64_t>> CountElements(const Dataset& dataset, const Node& node,
                                             const CallOptions& call);

// The names in the elements of `names`, a node of `dataset`. Computes them, but without calling
// functions of the user; none where that is impossible, and for more names than anybody has files.
// An error of computing them (no file matches) is returned.
Result<std::optional<int64_t>> CountFileNames(const Dataset& dataset, const Node& names,
                                              const CallOptions& call);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_SHARD_FILE_COUNT_H_

// The datasets of the shards of a snapshot (snapshot_shard_op.cc).
#ifndef TUTTI_CORE_DATASET_OPS_SNAPSHOT_SHARD_H_
#define TUTTI_CORE_DATASET_OPS_SNAPSHOT_SHARD_H_

#include <string>

#include "core/base/ref.h"
#include "core/dataset/ops/snapshot_files.h"
#include "core/tensor/value.h"

namespace tutti {

// The attribute "value" of a snapshot_shard node: (path, spec, [number, rows, checksum]). `spec` is
// that of its rows as the snapshot's index has it, and may be empty.
Ref<Value> ValueOfSnapshotShard(const SnapshotShard& shard, const std::string& spec);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_SNAPSHOT_SHARD_H_

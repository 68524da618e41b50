// The ops of this room; each is defined in <name>_op.cc beside its stage. Those that the C
// interface has by convention are listed by the build; those of record files are declared in
// headers of their own.
#ifndef TUTTI_CORE_DATASET_OPS_BUILTIN_OPS_H_
#define TUTTI_CORE_DATASET_OPS_BUILTIN_OPS_H_

#include "core/dataset/graph/node.h"

namespace tutti {

#include "generated/core/dataset/plain_ops.inc"

extern const OpTraits kAfterWritesOp;
extern const OpTraits kChooseFromDatasetsOp;
extern const OpTraits kFromElementsOp;
extern const OpTraits kFromTensorSlicesOp;
extern const OpTraits kFromGeneratorOp;
extern const OpTraits kSampleFromDatasetsOp;
extern const OpTraits kShardNamesOp;
extern const OpTraits kSnapshotShardOp;
extern const OpTraits kZipOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_BUILTIN_OPS_H_

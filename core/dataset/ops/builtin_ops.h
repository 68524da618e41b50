// The ops of this room; each is defined in <name>_op.cc beside its maker and its stage. Those of
// record files are declared in headers of their own.
#ifndef TUTTI_CORE_DATASET_OPS_BUILTIN_OPS_H_
#define TUTTI_CORE_DATASET_OPS_BUILTIN_OPS_H_

#include "core/dataset/graph/node.h"

namespace tutti {

extern const OpTraits kRangeOp;
extern const OpTraits kFromTensorsOp;
extern const OpTraits kFromTensorSlicesOp;
extern const OpTraits kFromGeneratorOp;
extern const OpTraits kMapOp;
extern const OpTraits kFilterOp;
extern const OpTraits kTakeWhileOp;
extern const OpTraits kUniqueOp;
extern const OpTraits kCacheOp;
extern const OpTraits kBatchOp;
extern const OpTraits kRepeatOp;
extern const OpTraits kShuffleOp;
extern const OpTraits kTakeOp;
extern const OpTraits kSkipOp;
extern const OpTraits kShardOp;
extern const OpTraits kShardNamesOp;
extern const OpTraits kZipOp;
extern const OpTraits kConcatenateOp;
extern const OpTraits kEnumerateOp;
extern const OpTraits kPrefetchOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_OPS_BUILTIN_OPS_H_

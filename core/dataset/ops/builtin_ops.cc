#include "core/dataset/ops/builtin_ops.h"

#include <cassert>

#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/records/fixed_length_record.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/tf_record.h"

namespace tutti {

void AddBuiltinOps(OpRegistry* ops) {
  for (const OpTraits* op : {&kRangeOp, &kFromTensorsOp, &kFromTensorSlicesOp, &kFromGeneratorOp,
                             &kListFilesOp, &kTfRecordOp, &kFixedLengthRecordOp, &kMapOp,
                             &kFilterOp, &kBatchOp, &kRepeatOp, &kShuffleOp, &kTakeOp, &kSkipOp,
                             &kShardOp, &kShardNamesOp, &kZipOp, &kConcatenateOp, &kEnumerateOp,
                             &kPrefetchOp, &kTakeWhileOp, &kUniqueOp, &kCacheOp}) {
    [[maybe_unused]] const Status added = ops->Add(*op);
    assert(added.ok());
  }
}

}  // namespace tutti

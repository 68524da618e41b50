#include "core/dataset/ops/builtin_ops.h"

#include <cassert>

#include "core/dataset/expression/dataset_function.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/records/fixed_length_record.h"
#include "core/dataset/records/list_files.h"
#include "core/dataset/records/sql.h"
#include "core/dataset/records/text_line.h"
#include "core/dataset/records/tf_record.h"

namespace tutti {

void AddBuiltinOps(OpRegistry* ops) {
  const auto add = [ops](const OpTraits* op) {
    [[maybe_unused]] const Status added = ops->Add(*op);
    assert(added.ok());
  };
  for (const OpTraits* op : kPlainOps) add(op);
  for (const OpTraits* op : {&kFromElementsOp, &kFromTensorSlicesOp, &kFromGeneratorOp,
                             &kListFilesOp, &kTfRecordOp, &kFixedLengthRecordOp, &kTextLineOp,
                             &kSqlOp, &kShardNamesOp, &kZipOp, &kSnapshotShardOp,
                             &kAfterWritesOp, &kChooseFromDatasetsOp,
                             &kSampleFromDatasetsOp, &kTracedSourceOp, &kTracedCountOp}) {
    add(op);
  }
}

}  // namespace tutti

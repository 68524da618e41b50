// The row-by-row model (row_model.h) of whole pipelines.
#ifndef TUTTI_CORE_DATASET_TESTING_ROW_MODEL_PIPELINE_H_
#define TUTTI_CORE_DATASET_TESTING_ROW_MODEL_PIPELINE_H_

#include <memory>

#include "core/dataset/testing/row_model.h"
#include "core/dataset/testing/row_model_groups.h"
#include "core/dataset/testing/row_model_mixtures.h"
#include "core/dataset/testing/row_model_rows.h"
#include "core/dataset/testing/row_model_stores.h"

namespace tutti {

inline std::unique_ptr<Model> Model::Make(const Step& step, Shared* shared) {
  switch (step.op) {
    case Step::Op::kRange:
    case Step::Op::kSlices:
    case Step::Op::kGenerator:
      return std::make_unique<ModelSource>(step, shared);
    case Step::Op::kGroupByWindow:
      return std::make_unique<ModelGroupByWindow>(step, shared);
    case Step::Op::kMap:
      return std::make_unique<ModelMap>(step, shared);
    case Step::Op::kFilter:
    case Step::Op::kTakeWhile:
      return std::make_unique<ModelFilter>(step, shared);
    case Step::Op::kBatch:
    case Step::Op::kPaddedBatch:
      return std::make_unique<ModelBatch>(step, shared);
    case Step::Op::kRepeat:
      return std::make_unique<ModelRepeat>(step, shared);
    case Step::Op::kShuffle:
      return std::make_unique<ModelShuffle>(step, shared);
    case Step::Op::kUnbatch:
      return std::make_unique<ModelUnbatch>(step, shared);
    case Step::Op::kWindow:
      return std::make_unique<ModelWindow>(step, shared);
    case Step::Op::kTake:
      return std::make_unique<ModelTake>(step, shared);
    case Step::Op::kSkip:
      return std::make_unique<ModelSkip>(step, shared);
    case Step::Op::kShard:
      return std::make_unique<ModelShard>(step, shared);
    case Step::Op::kConcatenate:
      return std::make_unique<ModelConcatenate>(step, shared);
    case Step::Op::kEnumerate:
      return std::make_unique<ModelEnumerate>(step, shared);
    case Step::Op::kPrefetch:
      return std::make_unique<ModelPrefetch>(step, shared);
    case Step::Op::kZip:
      return std::make_unique<ModelZip>(step, shared);
    case Step::Op::kUnique:
      return std::make_unique<ModelUnique>(step, shared);
    case Step::Op::kOnError:
      return std::make_unique<ModelOnError>(step, shared);
    case Step::Op::kCache:
      return std::make_unique<ModelCache>(step, shared);
    case Step::Op::kSnapshot:
      return std::make_unique<ModelSnapshot>(step, shared);
    case Step::Op::kFlatMap:
    case Step::Op::kInterleave:
      return std::make_unique<ModelInterleave>(step, shared);
    case Step::Op::kSample:
      if (step.c != 2) return std::make_unique<ModelSample>(step, shared);
      [[fallthrough]];
    case Step::Op::kChoose:
      return std::make_unique<ModelChoose>(step, shared);
    case Step::Op::kBuckets:
      return std::make_unique<ModelBuckets>(step, shared);
    case Step::Op::kAssertCardinality:
      return std::make_unique<ModelAssertCardinality>(step, shared);
  }
  return nullptr;
}


}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_ROW_MODEL_PIPELINE_H_

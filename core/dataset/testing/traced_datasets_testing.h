// Functions that give datasets and run without the host, as traces of them make them: of an int64
// x, datasets of placeholders, whose functions have captured x.
#ifndef TUTTI_CORE_DATASET_TESTING_TRACED_DATASETS_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_TRACED_DATASETS_TESTING_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/ref.h"
#include "core/dataset/expression/dataset_function.h"
#include "core/dataset/expression/expression.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/dataset.h"
#include "core/function/function.h"
#include "core/tensor/element_spec.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tree_spec.h"

namespace tutti {

// One that is put together, of an int64.
struct TracedNumber {
  Ref<Expression> trace =
      Expression::Create(ElementSpec::OfTensor(DType::kInt64, PartialShape::Scalar())).value();
  int64_t x = trace->Parameter(0).value();

  int64_t Number(int64_t number) const {
    return trace->Constant(Tensor::Scalar(number), true).value();
  }
  int64_t Of(std::string_view operation, int64_t a, int64_t b) const {
    return trace->Apply(operation, {{a, b}}, {}).value();
  }
  Ref<Function> Gives(int64_t node) const {
    return MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {{node}})
        .value();
  }
  // 0, 1, ... x - 1.
  Ref<Dataset> Range(const Ref<DatasetEnvironment>& environment) const {
    const int64_t zero = trace->Constant(Tensor::Scalar<int64_t>(0), false).value();
    const int64_t one = trace->Constant(Tensor::Scalar<int64_t>(1), false).value();
    const TreeSpec::Children three(3, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
    return MakeTracedSource(environment, trace.get(), "range", TreeSpec::Tuple(three),
                            std::vector<int64_t>{zero, x, one})
        .value();
  }
};

// Of x the numbers 10 y + x, for each y below it.
inline Ref<Function> TracedSums(const Ref<DatasetEnvironment>& environment) {
  const TracedNumber outer;
  const TracedNumber inner;
  const int64_t x = inner.trace->Capture(outer.trace, outer.x).value();
  const int64_t sum = inner.Of("add", inner.Of("multiply", inner.x, inner.Number(10)), x);
  const Ref<Dataset> dataset = outer.Range(environment)->Map(inner.Gives(sum)).value();
  return MakeDatasetFunction(outer.trace, *dataset).value();
}

// Of x the pair (x, x + 1), so often.
inline Ref<Function> TracedRepeats(const Ref<DatasetEnvironment>& environment) {
  const TracedNumber outer;
  const TreeSpec::Children two(2, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()));
  const int64_t next = outer.Of("add", outer.x, outer.Number(1));
  const Ref<Dataset> pair =
      MakeTracedSource(environment, outer.trace.get(), "from_tensors", TreeSpec::Tuple(two),
                       std::vector<int64_t>{outer.x, next})
          .value();
  const Ref<Dataset> repeated =
      MakeTracedCount(*pair, outer.trace.get(), "repeat", outer.x).value();
  return MakeDatasetFunction(outer.trace, *repeated).value();
}

// Of a window the batches of so many.
inline Ref<Function> TracedBatches(const Dataset& windows, int64_t size) {
  const Ref<Expression> trace = Expression::Create(windows.promised_spec()).value();
  const int64_t window = trace->Parameter(0).value();
  const Ref<Dataset> elements =
      MakeTracedSource(windows.environment(), trace.get(), "element",
                       Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()), {&window, 1})
          .value();
  return MakeDatasetFunction(trace, *elements->Batch(size).value()).value();
}

// Of x, of each y below it, of each z below that: 100 x + 10 y + z.
inline Ref<Function> TracedTwice(const Ref<DatasetEnvironment>& environment) {
  const TracedNumber outer;
  const TracedNumber middle;
  const TracedNumber inner;
  const int64_t x_in_middle = middle.trace->Capture(outer.trace, outer.x).value();
  const int64_t x = inner.trace->Capture(middle.trace, x_in_middle).value();
  const int64_t y = inner.trace->Capture(middle.trace, middle.x).value();
  const int64_t tens = inner.Of("add", inner.Of("multiply", x, inner.Number(10)), y);
  const int64_t sum = inner.Of("add", inner.Of("multiply", tens, inner.Number(10)), inner.x);
  const Ref<Dataset> innermost = middle.Range(environment)->Map(inner.Gives(sum)).value();
  const Ref<Function> of_y = MakeDatasetFunction(middle.trace, *innermost).value();
  const Ref<Dataset> dataset = outer.Range(environment)->FlatMap(of_y).value();
  return MakeDatasetFunction(outer.trace, *dataset).value();
}

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_TRACED_DATASETS_TESTING_H_

#include "core/debugging/numerics_observer.h"

#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/debugging/first_failure.h"

namespace tutti {

Status NumericsObserver::Observe(const TensorSighting& sighting, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if ((!IsFloating(dtype) && !IsComplex(dtype)) || !tensor.device().is_cpu()) return OkStatus();
  const int64_t first = FirstNotFinite(tensor);
  if (first == kNothingFails) return OkStatus();
  const NumericsCounts counts = CountNotFinite(tensor);
  std::string where(sighting.name);
  if (sighting.replica >= 0) where += Format(" of replica {}", sighting.replica);
  const int64_t step = ObservedStep();
  if (step >= 0) where += Format(" in step {}", step);
  Status status =
      InvalidArgument(
          "{}: {}, {}, is not finite: the first of {} NaN, {} +Inf and {} -Inf among {} elements "
          "is {} at {}",
          sighting.op, where, tensor.SpecString(), counts.nan, counts.positive_infinity,
          counts.negative_infinity, tensor.num_elements(),
          ElementText(tensor, tensor.shape(), first), IndexText(tensor.shape(), first))
          .With("op", sighting.op)
          .With("assertion", "check_numerics")
          .With("index", first)
          .With("nan", counts.nan)
          .With("positive_infinity", counts.positive_infinity)
          .With("negative_infinity", counts.negative_infinity);
  if (sighting.replica >= 0) status = std::move(status).With("replica", sighting.replica);
  if (step >= 0) status = std::move(status).With("step", step);
  return status;
}

}  // namespace tutti

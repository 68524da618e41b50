// OpenShapeSink: what a SaveSink (saveable.h) may be, too, to hear which sizes of a tensor that was
// put are open: what is restored in its place fits that shape.

#ifndef TUTTI_CORE_TENSOR_OPEN_SHAPE_SINK_H_
#define TUTTI_CORE_TENSOR_OPEN_SHAPE_SINK_H_

#include <string_view>

#include "core/tensor/shape.h"

namespace tutti {

class OpenShapeSink {
 public:
  virtual ~OpenShapeSink() = default;
  // `name` is one that PutTensor has taken.
  virtual void PutOpenShape(std::string_view name, const PartialShape& shape) = 0;
};

}  // namespace tutti

#endif  // TUTTI_CORE_TENSOR_OPEN_SHAPE_SINK_H_

// DatasetEnvironment: what datasets of one runtime share: its environment, the ops it knows, and
// the functions that have names in it. The runtime makes one; rooms above add their ops to it.
#ifndef TUTTI_CORE_DATASET_GRAPH_DATASET_ENVIRONMENT_H_
#define TUTTI_CORE_DATASET_GRAPH_DATASET_ENVIRONMENT_H_

#include "core/base/environment.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/dataset/graph/node.h"

namespace tutti {

class FunctionRegistry;

class DatasetEnvironment final : public RefCounted {
 public:
  // With the ops of this room, and the kinds of native functions that it brings. `functions` may be
  // null: then no function has a name.
  static Ref<DatasetEnvironment> Create(Ref<Environment> environment,
                                        Ref<FunctionRegistry> functions);

  Environment& environment() const { return *environment_; }
  const Ref<Environment>& environment_ref() const { return environment_; }
  OpRegistry& ops() { return ops_; }
  FunctionRegistry* functions() const { return functions_.get(); }
  const Ref<FunctionRegistry>& functions_ref() const { return functions_; }

 private:
  template <typename T, typename... Args>
  friend Ref<T> MakeRef(Args&&... args);
  DatasetEnvironment(Ref<Environment> environment, Ref<FunctionRegistry> functions);
  ~DatasetEnvironment() override;

  const Ref<Environment> environment_;
  const Ref<FunctionRegistry> functions_;
  OpRegistry ops_;
};

// Adds range, map, batch ... (builtin_ops.cc lists them).
void AddBuiltinOps(OpRegistry* ops);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_DATASET_ENVIRONMENT_H_

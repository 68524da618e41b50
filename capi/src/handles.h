// Handles: a C handle *is* a pointer to a core object. Each opaque type of tutti/abi.h stands for
// one class; this file is the only place that casts between the two.
//
//   const Tensor *tensor = FromHandle(c_tensor);        // borrowed, NULL stays NULL
//   *out_tensor = Give(std::move(tensor_ref));          // the reference is the caller's now
//   return Lend(value->leaf(0).tensor());               // borrowed by the caller
#ifndef TUTTI_CAPI_SRC_HANDLES_H_
#define TUTTI_CAPI_SRC_HANDLES_H_

#include <tutti/abi.h>

#include <type_traits>
#include <utility>

#include "core/base/ref.h"

namespace tutti {

class BucketPlan;
class Cancellation;
class Checkpoint;
class CheckpointManager;
class Cluster;
class ClusterResolver;
class Communicator;
class Context;
class CrossDeviceOps;
class Dataset;
class DistributedDataset;
class DistributedIterator;
class ElementSpec;
class Environment;
class Expression;
class Function;
class Future;
class GpuEvent;
class GpuStream;
class Iterator;
class StatsAggregator;
class StatusRep;
class Strategy;
class Tensor;
class TfRecordWriter;
class TreeSpec;
class Value;
class Variable;

namespace capi {

class Bytes;
class ClusterSpecHandle;
class DataOptionsHandle;
class DeviceSpecHandle;

}  // namespace capi
}  // namespace tutti

namespace tutti::capi {

#define TUTTI_DEFINE_HANDLE_(handle, object)                                                       \
  inline object *FromHandle(handle *h) { return reinterpret_cast<object *>(h); }                   \
  inline const object *FromHandle(const handle *h) { return reinterpret_cast<const object *>(h); } \
  inline handle *ToHandle(object *o) { return reinterpret_cast<handle *>(o); }                     \
  inline const handle *ToHandle(const object *o) { return reinterpret_cast<const handle *>(o); }

TUTTI_DEFINE_HANDLE_(tutti_bucket_plan, BucketPlan)
TUTTI_DEFINE_HANDLE_(tutti_bytes, Bytes)
TUTTI_DEFINE_HANDLE_(tutti_cancellation, Cancellation)
TUTTI_DEFINE_HANDLE_(tutti_checkpoint, Checkpoint)
TUTTI_DEFINE_HANDLE_(tutti_checkpoint_manager, CheckpointManager)
TUTTI_DEFINE_HANDLE_(tutti_cluster, Cluster)
TUTTI_DEFINE_HANDLE_(tutti_cluster_resolver, ClusterResolver)
TUTTI_DEFINE_HANDLE_(tutti_cluster_spec, ClusterSpecHandle)
TUTTI_DEFINE_HANDLE_(tutti_communicator, Communicator)
TUTTI_DEFINE_HANDLE_(tutti_context, Context)
TUTTI_DEFINE_HANDLE_(tutti_data_options, DataOptionsHandle)
TUTTI_DEFINE_HANDLE_(tutti_dataset, Dataset)
TUTTI_DEFINE_HANDLE_(tutti_device_spec, DeviceSpecHandle)
TUTTI_DEFINE_HANDLE_(tutti_distributed_dataset, DistributedDataset)
TUTTI_DEFINE_HANDLE_(tutti_distributed_iterator, DistributedIterator)
TUTTI_DEFINE_HANDLE_(tutti_event, GpuEvent)
TUTTI_DEFINE_HANDLE_(tutti_expression, Expression)
TUTTI_DEFINE_HANDLE_(tutti_function, Function)
TUTTI_DEFINE_HANDLE_(tutti_future, Future)
TUTTI_DEFINE_HANDLE_(tutti_iterator, Iterator)
TUTTI_DEFINE_HANDLE_(tutti_reducer, CrossDeviceOps)
TUTTI_DEFINE_HANDLE_(tutti_runtime, Environment)
TUTTI_DEFINE_HANDLE_(tutti_spec, ElementSpec)
TUTTI_DEFINE_HANDLE_(tutti_stats_aggregator, StatsAggregator)
TUTTI_DEFINE_HANDLE_(tutti_status, StatusRep)
TUTTI_DEFINE_HANDLE_(tutti_strategy, Strategy)
TUTTI_DEFINE_HANDLE_(tutti_stream, GpuStream)
TUTTI_DEFINE_HANDLE_(tutti_tensor, Tensor)
TUTTI_DEFINE_HANDLE_(tutti_tf_record_writer, TfRecordWriter)
TUTTI_DEFINE_HANDLE_(tutti_treespec, TreeSpec)
TUTTI_DEFINE_HANDLE_(tutti_value, Value)
TUTTI_DEFINE_HANDLE_(tutti_variable, Variable)

#undef TUTTI_DEFINE_HANDLE_

// Gives a reference to the caller. C has one type for const and other objects; what is immutable is
// so by its functions.
template <class T>
auto *Give(Ref<T> ref) {
  return ToHandle(const_cast<std::remove_const_t<T> *>(ref.release()));
}

template <class Handle>
void RetainHandle(const Handle *handle) {
  if (handle != nullptr) FromHandle(handle)->Retain();
}

template <class Handle>
void ReleaseHandle(const Handle *handle) {
  if (handle != nullptr) FromHandle(handle)->Release();
}

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_HANDLES_H_

/* One interface for every language: the handles, and the functions of the facade. What is special
 * to a language stands in its own typemap file, which comes first. */
%module native

#ifdef SWIGPYTHON
%nothread;
#endif

%{
#include <tutti/tutti.h>

#include <cstdint>
#include <vector>
%}

%include <stdint.i>

#ifdef SWIGJAVA
%include "java/java.i"
#endif
#ifdef SWIGGO
%include "go/go.i"
#endif

/* ---- handles: opaque, released with the object of the host language */

#ifndef TUTTI_HANDLE
%define TUTTI_HANDLE(NAME)
%nodefaultctor NAME;
struct NAME {};
%extend NAME {
  ~NAME() { NAME##_release($self); }
}
%enddef
#endif
TUTTI_HANDLE(tutti_runtime)
TUTTI_HANDLE(tutti_device_spec)
TUTTI_HANDLE(tutti_tensor)
TUTTI_HANDLE(tutti_value)
TUTTI_HANDLE(tutti_future)
TUTTI_HANDLE(tutti_function)
TUTTI_HANDLE(tutti_dataset)
TUTTI_HANDLE(tutti_data_options)
TUTTI_HANDLE(tutti_iterator)
TUTTI_HANDLE(tutti_tf_record_writer)
TUTTI_HANDLE(tutti_strategy)
TUTTI_HANDLE(tutti_variable)
TUTTI_HANDLE(tutti_distributed_dataset)
TUTTI_HANDLE(tutti_distributed_iterator)
TUTTI_HANDLE(tutti_communicator)
TUTTI_HANDLE(tutti_bucket_plan)
TUTTI_HANDLE(tutti_cluster_spec)
TUTTI_HANDLE(tutti_cluster_resolver)
TUTTI_HANDLE(tutti_cluster)
TUTTI_HANDLE(tutti_checkpoint)
TUTTI_HANDLE(tutti_checkpoint_manager)

/* What the facade names of the C interface. */
typedef int32_t tutti_tristate;
typedef uintptr_t tutti_host_handle;

/* ---- blocking functions: the host's own lock is given up while they run */

#ifdef SWIGPYTHON
%define TUTTI_BLOCKING(NAME)
%thread tutti_facade::NAME;
%enddef
TUTTI_BLOCKING(runtime_create)
TUTTI_BLOCKING(runtime_shutdown)
TUTTI_BLOCKING(runtime_set_log_sink)
TUTTI_BLOCKING(future_wait)
TUTTI_BLOCKING(dataset_element_spec)
TUTTI_BLOCKING(iterator_create)
TUTTI_BLOCKING(iterator_next)
TUTTI_BLOCKING(iterator_next_optional)
TUTTI_BLOCKING(iterator_save)
TUTTI_BLOCKING(iterator_restore)
TUTTI_BLOCKING(iterator_close)
TUTTI_BLOCKING(record_writer_create)
TUTTI_BLOCKING(record_writer_write)
TUTTI_BLOCKING(record_writer_write_dataset)
TUTTI_BLOCKING(record_writer_close)
TUTTI_BLOCKING(strategy_one_device)
TUTTI_BLOCKING(strategy_mirrored)
TUTTI_BLOCKING(strategy_multi_worker_mirrored)
TUTTI_BLOCKING(strategy_run)
TUTTI_BLOCKING(strategy_reduce)
TUTTI_BLOCKING(strategy_gather)
TUTTI_BLOCKING(strategy_create_values)
TUTTI_BLOCKING(strategy_close)
TUTTI_BLOCKING(context_all_reduce)
TUTTI_BLOCKING(context_all_gather)
TUTTI_BLOCKING(context_merge_call)
TUTTI_BLOCKING(variable_create)
TUTTI_BLOCKING(variable_read)
TUTTI_BLOCKING(variable_assign)
TUTTI_BLOCKING(variable_assign_add)
TUTTI_BLOCKING(variable_assign_sub)
TUTTI_BLOCKING(variable_to_string)
TUTTI_BLOCKING(strategy_distribute_dataset)
TUTTI_BLOCKING(strategy_distribute_datasets_from_function)
TUTTI_BLOCKING(distributed_iterator_create)
TUTTI_BLOCKING(distributed_iterator_next)
TUTTI_BLOCKING(distributed_iterator_next_optional)
TUTTI_BLOCKING(distributed_iterator_save)
TUTTI_BLOCKING(distributed_iterator_restore)
TUTTI_BLOCKING(distributed_iterator_close)
TUTTI_BLOCKING(cluster_join)
TUTTI_BLOCKING(cluster_close)
TUTTI_BLOCKING(communicator_create)
TUTTI_BLOCKING(communicator_split)
TUTTI_BLOCKING(communicator_all_reduce)
TUTTI_BLOCKING(communicator_all_reduce_many)
TUTTI_BLOCKING(communicator_reduce)
TUTTI_BLOCKING(communicator_broadcast)
TUTTI_BLOCKING(communicator_reduce_scatter)
TUTTI_BLOCKING(communicator_all_gather)
TUTTI_BLOCKING(communicator_all_gather_into)
TUTTI_BLOCKING(communicator_gather)
TUTTI_BLOCKING(communicator_scatter)
TUTTI_BLOCKING(communicator_all_to_all)
TUTTI_BLOCKING(communicator_all_to_all_uneven)
TUTTI_BLOCKING(communicator_send)
TUTTI_BLOCKING(communicator_receive)
TUTTI_BLOCKING(communicator_barrier)
TUTTI_BLOCKING(communicator_shrink)
TUTTI_BLOCKING(communicator_grow)
TUTTI_BLOCKING(communicator_close)
TUTTI_BLOCKING(bucket_plan_wait)
TUTTI_BLOCKING(checkpoint_save)
TUTTI_BLOCKING(checkpoint_restore)
TUTTI_BLOCKING(checkpoint_write)
TUTTI_BLOCKING(checkpoint_read)
TUTTI_BLOCKING(checkpoint_manager_save)
TUTTI_BLOCKING(checkpoint_manager_restore_latest)
TUTTI_BLOCKING(checkpoint_manager_latest)
TUTTI_BLOCKING(checkpoint_manager_list)
%include "python/python.i"
#endif

/* ---- functions */

%ignore tutti_facade::HostCallback;
%ignore tutti_facade::CallHost;
%ignore tutti_facade::DestroyHost;
%ignore tutti_facade::StoreHost;
%ignore tutti_facade::NotifyHost;
%ignore tutti_facade::StoreHostNotification;
%ignore tutti_facade::LogToHost;
%ignore tutti_facade::DeviceFields;
%ignore tutti_facade::SourceOptions;
%ignore tutti_facade::TransformOptions;
%ignore tutti_facade::StrategyOptions;
%ignore tutti_facade::InputOptions;
%ignore tutti_facade::ResolverOptions;

%{
#include "facade/callback.h"
#include "facade/runtime.h"
#include "facade/tensor.h"
#include "facade/dataset.h"
#include "facade/strategy.h"
#include "facade/cluster.h"
#include "facade/communicator.h"
#include "facade/checkpoint.h"
%}
%include "facade/runtime.h"
%include "facade/tensor.h"
%include "facade/dataset.h"
%include "facade/strategy.h"
%include "facade/cluster.h"
%include "facade/communicator.h"
%include "facade/checkpoint.h"
#ifdef SWIGJAVA
%include "java/package.i"
#endif

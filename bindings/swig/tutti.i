/* One interface for every language: the handles, and the functions of the facade. What is special
 * to a language stands in its own typemap file, which comes first. handles.i, blocking.i and
 * facade/forwards.h are generated from the C headers (bindings/generate). */
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
%include "handles.i"

/* What the facade names of the C interface. */
typedef int32_t tutti_tristate;
typedef uintptr_t tutti_host_handle;

/* ---- blocking functions: the host's own lock is given up while they run */

#ifdef SWIGPYTHON
%define TUTTI_BLOCKING(NAME)
%thread tutti_facade::NAME;
%enddef
%include "blocking.i"
%include "python/python.i"
#endif

/* ---- functions */

%ignore tutti_facade::HostCallback;
%ignore tutti_facade::CallHost;
%ignore tutti_facade::DestroyHost;
%ignore tutti_facade::StoreHost;
%ignore tutti_facade::StoreElementHost;
%ignore tutti_facade::NotifyHost;
%ignore tutti_facade::StoreHostNotification;
%ignore tutti_facade::LogToHost;
%ignore tutti_facade::CallReducer;
%ignore tutti_facade::ReduceByHost;
%ignore tutti_facade::BatchReduceByHost;
%ignore tutti_facade::BroadcastByHost;
%ignore tutti_facade::DeviceFields;
%ignore tutti_facade::ResolverOptions;
%ignore tutti_facade::KubernetesOptions;
%ignore tutti_facade::GceOptions;
%ignore tutti_facade::VariableOptions;

%{
#include "facade/callback.h"
#include "facade/forwards.h"
#include "facade/runtime.h"
#include "facade/tensor.h"
#include "facade/dataset.h"
#include "facade/strategy.h"
#include "facade/extended.h"
#include "facade/cluster.h"
#include "facade/communicator.h"
#include "facade/checkpoint.h"
#include "facade/debugging.h"
%}
%include "facade/forwards.h"
%include "facade/runtime.h"
%include "facade/tensor.h"
%include "facade/dataset.h"
%include "facade/strategy.h"
%include "facade/extended.h"
%include "facade/cluster.h"
%include "facade/communicator.h"
%include "facade/checkpoint.h"
%include "facade/debugging.h"
#ifdef SWIGJAVA
%include "java/package.i"
#endif

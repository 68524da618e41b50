/* Go: how each kind of parameter of the facade crosses. Everything crosses as machine words,
 * because cgo passes nothing else without a copy, and because what a Go program sees (errors,
 * generics, contexts) is written by hand over it in bindings/go/tutti:
 *   handles            uintptr; the hand-written layer says who holds the reference
 *   results            the raw status as uintptr, 0 for success, so that code, message and details
 *                      are read from the status of this very call
 *   outputs            pointers to Go memory without Go pointers in it
 *   lists of texts     one string in which every text ends with NUL
 *   optional numbers   a slice of one or none, as an output *OptionalInt64
 * Callbacks cannot be carried by SWIG's Go directors, which let a panic run through C++ frames:
 * they are cgo.Handles and two exported functions (callbacks.h,
 * bindings/go/tutti/internal/native). */

#define TUTTI_HANDLE(NAME)

%define GO_HANDLE(NAME)
struct NAME;
%typemap(gotype) NAME *, const NAME * "uintptr"
%typemap(gotype) NAME **, const NAME ** "*uintptr"
void NAME##_retain(const NAME *handle);
void NAME##_release(const NAME *handle);
%enddef
%include "handles_go.i"

struct tutti_context;
%typemap(gotype) tutti_context *, const tutti_context * "uintptr"
struct tutti_feature;
%typemap(gotype) tutti_feature *, const tutti_feature * "uintptr"
%typemap(gotype) tutti_feature ** "*uintptr"

struct tutti_call_options;
%typemap(gotype) const tutti_call_options * "*CallOptions"

%typemap(gotype) uintptr_t, tutti_host_handle "uintptr"
%typemap(gotype) int64_t *out_count "*int64"
%typemap(gotype) uintptr_t *out_address "*uintptr"

%typemap(gotype) tutti_optional_int64 *out_number "*OptionalInt64"
%typemap(gotype) tutti_optional_int64 "[]int64"
%typemap(in) tutti_optional_int64 {
  $1 = {0, 0};
  if ($input.len > 0) $1 = {1, *static_cast<const int64_t *>($input.array)};
}

/* Go's empty string is the absent one. C would read a text up to its first NUL: a function that
 * can say so refuses it. */
%typemap(gotype) const char * "string"
%typemap(in) const char * (std::string text) {
  text.assign($input.p == nullptr ? "" : $input.p, static_cast<size_t>($input.n));
  if (tutti_go::IsRefused(text, &_swig_go_result)) return _swig_go_result;
  $1 = text.empty() ? nullptr : const_cast<char *>(text.c_str());
}
%typemap(freearg) const char * ""
/* A setting may be set to nothing. */
%typemap(in) const char *value_text (std::string text) {
  text.assign($input.p == nullptr ? "" : $input.p, static_cast<size_t>($input.n));
  if (tutti_go::IsRefused(text, &_swig_go_result)) return _swig_go_result;
  $1 = const_cast<char *>(text.c_str());
}
/* What an error says goes as far as it can. */
%typemap(in) const char *message (std::string text) {
  text.assign($input.p == nullptr ? "" : $input.p, static_cast<size_t>($input.n));
  $1 = text.empty() ? nullptr : const_cast<char *>(text.c_str());
}
%apply const char *message { const char *detail_key, const char *detail_text };

%define GO_TEXTS(COUNT, TEXTS)
%typemap(gotype) (size_t COUNT, const char *const *TEXTS) "string"
%typemap(in) (size_t COUNT, const char *const *TEXTS) (std::string joined,
                                                     std::vector<const char *> texts) {
  joined.assign($input.p == nullptr ? "" : $input.p, static_cast<size_t>($input.n));
  for (size_t at = 0; at < joined.size(); at += strlen(&joined[at]) + 1) {
    texts.push_back(&joined[at]);
  }
  $1 = texts.size();
  $2 = const_cast<char **>(texts.data());
}
%enddef
GO_TEXTS(count, texts)
GO_TEXTS(value_count, texts)
GO_TEXTS(count, keys)
GO_TEXTS(value_count, values)

%typemap(gotype) (size_t rank, const int64_t *dims) "[]int64"
%typemap(in) (size_t rank, const int64_t *dims) {
  $1 = static_cast<size_t>($input.len);
  $2 = static_cast<int64_t *>($input.array);
}
%apply (size_t rank, const int64_t *dims) { (size_t end_count, const int64_t *ends),
                                            (size_t dtype_count, const int64_t *dtypes),
                                            (size_t number_count, const int64_t *numbers),
                                            (size_t stride_count, const int64_t *strides),
                                            (size_t rank_count, const int64_t *send_rows),
                                            (size_t received_count, int64_t *received_rows) };
%typemap(gotype) (const void *bytes, size_t size) "[]byte"
%typemap(in) (const void *bytes, size_t size) {
  $1 = $input.array;
  $2 = static_cast<size_t>($input.len);
}
/* As many handles as `size` says. */
%typemap(gotype) tutti_communicator **out_communicators "[]uintptr"
%typemap(in) tutti_communicator **out_communicators {
  $1 = static_cast<tutti_communicator **>($input.array);
}
%typemap(gotype) (size_t count, const tutti_value *const *values) "[]uintptr"
%typemap(in) (size_t count, const tutti_value *const *values) {
  $1 = static_cast<size_t>($input.len);
  $2 = static_cast<tutti_value **>($input.array);
}
%typemap(gotype) (size_t count, const tutti_tensor *const *tensors) "[]uintptr"
%typemap(in) (size_t count, const tutti_tensor *const *tensors) {
  $1 = static_cast<size_t>($input.len);
  $2 = static_cast<tutti_tensor **>($input.array);
}
%apply (size_t count, const tutti_tensor *const *tensors) {
  (size_t count, tutti_tensor *const *mutable_tensors),
  (size_t output_count, tutti_tensor *const *mutable_tensors)
};
%typemap(gotype) (size_t count, const tutti_spec *const *specs) "[]uintptr"
%typemap(in) (size_t count, const tutti_spec *const *specs) {
  $1 = static_cast<size_t>($input.len);
  $2 = static_cast<tutti_spec **>($input.array);
}
%typemap(gotype) (size_t count, const tutti_cluster_resolver *const *resolvers) "[]uintptr"
%typemap(in) (size_t count, const tutti_cluster_resolver *const *resolvers) {
  $1 = static_cast<size_t>($input.len);
  $2 = static_cast<tutti_cluster_resolver **>($input.array);
}
%typemap(gotype) (size_t count, const tutti_feature *const *features) "[]uintptr"
%typemap(in) (size_t count, const tutti_feature *const *features) {
  $1 = static_cast<size_t>($input.len);
  $2 = static_cast<tutti_feature **>($input.array);
}

%{
#include <cstring>
#include <string>

#include "go/callbacks.h"
#include "go/memory.h"
#include "go/reading.h"
#include "go/specs.h"
%}
/* A struct as a result would be a copy on the C++ heap: reading.h has them as numbers. */
%ignore tutti_facade::device_spec_replica;
%ignore tutti_facade::device_spec_task;
%ignore tutti_facade::device_spec_index;
/* A program in Go ends at once, and runs nothing at exit. */
%ignore tutti_facade::runtime_end_default;
%ignore tutti_go::Feature;
%ignore tutti_go::Detail;
%ignore tutti_go::LeafOf;
%ignore tutti_go::Nested;
%ignore tutti_go::IsRefused;
%ignore TuttiDlTensor;
%ignore DLManagedTensor;
%ignore DLManagedTensorVersioned;
%ignore tutti_go::ReleaseWrapped;
%include "go/reading.h"
%include "go/memory.h"
%include "go/specs.h"

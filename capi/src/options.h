// Options structs that grow: a caller compiled against an older header passes a smaller struct, one
// compiled against a newer header a larger one.
//
//   TUTTI_ASSIGN_OR_RETURN(tutti_batch_options set, ReadOptions(call, options));
//
// Smaller is accepted and the missing fields are unset; larger is accepted only while all that this
// library does not know is zero, that is, unset; anything else is INVALID_ARGUMENT.
#ifndef TUTTI_CAPI_SRC_OPTIONS_H_
#define TUTTI_CAPI_SRC_OPTIONS_H_

#include <tutti/abi.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "capi/src/guard.h"
#include "core/base/status.h"

namespace tutti::capi {

// Checks the struct at `options` against `known_size` bytes and copies what both sides know into
// `known`, which is zeroed before. NULL options leave it so.
Status ReadOptionsInto(Call call, const void *options, size_t known_size, void *known);

template <class Options>
Result<Options> ReadOptions(Call call, const Options *options) {
  Options known;
  TUTTI_RETURN_IF_ERROR(ReadOptionsInto(call, options, sizeof(Options), &known));
  return known;
}

// Copies `known` to a caller's struct of the size that the caller says. Fields that the caller's
// larger struct has beyond ours are left as they are.
Status WriteStruct(Call call, const void *known, size_t known_size, void *out);

// INVALID_ARGUMENT for a number that is neither unset nor true nor false.
Result<bool> ReadTristate(Call call, tutti_tristate value, bool default_value, const char *field);

inline std::optional<int64_t> ReadOptional(const tutti_optional_int64 &field) {
  return field.present != 0 ? std::optional<int64_t>(field.value) : std::nullopt;
}

// Text that may be NULL.
inline std::string_view TextOr(const char *text, std::string_view otherwise) {
  return text != nullptr ? std::string_view(text) : otherwise;
}

}  // namespace tutti::capi

#endif  // TUTTI_CAPI_SRC_OPTIONS_H_

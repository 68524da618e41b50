// How assertions say what they found; for the sources of this room.
#ifndef TUTTI_CORE_DEBUGGING_ASSERTION_TEXT_H_
#define TUTTI_CORE_DEBUGGING_ASSERTION_TEXT_H_

#include <span>
#include <string>

#include "core/debugging/assertion.h"

namespace tutti::debugging_internal {

// "<message>: <name>: ".
std::string Opening(const char* name, const AssertOptions& options);
// "x" or "x at [\"loss\"] of replica 1".
std::string Called(const char* what, const NamedTensor& tensor);
// "x float32[3]: [1 2 3 ...]".
std::string Shown(const char* what, const NamedTensor& tensor, int64_t summarize);
// The same of all, joined by "; ".
std::string ShownAll(std::span<const NamedTensor> data, int64_t summarize);

}  // namespace tutti::debugging_internal

#endif  // TUTTI_CORE_DEBUGGING_ASSERTION_TEXT_H_

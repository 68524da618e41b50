// ParseStrictJson: JSON for configuration: an object that has a key twice is an error, instead of
// one of the two values being lost. Include it from .cc files.

#ifndef TUTTI_CORE_CLUSTER_RESOLVE_STRICT_JSON_H_
#define TUTTI_CORE_CLUSTER_RESOLVE_STRICT_JSON_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

// INVALID_ARGUMENT with line and column of what is no JSON, or with the key that is there twice.
Result<nlohmann::json> ParseStrictJson(std::string_view text);

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_RESOLVE_STRICT_JSON_H_

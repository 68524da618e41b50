// The name that somebody may have meant who wrote another one.

#ifndef TUTTI_CAPI_TOOL_NEAR_NAME_H_
#define TUTTI_CAPI_TOOL_NEAR_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace tutti::tool {

// The candidate that takes fewest insertions, removals and changes of a letter, or exchanges of two
// neighbours; empty when that are more than a third of the letters of `name`, and more than one.
std::string NearName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_NEAR_NAME_H_

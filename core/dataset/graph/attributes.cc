#include "core/dataset/graph/attributes.h"

namespace tutti {

// Not inline: with -O2 GCC 12 follows the move of the variant into its callers and warns of members
// that the variant does not hold.
Attributes& Attributes::Set(std::string_view name, Attribute value) {
  items_.emplace_back(std::string(name), std::move(value));
  return *this;
}

}  // namespace tutti

// Which memory of this process others map as well: what the kernel lists as shared mappings.

#ifndef TUTTI_CAPI_TOOL_MAPPED_MEMORY_H_
#define TUTTI_CAPI_TOOL_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tool {

class MappedMemory {
 public:
  // Of /proc/self/maps, or of a text like it.
  static MappedMemory OfThisProcess();
  static MappedMemory Of(const std::string& maps);

  // Whether all of [data, data + bytes) can be shared.
  bool Holds(const void* data, size_t bytes) const;

 private:
  struct Range {
    uint64_t begin;
    uint64_t end;
  };
  std::vector<Range> ranges_;  // ascending, none touches the next
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_MAPPED_MEMORY_H_

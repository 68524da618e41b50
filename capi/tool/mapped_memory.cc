#include "capi/tool/mapped_memory.h"

#include <charconv>
#include <sstream>

#include "capi/tool/text_file.h"

namespace tutti::tool {

MappedMemory MappedMemory::OfThisProcess() {
  std::string maps;
  if (!ReadTextFile("/proc/self/maps", &maps).empty()) maps.clear();
  return Of(maps);
}

// "7f1c54000000-7f1c58000000 rw-s 00000000 00:01 2061 /memfd:tutti-window (deleted)"
MappedMemory MappedMemory::Of(const std::string& maps) {
  MappedMemory memory;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    Range range = {};
    const char* const last = line.data() + line.size();
    const auto [dash, first_error] = std::from_chars(line.data(), last, range.begin, 16);
    if (first_error != std::errc() || dash == last || *dash != '-') continue;
    const auto [rest, second_error] = std::from_chars(dash + 1, last, range.end, 16);
    constexpr size_t kRights = 5;  // with the space before them
    if (second_error != std::errc() || last - rest < static_cast<ptrdiff_t>(kRights)) continue;
    if (rest[kRights - 1] != 's') continue;
    if (!memory.ranges_.empty() && memory.ranges_.back().end == range.begin) {
      memory.ranges_.back().end = range.end;
    } else {
      memory.ranges_.push_back(range);
    }
  }
  return memory;
}

bool MappedMemory::Holds(const void* data, size_t bytes) const {
  const auto begin = reinterpret_cast<uint64_t>(data);
  for (const Range& range : ranges_) {
    if (begin >= range.begin && begin < range.end) return bytes <= range.end - begin;
  }
  return false;
}

}  // namespace tutti::tool

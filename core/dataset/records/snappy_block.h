// Snappy's block format, as google/snappy's format_description.txt has it: a varint of the
// content's length, then literals and copies of what came before. There is nothing around it: no
// checksum and no magic, which are up to who stores it.
//
// It is written here, and no library is wanted for it: the format is a page long, it has not
// changed since 2011, and what a library would add is speed that the disk behind a snapshot seldom
// has.
#ifndef TUTTI_CORE_DATASET_RECORDS_SNAPPY_BLOCK_H_
#define TUTTI_CORE_DATASET_RECORDS_SNAPPY_BLOCK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

// What one block holds at most: the format's own limit.
inline constexpr uint64_t kMaxSnappyBytes = 0xffffffffu;

// INVALID_ARGUMENT for more than kMaxSnappyBytes.
Result<std::string> SnappyCompress(std::string_view content);

// Trusts nothing: DATA_LOSS, saying where in the block, for one that ends early, is longer than it
// says, or copies from before its begin. Nothing is allocated for a length that so few bytes cannot
// have.
Result<std::string> SnappyDecompress(std::string_view block);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_SNAPPY_BLOCK_H_

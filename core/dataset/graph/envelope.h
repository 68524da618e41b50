// What stands around bytes that leave the process (saved iterators, dataset definitions): a magic
// with the version in front, a CRC-32C behind, so that torn and foreign bytes are noticed.
#ifndef TUTTI_CORE_DATASET_GRAPH_ENVELOPE_H_
#define TUTTI_CORE_DATASET_GRAPH_ENVELOPE_H_

#include <string>
#include <string_view>

namespace tutti {

std::string SealEnvelope(std::string_view magic, std::string_view content);

// Sets *content and returns null; or says why these bytes are no such envelope.
const char* OpenEnvelope(std::string_view magic, std::string_view bytes, std::string_view* content);

// "TUTTI-X1" when bytes begin so where `magic` is "TUTTI-X2": they are of the same kind in another
// format, an earlier release's or a later one's. Else empty.
std::string_view OtherFormat(std::string_view magic, std::string_view bytes);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_GRAPH_ENVELOPE_H_

// Frames: what travels over links. Each begins with a header of fixed size that says what follows
// and proves that it is a header: a peer that went astray is found at its first frame, before
// anything is allocated.
//
//   kCall      a rank is in call `sequence`: the serialised CallHeader, and its payload when small
//   kData      a segment of a large payload; `argument` says which
//   kError     the epoch has ended: the serialised Status
//   kGoodbye   the rank makes no more calls: the serialised reason
//   kSend      a rank sends to this one for the `sequence`-th time: as kCall
//   kReceive   the same of receiving from it; without a payload
//   kSendData  a segment of what is sent
//   kTree      as kCall, between neighbours in the tree of a group whose pairs connect when they
//              need to (link_tree.cc): what is known of the call below, or the word to go on
//   kRoster    who is known to be in call `sequence`; with none named: that the sender is

#ifndef TUTTI_CORE_COLLECTIVE_STREAM_LINK_FRAME_H_
#define TUTTI_CORE_COLLECTIVE_STREAM_LINK_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/status.h"
#include "core/collective/call/call_header_wire.h"

namespace tutti {

enum class FrameKind : uint8_t {
  kCall = 1,
  kData = 2,
  kError = 3,
  kGoodbye = 4,
  kSend = 5,
  kReceive = 6,
  kSendData = 7,
  kTree = 8,
  kRoster = 9,
};
inline constexpr FrameKind kLastFrameKind = FrameKind::kRoster;

struct FrameHeader {
  FrameKind kind = FrameKind::kCall;
  int64_t epoch = 0;
  int64_t sequence = 0;     // of the call; of kError and kGoodbye the sender's last one
  uint64_t argument = 0;    // kData, kSendData: the segment; kCall, kSend: what comes in all;
                            // kError: the transfer with the addressee that failed (link_peer.h)
  uint32_t body_bytes = 0;  // serialised, covered by a checksum
  uint32_t data_bytes = 0;  // tensor elements
  uint32_t body_crc = 0;
};

inline constexpr size_t kFrameHeaderBytes = 48;
// At most so much of a payload comes in one frame.
inline constexpr size_t kMaxFrameDataBytes = size_t{1} << 20;
// Headers that differ from the sender's, in a kTree, each behind its rank and length: one always
// has room, else nobody above would know that there are two.
inline constexpr size_t kMaxOtherHeaderBytes = kMaxCallHeaderBytes + 2 * sizeof(uint32_t);
// One character for each rank, and the collective.
inline constexpr size_t kMaxRosterBytes = (size_t{1} << 20) + 1;
// And so much with a kSend: it is kept until the receiver wants it.
inline constexpr size_t kMaxSendPayloadBytes = size_t{64} << 10;

void EncodeFrameHeader(const FrameHeader& header, char* bytes);
// From kFrameHeaderBytes bytes. DATA_LOSS for what is no header, INVALID_ARGUMENT for one of
// another version or epoch; the message goes on after "rank 1 sent ".
Status DecodeFrameHeader(const char* bytes, int64_t epoch, FrameHeader* header);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_STREAM_LINK_FRAME_H_

#include "core/collective/stream/link_frame.h"

#include <cstring>
#include <string>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/wire_bytes.h"

namespace tutti {
namespace {

constexpr uint32_t kMagic = 0x6b6c7474;  // "ttlk"
constexpr uint8_t kVersion = 4;
constexpr size_t kCheckedBytes = kFrameHeaderBytes - sizeof(uint32_t);

template <typename T>
char* Put(char* place, T value) {
  std::memcpy(place, &value, sizeof(T));
  return place + sizeof(T);
}

Status CheckSizes(const FrameHeader& header) {
  size_t most_body = 0;
  size_t most_data = 0;
  switch (header.kind) {
    case FrameKind::kCall:
      most_body = kMaxCallHeaderBytes;
      most_data = kMaxFrameDataBytes;
      break;
    case FrameKind::kTree:
      most_body = kMaxCallHeaderBytes + kMaxOtherHeaderBytes;
      most_data = kMaxFrameDataBytes;
      break;
    case FrameKind::kRoster:
      most_body = kMaxRosterBytes;
      break;
    case FrameKind::kSend:
      most_body = kMaxCallHeaderBytes;
      most_data = kMaxSendPayloadBytes;
      break;
    case FrameKind::kReceive:
      most_body = kMaxCallHeaderBytes;
      break;
    case FrameKind::kData:
    case FrameKind::kSendData:
      most_data = kMaxFrameDataBytes;
      break;
    case FrameKind::kError:
    case FrameKind::kGoodbye:
      most_body = kMaxStatusBytes;
      break;
    default:
      return DataLoss("a frame of kind {}", static_cast<int>(header.kind));
  }
  if (header.body_bytes > most_body || header.data_bytes > most_data) {
    return DataLoss("a frame of kind {} with {} and {} bytes; at most {} and {} are allowed",
                    static_cast<int>(header.kind), header.body_bytes, header.data_bytes, most_body,
                    most_data);
  }
  return OkStatus();
}

}  // namespace

void EncodeFrameHeader(const FrameHeader& header, char* bytes) {
  char* place = bytes;
  place = Put(place, kMagic);
  place = Put(place, static_cast<uint8_t>(header.kind));
  place = Put(place, kVersion);
  place = Put(place, uint16_t{0});
  place = Put(place, header.epoch);
  place = Put(place, header.sequence);
  place = Put(place, header.argument);
  place = Put(place, header.body_bytes);
  place = Put(place, header.data_bytes);
  place = Put(place, header.body_crc);
  Put(place, Crc32c(bytes, kCheckedBytes));
}

Status DecodeFrameHeader(const char* bytes, int64_t epoch, FrameHeader* header) {
  WireReader reader(std::string_view(bytes, kFrameHeaderBytes));
  if (reader.Take<uint32_t>() != kMagic) return DataLoss("bytes that begin no frame");
  header->kind = static_cast<FrameKind>(reader.Take<uint8_t>());
  const int version = reader.Take<uint8_t>();
  reader.Take<uint16_t>();
  header->epoch = reader.Take<int64_t>();
  header->sequence = reader.Take<int64_t>();
  header->argument = reader.Take<uint64_t>();
  header->body_bytes = reader.Take<uint32_t>();
  header->data_bytes = reader.Take<uint32_t>();
  header->body_crc = reader.Take<uint32_t>();
  if (reader.Take<uint32_t>() != Crc32c(bytes, kCheckedBytes)) {
    return DataLoss("a frame whose header has a wrong checksum");
  }
  if (version != kVersion) {
    return InvalidArgument("a frame of version {}, this rank speaks {}; run one build on all ranks",
                           version, kVersion);
  }
  if (header->epoch != epoch) {
    return InvalidArgument("a frame of epoch {}, this rank is in epoch {}", header->epoch, epoch);
  }
  return CheckSizes(*header);
}

}  // namespace tutti

// Lists of pieces that lie on the device. Whoever packs the same tensors step after step passes the
// same pieces each time; to write a list for the kernel costs more than to move small pieces. So
// pieces that come a second time are written into memory of the device, once and in one copy, and
// later calls only compare what they are given with what the list was made of.
//
// A device keeps a few lists. One that is as new as all of them takes the place of one that nobody
// has used for long; where there is none, or no memory, nothing is kept and pack goes on as it does
// for pieces that it has not seen (pieces.cc).
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/cuda/kernels/launch.h"
#include "core/cuda/plugin.h"

namespace tutti::cuda {
namespace {

constexpr size_t kMostKept = 8;
constexpr uint64_t kMostEntries = uint64_t{1} << 20;  // of a list: 24 MiB
constexpr size_t kMostSeen = 32;
// Calls on the device after which a list that none of them has used may go.
constexpr uint64_t kLongUnused = 64;

// Of a few of the pieces, so that it costs the same for any number of them.
uint64_t SampleOf(const tutti_plugin_piece* pieces, uint64_t count) {
  constexpr uint64_t kSamples = 32;
  uint64_t hash = 0xcbf29ce484222325 ^ count;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  for (uint64_t i = 0; i < kSamples; ++i) {
    const tutti_plugin_piece& piece = pieces[(count - 1) * i / (kSamples - 1)];
    mix(AddressOf(piece.memory));
    mix(piece.bytes);
    mix(piece.offset);
  }
  return hash;
}

bool IsOf(const KeptList& list, const tutti_plugin_piece* pieces, uint64_t count) {
  static_assert(sizeof(tutti_plugin_piece) == 24, "pieces are compared byte for byte");
  return list.pieces.size() == count &&
         std::memcmp(list.pieces.data(), pieces, count * sizeof(*pieces)) == 0;
}

// On the stream; null where that is not possible, of which nobody has to know.
std::shared_ptr<KeptList> Write(tutti_plugin_stream* stream, const tutti_plugin_piece* pieces,
                                uint64_t count) {
  tutti_plugin* const plugin = stream->plugin;
  std::vector<ListedPiece> entries;
  entries.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t begin = 0; begin < pieces[i].bytes; begin += kListedBytes) {
      if (entries.size() == kMostEntries) return nullptr;
      entries.push_back({static_cast<char*>(pieces[i].memory) + begin, pieces[i].offset + begin,
                         std::min(pieces[i].bytes - begin, kListedBytes)});
    }
  }
  if (entries.empty()) return nullptr;
  // Gives back what it has, whenever the last one who uses it lets go.
  const int32_t device = stream->device;
  auto list = std::shared_ptr<KeptList>(new KeptList, [plugin, device](KeptList* gone) {
    const std::unique_ptr<KeptList> owned(gone);
    if (owned->written != nullptr) plugin->driver.EventDestroy(owned->written);
    // That waits for kernels that still read it.
    if (tutti_status* const lost = ReleaseMemory(plugin, device, owned->memory)) {
      plugin->host->release_status(plugin->host->context, lost);
    }
  });
  const uint64_t bytes = entries.size() * sizeof(ListedPiece);
  if (tutti_status* const refused = AllocateMemory(plugin, device, bytes, &list->memory)) {
    plugin->host->release_status(plugin->host->context, refused);
    return nullptr;
  }
  const Driver& driver = plugin->driver;
  if (driver.EventCreate(&list->written, kEventWithoutTime) != kSuccess ||
      driver.MemcpyHtoDAsync(AddressOf(list->memory), entries.data(), bytes, stream->stream) !=
          kSuccess ||
      driver.EventRecord(list->written, stream->stream) != kSuccess) {
    return nullptr;
  }
  list->pieces.assign(pieces, pieces + count);
  list->entries = entries.size();
  list->sample = SampleOf(pieces, count);
  return list;
}

// Room for one more: true where there is some. With lists_mutex held; what gives way is in `gone`.
bool MakeRoom(Device* device, std::shared_ptr<KeptList>* gone) {
  if (device->kept.size() < kMostKept) return true;
  const auto oldest = std::min_element(
      device->kept.begin(), device->kept.end(),
      [](const auto& a, const auto& b) { return a->turn < b->turn; });
  if (device->turns - (*oldest)->turn < kLongUnused) return false;
  *gone = std::move(*oldest);
  device->kept.erase(oldest);
  return true;
}

}  // namespace

std::shared_ptr<KeptList> FindKeptList(tutti_plugin_stream* stream,
                                       const tutti_plugin_piece* pieces, uint64_t count) {
  Device& device = *stream->plugin->devices[static_cast<size_t>(stream->device)];
  const uint64_t sample = SampleOf(pieces, count);
  std::vector<std::shared_ptr<KeptList>> alike;
  std::shared_ptr<KeptList> gone;  // given up without the lock
  {
    const std::lock_guard lock(device.lists_mutex);
    ++device.turns;
    for (const auto& list : device.kept) {
      if (list->sample == sample) alike.push_back(list);
    }
  }
  for (const auto& list : alike) {
    if (!IsOf(*list, pieces, count)) continue;
    const std::lock_guard lock(device.lists_mutex);
    list->turn = device.turns;
    return list;
  }
  {
    const std::lock_guard lock(device.lists_mutex);
    const bool was_seen =
        std::find(device.seen.begin(), device.seen.end(), sample) != device.seen.end();
    if (!was_seen) {
      if (device.seen.size() == kMostSeen) device.seen.erase(device.seen.begin());
      device.seen.push_back(sample);
      return nullptr;
    }
    if (!MakeRoom(&device, &gone)) return nullptr;
  }
  std::shared_ptr<KeptList> list = Write(stream, pieces, count);
  if (list == nullptr) return nullptr;
  const std::lock_guard lock(device.lists_mutex);
  list->turn = device.turns;
  // Others may have been as quick: then it serves this call alone.
  if (device.kept.size() < kMostKept) device.kept.push_back(list);
  return list;
}

tutti_status* AwaitKeptList(tutti_plugin_stream* stream, KeptList* list) {
  if (list->is_there.load(std::memory_order_acquire)) return nullptr;
  const Driver& driver = stream->plugin->driver;
  if (driver.EventQuery(list->written) == kSuccess) {
    list->is_there.store(true, std::memory_order_release);
    return nullptr;
  }
  TUTTI_CUDA_CALL(stream->plugin, stream->device,
                  driver.StreamWaitEvent(stream->stream, list->written, 0),
                  "a stream cannot wait for an event");
  return nullptr;
}

void DropKeptLists(tutti_plugin* plugin, int32_t index) {
  Device& device = *plugin->devices[static_cast<size_t>(index)];
  std::vector<std::shared_ptr<KeptList>> gone;
  const std::lock_guard lock(device.lists_mutex);
  gone.swap(device.kept);
  device.seen.clear();
}

}  // namespace tutti::cuda

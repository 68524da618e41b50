// Pack and unpack: which pieces a launch takes, and how it is told of them. Few, or large ones, are
// parameters of the launch. Many small ones stand in a list in pinned memory, which the kernel
// reads there; while it does the next list is written. There are so many lists for a device;
// where all are in use, pieces are parameters again, so that nobody waits. Pieces that come again
// have a list on the device (kept_lists.cc).
#include <algorithm>
#include <memory>

#include "core/cuda/kernels/launch.h"
#include "core/cuda/plugin.h"

namespace tutti::cuda {
namespace {

constexpr int32_t kMostLists = 8;
constexpr uint64_t kListEntries = 16384;
// Of the first list; each later one has twice as many, so that the device begins soon, and each
// launch fills it afterwards.
constexpr uint64_t kFirstEntries = 1024;
// Larger ones on average are worth no list.
constexpr uint64_t kLargePiece = 512 << 10;

// A list that is free, or none; with the context current.
PieceList TakeList(tutti_plugin* plugin, int32_t index) {
  Device& device = *plugin->devices[static_cast<size_t>(index)];
  const std::lock_guard lock(device.lists_mutex);
  for (size_t i = 0; i < device.free_lists.size(); ++i) {
    if (plugin->driver.EventQuery(device.free_lists[i].read) != kSuccess) continue;
    const PieceList list = device.free_lists[i];
    device.free_lists.erase(device.free_lists.begin() + static_cast<std::ptrdiff_t>(i));
    return list;
  }
  if (device.lists == kMostLists) return {};
  // Afterwards giving it back cannot fail.
  device.free_lists.reserve(kMostLists);
  PieceList list;
  tutti_status* const refused =
      AllocatePinned(plugin, index, kListEntries * sizeof(ListedPiece), &list.memory);
  if (refused != nullptr) {
    plugin->host->release_status(plugin->host->context, refused);
    return {};
  }
  if (plugin->driver.EventCreate(&list.read, kEventWithoutTime) != kSuccess) {
    if (tutti_status* const lost = ReleasePinned(plugin, index, list.memory)) {
      plugin->host->release_status(plugin->host->context, lost);
    }
    return {};
  }
  ++device.lists;
  return list;
}

tutti_status* LaunchListed(tutti_plugin_stream* stream, bool packs, const void* list, void* packed,
                           uint64_t count) {
  ListParams params = {static_cast<const ListedPiece*>(list), packed, count};
  constexpr uint64_t kLanes = kThreads / kLaneThreads;
  return LaunchBlocks(stream, packs ? "tutti_pack_list" : "tutti_unpack_list", &params,
                      (count + kLanes - 1) / kLanes);
}

// Takes pieces one after the other and launches when there are as many as a launch takes.
class Mover {
 public:
  Mover(tutti_plugin_stream* stream, bool packs, void* packed, bool listed)
      : stream_(stream), packs_(packs), packed_(packed), listed_(listed) {}
  ~Mover() { GiveBack(); }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  tutti_status* Add(const tutti_plugin_piece& piece) {
    for (uint64_t begin = 0; begin < piece.bytes;) {
      if (count_ == 0 && listed_) list_ = TakeList(stream_->plugin, stream_->device);
      const bool in_list = list_.memory != nullptr;
      // A piece of more chunks than can be counted is taken in parts.
      constexpr uint64_t kMostChunks = uint64_t{1} << 30;
      const uint64_t bytes =
          std::min(piece.bytes - begin, in_list ? kListedBytes : kMostChunks * kChunkBytes);
      char* const memory = static_cast<char*>(piece.memory) + begin;
      if (in_list) {
        static_cast<ListedPiece*>(list_.memory)[count_++] = {memory, piece.offset + begin, bytes};
        if (count_ == most_entries_) TUTTI_CUDA_RETURN_IF(Flush());
      } else {
        const uint64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
        if (params_.chunks + chunks > 2 * kMostChunks) TUTTI_CUDA_RETURN_IF(Flush());
        params_.memory[count_] = memory;
        params_.bytes[count_] = bytes;
        params_.offset[count_] = piece.offset + begin;
        params_.first_chunk[count_] = params_.chunks;
        params_.chunks += static_cast<uint32_t>(chunks);
        if (++count_ == kFewPieces) TUTTI_CUDA_RETURN_IF(Flush());
      }
      begin += bytes;
    }
    return nullptr;
  }

  tutti_status* Flush() {
    if (count_ == 0) return nullptr;
    const uint64_t count = std::exchange(count_, 0);
    if (list_.memory == nullptr) {
      params_.packed = packed_;
      params_.pieces = static_cast<uint32_t>(count);
      const uint64_t chunks = std::exchange(params_.chunks, 0);
      PackParams params = params_;
      params.chunks = static_cast<uint32_t>(chunks);
      return LaunchBlocks(stream_, packs_ ? "tutti_pack" : "tutti_unpack", &params, chunks);
    }
    tutti_status* const launched = LaunchListed(stream_, packs_, list_.memory, packed_, count);
    GiveBack();
    most_entries_ = std::min(2 * most_entries_, kListEntries);
    return launched;
  }

 private:
  // Free when what the stream has now is done.
  void GiveBack() {
    if (list_.memory == nullptr) return;
    tutti_plugin* const plugin = stream_->plugin;
    // When this fails the device can be used no more.
    (void)plugin->driver.EventRecord(list_.read, stream_->stream);
    Device& device = *plugin->devices[static_cast<size_t>(stream_->device)];
    const std::lock_guard lock(device.lists_mutex);
    device.free_lists.push_back(std::exchange(list_, {}));
  }

  tutti_plugin_stream* const stream_;
  const bool packs_;
  void* const packed_;
  const bool listed_;
  uint64_t count_ = 0;  // pieces that wait for the launch
  uint64_t most_entries_ = kFirstEntries;
  PackParams params_ = {};
  PieceList list_;  // where they stand; none: in the parameters
};

tutti_status* Move(tutti_plugin_stream* stream, bool packs, const tutti_plugin_piece* pieces,
                   uint64_t count, void* packed) {
  tutti_plugin* const plugin = stream->plugin;
  return Guarded(plugin, [&]() -> tutti_status* {
    Current current(plugin, stream->device);
    TUTTI_CUDA_RETURN_IF(current.TakeError());
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; ++i) bytes += pieces[i].bytes;
    const bool listed = count > kFewPieces && bytes / count < kLargePiece;
    if (listed) {
      if (const std::shared_ptr<KeptList> kept = FindKeptList(stream, pieces, count)) {
        TUTTI_CUDA_RETURN_IF(AwaitKeptList(stream, kept.get()));
        return LaunchListed(stream, packs, kept->memory, packed, kept->entries);
      }
    }
    Mover mover(stream, packs, packed, listed);
    for (uint64_t i = 0; i < count; ++i) TUTTI_CUDA_RETURN_IF(mover.Add(pieces[i]));
    return mover.Flush();
  });
}

}  // namespace

void DropLists(tutti_plugin* plugin, int32_t index) {
  DropKeptLists(plugin, index);
  Device& device = *plugin->devices[static_cast<size_t>(index)];
  for (const PieceList& list : device.free_lists) {
    // A kernel may still read it.
    (void)plugin->driver.EventSynchronize(list.read);
    plugin->driver.EventDestroy(list.read);
    if (tutti_status* const lost = ReleasePinned(plugin, index, list.memory)) {
      plugin->host->release_status(plugin->host->context, lost);
    }
  }
  device.free_lists.clear();
}

tutti_status* Pack(tutti_plugin_stream* stream, const tutti_plugin_piece* pieces, uint64_t count,
                   void* packed) {
  return Move(stream, true, pieces, count, packed);
}

tutti_status* Unpack(tutti_plugin_stream* stream, const tutti_plugin_piece* pieces, uint64_t count,
                     const void* packed) {
  return Move(stream, false, pieces, count, const_cast<void*>(packed));
}

}  // namespace tutti::cuda

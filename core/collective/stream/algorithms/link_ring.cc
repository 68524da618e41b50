// The ring, for all_gather in large groups: everybody sends its part to the next rank, and then
// what comes from the one before, segment by segment as it comes. Per rank that is as many bytes as
// where all pairs exchange their parts, over two links, whatever the size of the group.
//
// Where the ranks have their own numbers of rows, what each of them brings goes around first, and
// small parts along with it; then everybody makes room. Segments go to where they belong, so that
// nobody ever waits for room.

#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/collective/stream/algorithms/gather_parts.h"
#include "core/collective/stream/algorithms/link_exchange.h"
#include "core/tensor/tensor.h"

namespace tutti {
namespace {

// Parts up to so many bytes go along with what is said of them.
constexpr uint64_t kSmallBytes = 4096;

// In turn t a rank sends the part of the t-th rank before it.
class LinkRing : public LinkAlgorithm {
 public:
  uint64_t Announce(int64_t) const override { return 0; }
  void AddPayload(int64_t, MemoryParts*) const override {}
  Status Begin(std::span<const LinkPeerPayload>) override {
    Settle();
    return OkStatus();
  }

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    if (peer != next() || words_out_ + out_.turn == words_ + turns_) return false;
    if (words_out_ < words_) {
      if (words_out_ > words_in_) return false;
      AddWord(OwnerOut(words_out_++), memory);
    } else {
      // The first turn is the own part; what is sent in another one came in the turn before.
      const bool is_here = out_.turn == 0 || in_.turn >= out_.turn ||
                           (in_.turn == out_.turn - 1 && in_.segment > out_.segment);
      if (words_in_ < words_ || !is_here) return false;
      const int64_t owner = OwnerOut(out_.turn);
      memory->Add(Segment(owner, out_.segment), SegmentBytes(owner, out_.segment));
      ++out_.segment;
      Settle();
    }
    *segment = sent_++;
    return true;
  }

  Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    const bool is_word = words_in_ < words_;
    if (peer != previous() || segment != received_ || (!is_word && in_.turn == turns_)) {
      return DataLoss("segment {} on the way around; {} of rank {} is due", segment,
                      in_.turn == turns_ ? "none" : Format("segment {}", received_),
                      Name(previous()));
    }
    const int64_t owner = OwnerIn(is_word ? words_in_ : in_.turn);
    if (is_word) return RoomForWord(owner, bytes, memory);
    const size_t expected = SegmentBytes(owner, in_.segment);
    if (bytes != expected) {
      return DataLoss("segment {} of the part of rank {} with {} bytes, expected {}", in_.segment,
                      Name(owner), bytes, expected);
    }
    TUTTI_ASSIGN_OR_RETURN(std::byte* const room, RoomFor(owner, in_.segment));
    memory->Add(room, bytes);
    return true;
  }

  Status Received(int64_t) override {
    ++received_;
    if (words_in_ == words_) {
      ++in_.segment;
    } else if (++words_in_ == words_) {
      TUTTI_RETURN_IF_ERROR(TakeWords());
    }
    Settle();
    return OkStatus();
  }

  bool complete() const override {
    return words_in_ == words_ && words_out_ == words_ && in_.turn == turns_ &&
           out_.turn == turns_;
  }

  std::string Owed(int64_t peer) const override {
    if (peer != previous() || (words_in_ == words_ && in_.turn == turns_)) return "";
    const int64_t parts = words_in_ < words_ ? words_in_ : in_.turn;
    return Format("the parts of {} of {} other ranks, which it passes on, are here", parts, turns_);
  }

 protected:
  // `words`: what each rank brings goes around before the parts.
  LinkRing(const LinkCallContext& context, bool words)
      : rank_(context.rank),
        size_(context.size),
        context_(context),
        turns_(size_ - 1),
        words_(words ? size_ - 1 : 0) {}

  virtual size_t SegmentsOf(int64_t owner) const = 0;
  virtual size_t SegmentBytes(int64_t owner, size_t segment) const = 0;
  virtual const std::byte* Segment(int64_t owner, size_t segment) const = 0;
  virtual Result<std::byte*> RoomFor(int64_t owner, size_t segment) = 0;
  virtual void AddWord(int64_t owner, MemoryParts* memory) = 0;
  virtual Result<bool> RoomForWord(int64_t owner, size_t bytes, MemoryParts* memory) = 0;
  virtual Status TakeWords() = 0;

  int64_t Name(int64_t rank) const { return context_.Name(rank); }

  const int64_t rank_;
  const int64_t size_;

 private:
  struct Place {
    int64_t turn = 0;
    size_t segment = 0;
  };

  int64_t next() const { return (rank_ + 1) % size_; }
  int64_t previous() const { return (rank_ + size_ - 1) % size_; }
  int64_t OwnerOut(int64_t turn) const { return (rank_ + size_ - turn) % size_; }
  int64_t OwnerIn(int64_t turn) const { return (previous() + size_ - turn) % size_; }

  // Turns that are done, or have no segments, are over.
  void Settle() {
    if (words_in_ < words_) return;
    while (in_.turn < turns_ && in_.segment == SegmentsOf(OwnerIn(in_.turn))) {
      in_ = Place{in_.turn + 1, 0};
    }
    while (out_.turn < turns_ && out_.segment == SegmentsOf(OwnerOut(out_.turn))) {
      out_ = Place{out_.turn + 1, 0};
    }
  }

  const LinkCallContext context_;
  const int64_t turns_;
  const int64_t words_;
  int64_t words_in_ = 0;
  int64_t words_out_ = 0;
  Place in_;   // the next segment that comes
  Place out_;  // the next one that goes
  uint64_t received_ = 0;
  uint64_t sent_ = 0;
};

// Into a given tensor, from equal parts.
class EqualRing final : public LinkRing {
 public:
  explicit EqualRing(const LinkCallContext& context)
      : LinkRing(context, /*words=*/false),
        part_bytes_(static_cast<size_t>(context.call->header.first.num_elements()) *
                    ItemSize(context.call->header.first.dtype)),
        input_(static_cast<const std::byte*>(context.call->memory[0].input)),
        output_(static_cast<std::byte*>(context.call->memory[0].output)) {}

  Status Finish(CollectiveCall*) override {
    std::byte* const own = output_ + static_cast<size_t>(rank_) * part_bytes_;
    if (part_bytes_ != 0 && own != input_) std::memcpy(own, input_, part_bytes_);
    return OkStatus();
  }

 protected:
  size_t SegmentsOf(int64_t) const override {
    return (part_bytes_ + GatherParts::kSegmentBytes - 1) / GatherParts::kSegmentBytes;
  }
  size_t SegmentBytes(int64_t, size_t segment) const override {
    return std::min(GatherParts::kSegmentBytes,
                    part_bytes_ - segment * GatherParts::kSegmentBytes);
  }
  const std::byte* Segment(int64_t owner, size_t segment) const override {
    const std::byte* const part =
        owner == rank_ ? input_ : output_ + static_cast<size_t>(owner) * part_bytes_;
    return part + segment * GatherParts::kSegmentBytes;
  }
  Result<std::byte*> RoomFor(int64_t owner, size_t segment) override {
    return output_ + static_cast<size_t>(owner) * part_bytes_ +
           segment * GatherParts::kSegmentBytes;
  }
  void AddWord(int64_t, MemoryParts*) override {}
  Result<bool> RoomForWord(int64_t, size_t, MemoryParts*) override { return false; }
  Status TakeWords() override { return OkStatus(); }

 private:
  const size_t part_bytes_;
  const std::byte* const input_;
  std::byte* const output_;
};

// Into a new tensor, from parts of as many rows as each rank has.
class UnevenRing final : public LinkRing {
 public:
  explicit UnevenRing(const LinkCallContext& context)
      : LinkRing(context, /*words=*/true),
        axis_(static_cast<size_t>(context.call->header.axis)),
        parts_(context),
        words_(static_cast<size_t>(context.size)) {}

  Status Prepare(const Tensor& input) {
    TUTTI_RETURN_IF_ERROR(parts_.Prepare(input));
    dims_ = Dims(input.shape().dims().data(), input.rank());
    Word& own = words_[static_cast<size_t>(rank_)];
    own.rows = input.dim(axis_);
    own.bytes = parts_.own_bytes();
    return OkStatus();
  }

  Status Finish(CollectiveCall* call) override {
    TUTTI_ASSIGN_OR_RETURN(call->gathered, parts_.Join());
    return OkStatus();
  }

 protected:
  // Small parts are here with the words.
  size_t SegmentsOf(int64_t owner) const override {
    return parts_.bytes_of(owner) <= kSmallBytes ? 0 : parts_.segments_of(owner);
  }
  size_t SegmentBytes(int64_t owner, size_t segment) const override {
    return parts_.SegmentBytes(owner, segment);
  }
  const std::byte* Segment(int64_t owner, size_t segment) const override {
    return parts_.Segment(owner, segment);
  }
  Result<std::byte*> RoomFor(int64_t owner, size_t segment) override {
    return parts_.RoomFor(owner, segment);
  }

  void AddWord(int64_t owner, MemoryParts* memory) override {
    Word& word = words_[static_cast<size_t>(owner)];
    memory->Add(&word, kWordBytes);
    if (word.bytes > kSmallBytes) return;
    memory->Add(owner == rank_ ? parts_.own_payload() : word.part.data(), word.bytes);
  }
  Result<bool> RoomForWord(int64_t owner, size_t bytes, MemoryParts* memory) override {
    if (bytes < kWordBytes || bytes > kWordBytes + kSmallBytes) {
      return DataLoss("{} bytes of what rank {} brings, expected {} to {}", bytes, Name(owner),
                      kWordBytes, kWordBytes + kSmallBytes);
    }
    Word& word = words_[static_cast<size_t>(owner)];
    word.part.resize(bytes - kWordBytes);
    memory->Add(&word, kWordBytes);
    memory->Add(word.part.data(), word.part.size());
    return true;
  }

  Status TakeWords() override {
    for (int64_t owner = 0; owner < size_; ++owner) {
      if (owner == rank_) continue;
      const Word& word = words_[static_cast<size_t>(owner)];
      dims_[axis_] = word.rows;
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims_.data(), dims_.size()));
      TUTTI_RETURN_IF_ERROR(parts_.Announce(owner, shape, word.bytes));
      const uint64_t along = word.bytes <= kSmallBytes ? word.bytes : 0;
      if (word.part.size() != along) {
        return DataLoss("{} bytes of a part of rank {}, expected {}", word.part.size(),
                        Name(owner), along);
      }
    }
    TUTTI_RETURN_IF_ERROR(parts_.MakePlaces());
    for (int64_t owner = 0; owner < size_; ++owner) {
      const Word& word = words_[static_cast<size_t>(owner)];
      if (owner == rank_ || word.part.empty()) continue;
      TUTTI_ASSIGN_OR_RETURN(std::byte* const room, parts_.RoomFor(owner, 0));
      std::memcpy(room, word.part.data(), word.part.size());
    }
    return OkStatus();
  }

 private:
  // What goes around of a rank: two numbers and, of a small part, the part.
  struct Word {
    int64_t rows = 0;
    uint64_t bytes = 0;
    std::vector<std::byte> part;
  };
  static constexpr size_t kWordBytes = sizeof(int64_t) + sizeof(uint64_t);
  static_assert(offsetof(Word, part) == kWordBytes);

  const size_t axis_;
  GatherParts parts_;
  Dims dims_;
  std::vector<Word> words_;  // by rank
};

}  // namespace

Result<std::unique_ptr<LinkAlgorithm>> MakeLinkRing(const LinkCallContext& context) {
  if (!context.call->header.uneven) {
    return std::unique_ptr<LinkAlgorithm>(std::make_unique<EqualRing>(context));
  }
  auto ring = std::make_unique<UnevenRing>(context);
  TUTTI_RETURN_IF_ERROR(ring->Prepare(*context.call->gather_input));
  return std::unique_ptr<LinkAlgorithm>(std::move(ring));
}

}  // namespace tutti

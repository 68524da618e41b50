// Collectives of a group whose pairs get their links when they first need them. The ranks form a
// binomial tree, whose neighbours are linked from the beginning (link_tree.h). A call's headers go
// up: a rank waits for those of all ranks below it and sends one frame. Rank 0 so has them all,
// compares them, and says down the tree that all are in the call. That is a barrier already: two
// frames for each of n - 1 links.
//
//   all_reduce, reduce   small ones: the inputs go along with the headers, one behind the other in
//                        the order of the ranks; rank 0 folds them in that order, so that the bits
//                        are those of any other algorithm, and the result goes along with its word
//   all_gather           small ones alike: what goes along with the word is all inputs
//   broadcast            the payload follows, in segments, over the same tree, from neighbour to
//                        neighbour away from the root
//
// Everything else then links the pairs between which its algorithm sends, those that have no link
// yet, and goes on as in a group whose pairs are all linked: a chain needs neighbours, a gather its
// root, an all_to_all everybody.
//
// A rank knows of the ranks below it and of nobody else. So that each of them can say who is
// missing, neighbours that wait for long tell each other who is known to be in the call (a roster).

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/wire_bytes.h"
#include "core/collective/stream/link_transport_state.h"

namespace tutti {
namespace {

constexpr int64_t kRosterAfterNs = 2 * kMillisecondNs;
constexpr int64_t kRosterPauseNs = 5 * kMillisecondNs;
constexpr size_t kTreeSegmentBytes = LinkSegmentBytes(256 << 10);

// Passes what comes from the neighbour towards the root on to all others.
class TreeShare final : public LinkExchange {
 public:
  TreeShare(const LinkTree& tree, const LinkCallContext& context)
      : context_(context),
        is_root_(tree.rank == context.call->header.root),
        source_(is_root_ ? -1 : tree.Towards(context.call->header.root)),
        bytes_(static_cast<size_t>(context.call->header.first.num_elements()) *
               ItemSize(context.call->header.first.dtype)),
        memory_(static_cast<std::byte*>(is_root_ ? const_cast<void*>(context.call->memory[0].input)
                                                 : context.call->memory[0].output)),
        num_segments_((bytes_ + kTreeSegmentBytes - 1) / kTreeSegmentBytes),
        received_(is_root_ ? num_segments_ : 0) {
    const auto add = [&](int64_t neighbour) {
      if (neighbour >= 0 && neighbour != source_) sinks_.push_back(Sink{neighbour, 0});
    };
    add(tree.parent());
    tree.ForEachChild(add);
  }

  bool NextSegment(int64_t peer, uint64_t* segment, MemoryParts* memory) override {
    for (Sink& sink : sinks_) {
      if (sink.peer != peer || sink.sent == received_) continue;
      *segment = sink.sent;
      memory->Add(memory_ + sink.sent * kTreeSegmentBytes, SegmentBytes(sink.sent));
      ++sink.sent;
      return true;
    }
    return false;
  }
  Result<bool> Accept(int64_t peer, uint64_t segment, size_t bytes, MemoryParts* memory) override {
    if (peer != source_ || segment != received_ || received_ == num_segments_ ||
        bytes != SegmentBytes(segment)) {
      return DataLoss("segment {} with {} bytes; segment {} of {} is due from rank {}", segment,
                      bytes, received_, num_segments_,
                      source_ < 0 ? source_ : context_.Name(source_));
    }
    memory->Add(memory_ + segment * kTreeSegmentBytes, bytes);
    return true;
  }
  Status Received(int64_t) override {
    ++received_;
    return OkStatus();
  }
  bool complete() const override {
    return received_ == num_segments_ &&
           std::all_of(sinks_.begin(), sinks_.end(),
                       [&](const Sink& sink) { return sink.sent == num_segments_; });
  }
  std::string Owed(int64_t peer) const override {
    if (peer != source_ || received_ == num_segments_) return "";
    return Format("{} of {} segments are here", received_, num_segments_);
  }

 private:
  struct Sink {
    int64_t peer = 0;
    size_t sent = 0;
  };

  size_t SegmentBytes(size_t segment) const {
    return std::min(kTreeSegmentBytes, bytes_ - segment * kTreeSegmentBytes);
  }

  const LinkCallContext context_;
  const bool is_root_;
  const int64_t source_;
  const size_t bytes_;
  std::byte* const memory_;
  const size_t num_segments_;
  size_t received_;
  std::vector<Sink> sinks_;
};

}  // namespace

Status LinkTransport::State::MeetOverTree(CollectiveCall* call, LinkWait* wait, bool* done) {
  const CollectiveOp op = call->header.op;
  previous_op_ = std::exchange(own_op_, call->named().header.op);
  stage_ = Stage::kTreeUp;
  roster_.assign(static_cast<size_t>(size_), '0');
  roster_[static_cast<size_t>(rank_)] = '1';
  roster_told_.clear();
  roster_due_ns_ = wait->start_ns() + kRosterAfterNs;
  const bool travels = TravelsOverTree(*call);
  const size_t bytes = travels ? TreeResultBytes(*call) : 0;

  TUTTI_RETURN_IF_ERROR(AwaitChildren(*call, wait));
  TUTTI_RETURN_IF_ERROR(GatherHeaders(*call));
  const std::byte* result = nullptr;
  if (rank_ == 0) {
    TUTTI_RETURN_IF_ERROR(DecideAtRoot(*call, travels));
    result = scratch_.data();
  } else {
    TUTTI_RETURN_IF_ERROR(SendUp(*call, travels, wait));
    stage_ = Stage::kTreeDown;
    const LinkPeer& parent = *peers_[static_cast<size_t>(tree_.parent())];
    TUTTI_RETURN_IF_ERROR(Loop(*call, nullptr, wait, [&] {
      return parent.tree(call->sequence) != nullptr && !parent.sending();
    }));
    const LinkPeer::Call& word = *parent.tree(call->sequence);
    const bool passes = op != CollectiveOp::kReduce || tree_.IsBelow(call->header.root, rank_);
    const size_t expected = passes ? bytes : 0;
    if (word.data_bytes != expected) {
      return DataLoss("rank {} sent {} bytes of result, expected {}", Name(parent.rank()),
                      word.data_bytes, expected)
          .With("peer", Name(parent.rank()));
    }
    result = word.data.data();
  }
  if (travels) TakeTreeResult(*call, result);
  TUTTI_RETURN_IF_ERROR(SendDown(*call, result, bytes, wait));
  if (data_over_tree_) {
    TUTTI_RETURN_IF_ERROR(BroadcastOverTree(*call, wait));
    *done = true;
  }
  *done |= travels || op == CollectiveOp::kBarrier;
  return OkStatus();
}

bool LinkTransport::State::TravelsOverTree(const CollectiveCall& call) {
  const CollectiveOp op = call.header.op;
  if (op != CollectiveOp::kAllReduce && op != CollectiveOp::kReduce &&
      (op != CollectiveOp::kAllGather || call.header.uneven)) {
    return false;
  }
  return ChooseLinkAlgorithm(Context(call)).algorithm == CollectiveAlgorithm::kTree;
}

size_t LinkTransport::State::TreeResultBytes(const CollectiveCall& call) const {
  const size_t bytes = LinkFoldBytes(call.header, size_);
  return call.header.op == CollectiveOp::kAllGather ? bytes * static_cast<size_t>(size_) : bytes;
}

void LinkTransport::State::TakeTreeResult(const CollectiveCall& call,
                                          const std::byte* result) const {
  const CallHeader& header = call.header;
  if (header.op != CollectiveOp::kAllGather) {
    if (header.op == CollectiveOp::kAllReduce || rank_ == header.root) {
      TakeLinkFoldResult(call, result);
    }
    return;
  }
  const size_t bytes =
      static_cast<size_t>(header.first.num_elements()) * ItemSize(header.first.dtype);
  if (bytes == 0) return;
  for (size_t rank = 0; rank < static_cast<size_t>(size_); ++rank) {
    std::memcpy(static_cast<std::byte*>(call.memory[0].output) + rank * bytes,
                result + rank * LinkFoldBytes(header, size_), bytes);
  }
}

Status LinkTransport::State::AwaitChildren(const CollectiveCall& call, LinkWait* wait) {
  return Loop(call, nullptr, wait, [&] {
    bool all = true;
    tree_.ForEachChild([&](int64_t child) {
      all = all && peers_[static_cast<size_t>(child)]->tree(call.sequence) != nullptr;
    });
    return all;
  });
}

Status LinkTransport::State::GatherHeaders(const CollectiveCall& call) {
  below_.clear();
  Status status;
  tree_.ForEachChild([&](int64_t child) {
    const LinkPeer::Call& word = *peers_[static_cast<size_t>(child)]->tree(call.sequence);
    const std::string_view body = word.body;
    const std::string_view base = body.substr(0, word.announced);
    WireReader reader(body.substr(base.size()));
    if (reader.remaining() == 0 && base == own_body_) return;
    if (base.empty()) {
      status = DataLoss("rank {} sent its word without a header", Name(child))
                   .With("peer", Name(child));
      return;
    }
    if (below_.empty()) below_.resize(static_cast<size_t>(size_));
    for (int64_t rank = child; rank < tree_.EndOf(child); ++rank) {
      if (base != own_body_) below_[static_cast<size_t>(rank)] = base;
    }
    while (reader.remaining() != 0) {
      const int64_t rank = reader.Take<uint32_t>();
      const std::string_view header = reader.TakeText();
      if (reader.failed() || header.empty() || !tree_.IsBelow(rank, child)) {
        status = DataLoss("rank {} sent headers that are none of ranks below it", Name(child))
                     .With("peer", Name(child));
        return;
      }
      below_[static_cast<size_t>(rank)] = header == own_body_ ? std::string_view() : header;
    }
  });
  return status;
}

Status LinkTransport::State::SendUp(const CollectiveCall& call, bool travels, LinkWait* wait) {
  LinkPeer& parent = *peers_[static_cast<size_t>(tree_.parent())];
  std::string body = own_body_;
  WireWriter writer(&body);
  for (size_t rank = 0; rank < below_.size(); ++rank) {
    const std::string& header = below_[rank];
    // Of many that differ some are enough to say so.
    if (header.empty() || body.size() - own_body_.size() + header.size() + 2 * sizeof(uint32_t) >
                              kMaxOtherHeaderBytes) {
      continue;
    }
    writer.Put(static_cast<uint32_t>(rank));
    writer.PutText(header);
  }
  MemoryParts inputs;
  if (travels) AddLinkFoldInput(call, &inputs);
  tree_.ForEachChild([&](int64_t child) {
    const LinkPeer::Call& word = *peers_[static_cast<size_t>(child)]->tree(call.sequence);
    inputs.Add(word.data.data(), word.data_bytes);
  });
  // A roster may be on its way.
  if (parent.sending()) {
    TUTTI_RETURN_IF_ERROR(Loop(call, nullptr, wait, [&] { return !parent.sending(); }));
  }
  if (!parent.may_start_frame()) return OkStatus();
  parent.StartFrame(FrameKind::kTree, call.sequence, own_body_.size(), body, &inputs);
  parent.Send();
  return OkStatus();
}

Status LinkTransport::State::DecideAtRoot(const CollectiveCall& call, bool travels) {
  const CallHeader& own = call.named().header;
  if (!below_.empty()) {
    std::vector<const CallHeader*> headers(static_cast<size_t>(size_), &own);
    for (size_t rank = 0; rank < below_.size(); ++rank) {
      if (below_[rank].empty()) continue;
      Result<CallHeader> parsed = ParseCallHeader(below_[rank]);
      if (!parsed.ok()) {
        const int64_t name = Name(static_cast<int64_t>(rank));
        return Status(parsed.status().code(),
                      Format("rank {} sent {}", name, parsed.status().message()))
            .With("peer", name);
      }
      headers_[rank] = std::move(parsed).value();
      headers[rank] = &headers_[rank];
    }
    TUTTI_RETURN_IF_ERROR(CheckSameCall(headers, Label(call.named().sequence)));
  }
  if (!travels) return OkStatus();
  const size_t bytes = LinkFoldBytes(call.header, size_);
  if (!scratch_.Reserve(TreeResultBytes(call))) {
    return ResourceExhausted("there are no {} bytes of memory for the result",
                             TreeResultBytes(call));
  }
  std::vector<const std::byte*> inputs(static_cast<size_t>(size_), nullptr);
  Status status;
  tree_.ForEachChild([&](int64_t child) {
    const LinkPeer::Call& word = *peers_[static_cast<size_t>(child)]->tree(call.sequence);
    const size_t expected = static_cast<size_t>(tree_.EndOf(child) - child) * bytes;
    if (word.data_bytes != expected) {
      status = DataLoss("rank {} sent {} bytes of inputs, expected {}", Name(child),
                        word.data_bytes, expected)
                   .With("peer", Name(child));
      return;
    }
    for (int64_t rank = child; rank < tree_.EndOf(child); ++rank) {
      inputs[static_cast<size_t>(rank)] =
          word.data.data() + static_cast<size_t>(rank - child) * bytes;
    }
  });
  TUTTI_RETURN_IF_ERROR(std::move(status));
  if (call.header.op != CollectiveOp::kAllGather) {
    return FoldLinkInputs(call, inputs, scratch_.data());
  }
  MemoryParts own_input;
  AddLinkFoldInput(call, &own_input);
  std::byte* next = scratch_.data();
  for (const iovec& part : own_input.rest()) {
    std::memcpy(next, part.iov_base, part.iov_len);
    next += part.iov_len;
  }
  for (size_t rank = 1; rank < inputs.size() && bytes != 0; ++rank) {
    std::memcpy(scratch_.data() + rank * bytes, inputs[rank], bytes);
  }
  return OkStatus();
}

Status LinkTransport::State::SendDown(const CollectiveCall& call, const std::byte* result,
                                      size_t bytes, LinkWait* wait) {
  // No rosters any more.
  stage_ = Stage::kAllHere;
  const auto pending = [&] {
    bool sends = false;
    tree_.ForEachChild([&](int64_t child) {
      sends = sends || peers_[static_cast<size_t>(child)]->sending();
    });
    return sends;
  };
  // A roster may be on its way.
  if (pending()) TUTTI_RETURN_IF_ERROR(Loop(call, nullptr, wait, [&] { return !pending(); }));
  tree_.ForEachChild([&](int64_t child) {
    LinkPeer& peer = *peers_[static_cast<size_t>(child)];
    if (!peer.may_start_frame()) return;
    MemoryParts parts;
    if (call.header.op != CollectiveOp::kReduce || tree_.IsBelow(call.header.root, child)) {
      parts.Add(result, bytes);
    }
    peer.StartFrame(FrameKind::kTree, call.sequence, own_body_.size(), own_body_, &parts);
    peer.Send();
  });
  if (!pending()) return OkStatus();
  return Loop(call, nullptr, wait, [&] { return !pending(); });
}

Status LinkTransport::State::BroadcastOverTree(const CollectiveCall& call, LinkWait* wait) {
  TreeShare share(tree_, Context(call));
  if (share.complete()) return OkStatus();
  return Exchange(call, &share, wait);
}

void LinkTransport::State::ShareRoster(const CollectiveCall& call, LinkWait* wait) {
  if (stage_ != Stage::kTreeUp && stage_ != Stage::kTreeDown) return;
  const int64_t now = environment_->clock().NowNs();
  if (now < roster_due_ns_) return wait->WakeAt(roster_due_ns_);
  std::vector<LinkPeer*> neighbours;
  if (rank_ != 0) neighbours.push_back(peers_[static_cast<size_t>(tree_.parent())].get());
  tree_.ForEachChild([&](int64_t child) {
    neighbours.push_back(peers_[static_cast<size_t>(child)].get());
    if (neighbours.back()->tree(call.sequence) == nullptr) return;
    for (int64_t rank = child; rank < tree_.EndOf(child); ++rank) {
      roster_[static_cast<size_t>(rank)] = '1';
    }
  });
  for (const LinkPeer* neighbour : neighbours) {
    const std::string_view theirs = neighbour->roster(call.sequence);
    for (size_t rank = 0; rank < std::min(theirs.size(), roster_.size()); ++rank) {
      if (theirs[rank] == '1') roster_[rank] = '1';
    }
  }
  if (roster_ == roster_told_) return;
  roster_told_ = roster_;
  roster_due_ns_ = now + kRosterPauseNs;
  const std::string body = std::string(1, static_cast<char>(own_op_)) + roster_;
  for (LinkPeer* neighbour : neighbours) {
    neighbour->QueueFrame(FrameKind::kRoster, call.sequence, 0, body);
    neighbour->Send();
  }
}

}  // namespace tutti

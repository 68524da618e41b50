// What the hardware lets an all_reduce of float32 sums take at best: no library, only the moves
// that cannot be avoided.
//
//   all_reduce_limit (memory|exchange|tcp) RANKS SIZES SECONDS
//
// `memory`: the ranks show each other a cache line once. Then each folds a slice, one of as many as
// there are ranks, and copies the other slices, all of it in memory of its own: every byte is read
// and written once, and none comes from another core, which takes longer. Plain stores or
// streaming ones, whichever are faster at that size.
// `exchange`: the same of two ranks, each of which has to have from the other's core what it folds
// and copies: it shows the other one its half, folds its own, shows the result. No headers, no
// errors, no deadlines; in chunks and with stores of the kind that are fastest at that size.
// `tcp`: over loopback each rank sends each other one a slice and waits for theirs, and once more:
// the bytes of a reduce_scatter and an all_gather, with no header, no fold and no copy but the
// kernel's. Or it sends everything once, where that is faster.
//
// Prints the lines of TimedCalls, as all_reduce_ranks does.

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include <errno.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <limits>
#include <new>

#include "tests/benchmarks/rank_processes.h"
#include "tests/benchmarks/timed_calls.h"

namespace tutti {
namespace {

// Lines in memory that all ranks map: how often each has come, and a number of rank 0.
struct Meeting {
  static constexpr int kMostRanks = 64;
  struct alignas(64) Line {
    std::atomic<uint64_t> comings;
  };
  std::array<Line, kMostRanks> lines;
  alignas(64) std::atomic<int64_t> number;
  alignas(64) std::atomic<uint64_t> word;
};

class Rank {
 public:
  Rank(Meeting* meeting, int rank, int ranks)
      : meeting_(meeting),
        rank_(rank),
        ranks_(ranks),
        has_core_(BindToCore(rank, ranks)),
        round_trips_(&meeting->word, rank) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // Null where ranks share a core.
  RoundTrips* round_trips() { return has_core_ ? &round_trips_ : nullptr; }

  void Meet() {
    Line(rank_).store(++comings_, std::memory_order_release);
    for (int peer = 0; peer < ranks_; ++peer) {
      while (Line(peer).load(std::memory_order_acquire) < comings_) {
        if (!has_core_) sched_yield();
      }
    }
  }

  int64_t Agree(int64_t number) {
    if (rank_ == 0) meeting_->number.store(number, std::memory_order_relaxed);
    Meet();
    const int64_t agreed = meeting_->number.load(std::memory_order_relaxed);
    Meet();
    return agreed;
  }

 private:
  std::atomic<uint64_t>& Line(int rank) const {
    return meeting_->lines[static_cast<size_t>(rank)].comings;
  }

  Meeting* const meeting_;
  const int rank_;
  const int ranks_;
  const bool has_core_;
  RoundTrips round_trips_;
  uint64_t comings_ = 0;
};

#if defined(__x86_64__)
#define TUTTI_FOR_EACH_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TUTTI_FOR_EACH_WIDTH
#endif

TUTTI_FOR_EACH_WIDTH void Add(const float* a, const float* b, size_t count, float* sum) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

#if defined(__SSE2__)
// Of whole cache lines, with stores that do not read the line first.
void AddStreaming(const float* a, const float* b, size_t count, float* sum) {
  for (size_t i = 0; i < count; i += 4) {
    _mm_stream_ps(sum + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
  }
  _mm_sfence();
}

void CopyStreaming(const float* from, size_t count, float* to) {
  for (size_t i = 0; i < count; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
  _mm_sfence();
}
#endif

void Add(const float* a, const float* b, size_t count, bool streaming, float* sum) {
#if defined(__SSE2__)
  if (streaming) return AddStreaming(a, b, count, sum);
#endif
  Add(a, b, count, sum);
}

void Copy(const float* from, size_t count, bool streaming, float* to) {
#if defined(__SSE2__)
  if (streaming) return CopyStreaming(from, count, to);
#endif
  std::memcpy(to, from, count * sizeof(float));
}

// So many floats that each of `parts` parts is of whole cache lines.
size_t Padded(size_t count, int parts) {
  const size_t unit = 16 * static_cast<size_t>(parts);
  return (count + unit - 1) / unit * unit;
}

class AlignedFloats {
 public:
  explicit AlignedFloats(size_t count)
      : floats_(static_cast<float*>(::operator new(count * sizeof(float), kAlignment))) {
    std::fill_n(floats_, count, 1.0F);
  }
  ~AlignedFloats() { ::operator delete(floats_, kAlignment); }
  AlignedFloats(const AlignedFloats&) = delete;
  AlignedFloats& operator=(const AlignedFloats&) = delete;

  float* get() const { return floats_; }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  float* const floats_;
};

// A rank's moves in its own memory.
class Moves {
 public:
  Moves(size_t count, int ranks)
      : ranks_(static_cast<size_t>(ranks)), padded_(Padded(count, ranks)) {}

  void Run(bool streaming) {
    for (size_t i = 0; i + 1 < ranks_; ++i) {
      const float* const sum_so_far = i == 0 ? input_.get() : output_.get();
      Add(sum_so_far, peers_.get() + i * slice(), slice(), streaming, output_.get());
    }
    for (size_t at = slice(); at < padded_; at += slice()) {
      Copy(peers_.get() + at, slice(), streaming, output_.get() + at);
    }
  }

 private:
  size_t slice() const { return padded_ / ranks_; }

  const size_t ranks_;
  const size_t padded_;
  AlignedFloats input_{padded_};
  AlignedFloats peers_{padded_};
  AlignedFloats output_{padded_};
};

// What two ranks show each other: of each two slots for its inputs, and two for its results, which
// take turns, so that nobody waits until the other has read.
struct Shown {
  static constexpr size_t kMostFloats = 256 << 8;
  struct Slots {
    alignas(4096) float inputs[2][kMostFloats];
    alignas(4096) float results[2][kMostFloats];
  };
  Slots ranks[2];
};

// One of two ranks, which has what the other one shows, and nothing else of it.
class Exchange {
 public:
  struct Way {
    size_t chunk;  // floats of a half at a time; 0: each folds everything, at once
    bool streaming;
    bool in_inputs;  // a result goes where its input was shown
  };

  Exchange(Rank* rank, Shown* shown, size_t count)
      : rank_(rank),
        own_(&shown->ranks[rank->rank()]),
        peers_(&shown->ranks[1 - rank->rank()]),
        padded_(Padded(count, 2)) {}

  void Run(Way way) {
    if (way.chunk == 0) return FoldEverything(way.streaming);
    const size_t half = padded_ / 2;
    const size_t own = rank_->rank() == 0 ? 0 : half;
    const size_t peers = half - own;
    for (size_t at = 0; at < half; at += way.chunk) {
      const size_t count = std::min(way.chunk, half - at);
      const size_t slot = turn_++ % 2;
      Copy(input_.get() + peers + at, count, way.streaming, own_->inputs[slot]);
      rank_->Meet();
      Add(input_.get() + own + at, peers_->inputs[slot], count, false, output_.get() + own + at);
      float* const results = way.in_inputs ? peers_->inputs[slot] : own_->results[slot];
      Copy(output_.get() + own + at, count, way.streaming, results);
      rank_->Meet();
      std::memcpy(output_.get() + peers + at,
                  way.in_inputs ? own_->inputs[slot] : peers_->results[slot],
                  count * sizeof(float));
    }
  }

  std::vector<Way> Ways() const {
    std::vector<Way> ways;
    for (const bool streaming : {false, true}) {
      if (padded_ <= Shown::kMostFloats) ways.push_back({0, streaming, false});
      for (size_t chunk = Shown::kMostFloats; chunk >= Shown::kMostFloats / 16; chunk /= 4) {
        ways.push_back({chunk, streaming, false});
        if (!streaming) ways.push_back({chunk, streaming, true});
      }
    }
    return ways;
  }

 private:
  void FoldEverything(bool streaming) {
    const size_t slot = turn_++ % 2;
    Copy(input_.get(), padded_, streaming, own_->inputs[slot]);
    rank_->Meet();
    Add(input_.get(), peers_->inputs[slot], padded_, false, output_.get());
  }

  Rank* const rank_;
  Shown::Slots* const own_;
  Shown::Slots* const peers_;
  const size_t padded_;
  size_t turn_ = 0;
  AlignedFloats input_{padded_};
  AlignedFloats output_{padded_};
};

// A rank's ends of the sockets, and the bytes that go through them.
class Flows {
 public:
  // `bytes` to each peer and from it; spins where it may not sleep.
  Flows(const std::vector<FileDescriptor>& sockets, size_t bytes, bool may_sleep)
      : bytes_(bytes), may_sleep_(may_sleep) {
    for (const FileDescriptor& socket : sockets) {
      if (!socket) continue;
      Flow& flow = flows_.emplace_back();
      flow.socket = socket.get();
    }
  }

  void Exchange() {
    for (Flow& flow : flows_) flow.sent = flow.received = 0;
    while (!Advance()) {
      if (may_sleep_) AwaitPeers();
    }
  }

 private:
  struct Flow {
    int socket = -1;
    size_t sent = 0;
    size_t received = 0;
  };

  // All bytes go out of and into the same memory, which stays in the cache.
  bool Advance() {
    bool done = true;
    for (Flow& flow : flows_) {
      const size_t unsent = std::min(bytes_ - flow.sent, piece_.size());
      if (unsent != 0) {
        flow.sent += Moved(send(flow.socket, piece_.data(), unsent, MSG_DONTWAIT | MSG_NOSIGNAL));
      }
      const size_t missing = std::min(bytes_ - flow.received, piece_.size());
      if (missing != 0) {
        flow.received += Moved(recv(flow.socket, piece_.data(), missing, MSG_DONTWAIT));
      }
      done = done && flow.sent == bytes_ && flow.received == bytes_;
    }
    return done;
  }

  void AwaitPeers() {
    std::vector<pollfd> waits;
    for (const Flow& flow : flows_) {
      short events = 0;
      if (flow.sent != bytes_) events |= POLLOUT;
      if (flow.received != bytes_) events |= POLLIN;
      if (events != 0) waits.push_back({flow.socket, events, 0});
    }
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) Die("poll failed");
  }

  static size_t Moved(ssize_t bytes) {
    if (bytes > 0) return static_cast<size_t>(bytes);
    if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) Die("a connection has ended");
    return 0;
  }

  // What a packet of the loopback interface carries.
  std::vector<char> piece_ = std::vector<char>(65'463);
  const size_t bytes_;
  const bool may_sleep_;
  std::vector<Flow> flows_;
};

void Print(Rank* rank, double seconds, int64_t bytes, std::function<void()> call) {
  TimedCalls timed;
  timed.rank = rank->rank();
  timed.seconds = seconds;
  timed.call = std::move(call);
  timed.agree = [rank](int64_t number) { return rank->Agree(number); };
  timed.round_trips = rank->round_trips();
  timed.Print(bytes);
}

double BestSeconds(Rank* rank, const std::function<void()>& call) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    rank->Meet();
    const double begin = NowSeconds();
    call();
    best = std::min(best, NowSeconds() - begin);
  }
  return best;
}

void TimeMemory(Rank* rank, double seconds, int64_t bytes) {
  Moves moves(static_cast<size_t>(bytes) / sizeof(float), rank->ranks());
  const double plain_seconds = BestSeconds(rank, [&] { moves.Run(false); });
  const double streaming_seconds = BestSeconds(rank, [&] { moves.Run(true); });
  const bool streaming = rank->Agree(streaming_seconds < plain_seconds ? 1 : 0) != 0;
  Print(rank, seconds, bytes, [&] {
    rank->Meet();
    moves.Run(streaming);
  });
}

void TimeExchange(Rank* rank, double seconds, int64_t bytes, Shown* shown) {
  Exchange exchange(rank, shown, static_cast<size_t>(bytes) / sizeof(float));
  const std::vector<Exchange::Way> ways = exchange.Ways();
  size_t best = 0;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < ways.size(); ++i) {
    const double took = BestSeconds(rank, [&] { exchange.Run(ways[i]); });
    if (took < best_seconds) {
      best = i;
      best_seconds = took;
    }
  }
  const auto way = static_cast<size_t>(rank->Agree(static_cast<int64_t>(best)));
  Print(rank, seconds, bytes, [&] { exchange.Run(ways[way]); });
}

void TimeTcp(Rank* rank, double seconds, int64_t bytes,
             const std::vector<FileDescriptor>& sockets) {
  const auto whole = static_cast<size_t>(bytes);
  const bool may_sleep = rank->round_trips() == nullptr;
  Flows slices(sockets, (whole + sockets.size() - 1) / sockets.size(), may_sleep);
  Flows everything(sockets, whole, may_sleep);
  const std::function<void()> in_two_steps = [&] {
    slices.Exchange();
    slices.Exchange();
  };
  const std::function<void()> at_once = [&] { everything.Exchange(); };
  const double two_steps_seconds = BestSeconds(rank, in_two_steps);
  const double at_once_seconds = BestSeconds(rank, at_once);
  Print(rank, seconds, bytes,
        rank->Agree(at_once_seconds < two_steps_seconds ? 1 : 0) != 0 ? at_once : in_two_steps);
}

int Main(int argc, char** argv) {
  const std::string over = argc == 5 ? argv[1] : "";
  const int ranks = argc == 5 ? std::atoi(argv[2]) : 0;
  const bool possible = over == "exchange" ? ranks == 2 : over == "memory" || over == "tcp";
  if (!possible || ranks < 2 || ranks > Meeting::kMostRanks) {
    std::fprintf(stderr, "usage: all_reduce_limit (memory|tcp) RANKS SIZES SECONDS\n"
                         "       all_reduce_limit exchange 2 SIZES SECONDS\n");
    return 2;
  }
  const double seconds = std::atof(argv[4]);
  auto* const meeting = new (SharedZeros(sizeof(Meeting))) Meeting();
  auto* const shown = new (SharedZeros(sizeof(Shown))) Shown;
  std::vector<std::vector<FileDescriptor>> sockets = ConnectedRanks(over == "tcp" ? ranks : 1);
  const bool good = RunProcesses(ranks, [&](int number) {
    std::vector<FileDescriptor> own;
    if (over == "tcp") own = std::move(sockets[static_cast<size_t>(number)]);
    sockets.clear();  // the other ranks' ends
    Rank rank(meeting, number, ranks);
    for (const int64_t bytes : ParseSizes(argv[3])) {
      if (over == "tcp") {
        TimeTcp(&rank, seconds, bytes, own);
      } else if (over == "exchange") {
        TimeExchange(&rank, seconds, bytes, shown);
      } else {
        TimeMemory(&rank, seconds, bytes);
      }
    }
  });
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) { return tutti::Main(argc, argv); }

// Communicators of GPUs on the fake NCCL: every operation against the CPU's fold, how they are made
// of each other and ended, which versions do, and what goes wrong with its sentence.
#include "tests/gpu/nccl_testing.h"

#include <cstring>

#include "core/tensor/reduce.h"

namespace tutti::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Bytes = std::vector<unsigned char>;

size_t ItemBytes(DType dtype) {
  size_t bytes = 0;
  VisitDType(dtype, [&](auto tag) { bytes = sizeof(typename decltype(tag)::type); });
  return bytes;
}

// Small numbers of a dtype, so that no fold of them overflows; bytes of bool are 0 and 1.
Bytes SmallNumbers(DType dtype, size_t count, uint64_t seed) {
  Bytes bytes(count * ItemBytes(dtype));
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, BytesView>) {
      for (size_t i = 0; i < count; ++i) {
        const int value = static_cast<int>((i * 7 + seed * 13 + i / 3) % 5) + 1;
        T item{};
        if constexpr (std::is_same_v<T, bool>) {
          item = value % 2 == 0;
        } else if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
          item = static_cast<T>(value);
        } else if constexpr (kIsComplex<T>) {
          item = T{static_cast<decltype(T::real)>(value), -1};
        } else {
          // 1, 1.5, 2, ... of 16-bit floats, which no sum here rounds.
          const uint16_t one = std::is_same_v<T, Float16> ? 0x3c00 : 0x3f80;
          const int mantissa = std::is_same_v<T, Float16> ? 10 : 7;
          item = T{static_cast<uint16_t>(one + ((value - 1) << (mantissa - 1)))};
        }
        std::memcpy(&bytes[i * sizeof(T)], &item, sizeof(T));
      }
    }
  });
  return bytes;
}

std::vector<DType> NumberTypes() {
  std::vector<DType> types;
  for (int32_t i = 1; i <= static_cast<int32_t>(DType::kComplex128); ++i) {
    types.push_back(static_cast<DType>(i));
  }
  return types;
}

// What the table says that NCCL has.
bool NcclHas(ReduceOp op, DType dtype) {
  if (op > ReduceOp::kProd) return false;
  const bool extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
  switch (dtype) {
    case DType::kInt16:
    case DType::kUint16:
      return false;
    case DType::kBool:
      return extreme;
    case DType::kComplex64:
    case DType::kComplex128:
      return op == ReduceOp::kSum || op == ReduceOp::kMean;
    default:
      return op != ReduceOp::kMean || IsFloating(dtype);
  }
}

TEST_F(Nccl, FoldsGiveTheBitsOfTheCpuForEveryDtypeAndReduction) {
  constexpr size_t kN = 37;
  for (const int n : {2, 5, 8}) {
    Make(n);
    for (const DType dtype : NumberTypes()) {
      const size_t bytes = kN * ItemBytes(dtype);
      std::vector<Bytes> inputs;
      std::vector<const void*> pointers;
      for (int r = 0; r < n; ++r) {
        inputs.push_back(SmallNumbers(dtype, kN * static_cast<size_t>(n),
                                      static_cast<uint64_t>(r)));
      }
      for (const Bytes& input : inputs) pointers.push_back(input.data());
      for (int32_t number = 1; number <= static_cast<int32_t>(kLastReduceOp); ++number) {
        const auto op = static_cast<ReduceOp>(number);
        const std::string about = std::string(ReduceOpName(op)) + " of " +
                                  std::string(DTypeName(dtype)) + " of " + std::to_string(n);
        if (!NcclHas(op, dtype)) {
          const Status refused = ranks_[0]->communicator->AllReduce(
              *ranks_[0]->stream, op, dtype, nullptr, nullptr, 0);
          EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << about;
          EXPECT_THAT(refused.ToString(), HasSubstr("NCCL has no ")) << about;
          continue;
        }
        Bytes expected(bytes * static_cast<size_t>(n));
        GPU_OK(ReduceInto(op, dtype, pointers, static_cast<int64_t>(kN) * n, expected.data()));
        ExpectOk(OnRanks([&](int r, Rank& rank) -> Status {
          const auto& comm = rank.communicator;
          void* const in = rank.Copied(inputs[static_cast<size_t>(r)]);
          void* const out = rank.Memory(bytes);
          TUTTI_RETURN_IF_ERROR(comm->ReduceScatter(*rank.stream, op, dtype, in, out, kN));
          const size_t at = bytes * static_cast<size_t>(r);
          EXPECT_EQ(0, std::memcmp(rank.Read(out, bytes).data(), expected.data() + at, bytes))
              << "reduce_scatter " << about;
          TUTTI_RETURN_IF_ERROR(comm->Reduce(*rank.stream, op, dtype, in, out, kN, n - 1));
          if (r == n - 1) {
            EXPECT_EQ(0, std::memcmp(rank.Read(out, bytes).data(), expected.data(), bytes))
                << "reduce " << about;
          }
          // In place.
          TUTTI_RETURN_IF_ERROR(comm->AllReduce(*rank.stream, op, dtype, in, in, kN));
          EXPECT_EQ(0, std::memcmp(rank.Read(in, bytes).data(), expected.data(), bytes))
              << "all_reduce " << about;
          for (void* memory : std::exchange(rank.memories, {})) {
            TUTTI_RETURN_IF_ERROR(
                AsStatus(api().release_on_stream(rank.stream->raw(), memory)));
          }
          return OkStatus();
        }));
      }
    }
  }
}

TEST_F(Nccl, WhatOnlyMovesTakesEveryDtype) {
  constexpr size_t kN = 11;
  constexpr int kRanks = 3;
  Make(kRanks);
  for (const DType dtype : NumberTypes()) {
    const size_t bytes = kN * ItemBytes(dtype);
    Bytes all;
    std::vector<Bytes> inputs;
    for (int r = 0; r < kRanks; ++r) {
      inputs.push_back(SmallNumbers(dtype, kN, static_cast<uint64_t>(r) + 50));
      all.insert(all.end(), inputs.back().begin(), inputs.back().end());
    }
    ExpectOk(OnRanks([&](int r, Rank& rank) -> Status {
      const auto& comm = rank.communicator;
      const auto at = static_cast<size_t>(r);
      void* const in = rank.Copied(inputs[at]);
      void* const out = rank.Memory(bytes * kRanks);
      TUTTI_RETURN_IF_ERROR(comm->AllGather(*rank.stream, dtype, in, out, kN));
      EXPECT_EQ(rank.Read(out, all.size()), all) << DTypeName(dtype);
      TUTTI_RETURN_IF_ERROR(
          comm->Broadcast(*rank.stream, dtype, r == 1 ? in : nullptr, out, kN, 1));
      EXPECT_EQ(rank.Read(out, bytes), inputs[1]) << DTypeName(dtype);
      // Around the ring, in one group.
      TUTTI_ASSIGN_OR_RETURN(GpuGroup group, GpuGroup::Start(plugin_));
      const int next = (r + 1) % kRanks, last = (r + kRanks - 1) % kRanks;
      TUTTI_RETURN_IF_ERROR(comm->Send(*rank.stream, dtype, in, kN, next));
      TUTTI_RETURN_IF_ERROR(comm->Receive(*rank.stream, dtype, out, kN, last));
      TUTTI_RETURN_IF_ERROR(group.End());
      EXPECT_EQ(rank.Read(out, bytes), inputs[static_cast<size_t>(last)]) << DTypeName(dtype);
      return OkStatus();
    }));
  }
}

TEST_F(Nccl, OneThreadDrivesAllRanksInAGroup) {
  Make(4);
  std::vector<void*> memories;
  for (const auto& rank : ranks_) {
    memories.push_back(rank->Copied(SmallNumbers(DType::kInt32, 8, 1)));
  }
  auto started = GpuGroup::Start(plugin_);
  GPU_OK(started);
  GpuGroup group = std::move(started).value();
  for (size_t i = 0; i < 4; ++i) {
    GPU_OK(ranks_[i]->communicator->AllReduce(*ranks_[i]->stream, ReduceOp::kMax, DType::kInt32,
                                              memories[i], memories[i], 8));
  }
  const CallOptions options = InTime();
  GPU_OK(group.End({&options, &RealClock()}));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ranks_[i]->Read(memories[i], 32), SmallNumbers(DType::kInt32, 8, 1));
  }
}

TEST_F(Nccl, OperationsStandOnTheirStreamOnlyWhenNothingIsInProgress) {
  Make(2);
  fake::NcclFaults faults;
  faults.in_progress = 20;
  Break(faults);
  ExpectOk(OnRanks([&](int, Rank& rank) -> Status {
    void* const memory = rank.Copied(SmallNumbers(DType::kFloat32, 4, 3));
    TUTTI_RETURN_IF_ERROR(rank.communicator->AllReduce(
        *rank.stream, ReduceOp::kSum, DType::kFloat32, memory, memory, 4));
    Bytes expected(16);
    const Bytes input = SmallNumbers(DType::kFloat32, 4, 3);
    const void* const inputs[] = {input.data(), input.data()};
    TUTTI_RETURN_IF_ERROR(ReduceInto(ReduceOp::kSum, DType::kFloat32, inputs, 4,
                                     expected.data()));
    EXPECT_EQ(rank.Read(memory, 16), expected);
    return OkStatus();
  }));
}

TEST_F(Nccl, AWaitForARankThatDoesNotComeEndsByDeadlineAndByCancellation) {
  const auto id = NewGpuCommunicatorId(*plugin_);
  GPU_OK(id);
  auto made = GpuCommunicator::Begin(Place(0), {id.value(), 0, 2});
  GPU_OK(made);
  CallOptions options = InTime(20);
  const Status late = made.value()->AwaitReady({&options, &RealClock()});
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.ToString(), HasSubstr("waiting for the ranks of a communicator of GPUs"));
  const auto cancellation = MakeRef<Cancellation>();
  cancellation->Cancel();
  options = InTime();
  options.cancellation = cancellation.get();
  EXPECT_EQ(made.value()->AwaitReady({&options, &RealClock()}).code(), StatusCode::kCancelled);
  EXPECT_THAT(made.value()
                  ->AllReduce(*GpuStream::Create(Place(0)).value(), ReduceOp::kSum,
                              DType::kFloat32, nullptr, nullptr, 0)
                  .ToString(),
              HasSubstr("is not ready; call await_ready first"));
}

TEST_F(Nccl, AbortWakesWhatWaitsForADeadRank) {
  Make(3);
  // Rank 2 never comes.
  void* memories[2];
  for (size_t i = 0; i < 2; ++i) {
    memories[i] = ranks_[i]->Copied(SmallNumbers(DType::kInt64, 2, 1));
    GPU_OK(ranks_[i]->communicator->AllReduce(*ranks_[i]->stream, ReduceOp::kSum, DType::kInt64,
                                              memories[i], memories[i], 2));
  }
  const CallOptions soon = InTime(20);
  EXPECT_EQ(ranks_[0]->stream->Wait({&soon, &RealClock()}).code(),
            StatusCode::kDeadlineExceeded);
  GPU_OK(ranks_[0]->communicator->Poll());
  const std::vector<Ref<GpuCommunicator>> here = {ranks_[0]->communicator,
                                                  ranks_[1]->communicator};
  const CallOptions options = InTime();
  GPU_OK(GpuCommunicator::Abort(here, {&options, &RealClock()}));
  GPU_OK(ranks_[0]->stream->Wait({&options, &RealClock()}));
  GPU_OK(ranks_[1]->stream->Wait({&options, &RealClock()}));
  const Status after = ranks_[0]->communicator->AllReduce(
      *ranks_[0]->stream, ReduceOp::kSum, DType::kInt64, memories[0], memories[0], 2);
  EXPECT_EQ(after.code(), StatusCode::kAborted);
  EXPECT_THAT(after.ToString(), HasSubstr("GPU:0, rank 0 of 3: the communicator was aborted"));
  EXPECT_EQ(ranks_[0]->communicator->Info().value().state, TUTTI_PLUGIN_COMMUNICATOR_ABORTED);
  GPU_OK(GpuCommunicator::Abort(here));  // once more changes nothing
}

TEST_F(Nccl, AnAbortWakesAThreadThatWaitsForNccl) {
  Begin(2);
  fake::NcclFaults faults;
  faults.in_progress = 1 << 30;
  Break(faults);
  GPU_OK(ranks_[0]->communicator->AwaitReady());
  void* const memory = ranks_[0]->Copied(SmallNumbers(DType::kInt64, 2, 1));
  Status woken;
  std::thread waiting([&] {
    woken = ranks_[0]->communicator->AllReduce(*ranks_[0]->stream, ReduceOp::kSum, DType::kInt64,
                                               memory, memory, 2);
  });
  const std::vector<Ref<GpuCommunicator>> one = {ranks_[0]->communicator};
  GPU_OK(GpuCommunicator::Abort(one));
  waiting.join();
  EXPECT_EQ(woken.code(), StatusCode::kAborted) << woken.ToString();
}

TEST_F(Nccl, AnAbortThatHangsIsQuarantinedAndReported) {
  std::vector<std::string> lines;
  options_.log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  Use(TUTTI_GPU_NCCL);
  Make(2);
  fake::NcclFaults faults;
  faults.abort_hangs = 1;
  Break(faults);
  const std::vector<Ref<GpuCommunicator>> here = {ranks_[0]->communicator,
                                                  ranks_[1]->communicator};
  const CallOptions soon = InTime(20);
  const Status hung = GpuCommunicator::Abort(here, {&soon, &RealClock()});
  EXPECT_EQ(hung.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(hung.ToString(), AllOf(HasSubstr("aborting GPU:0, rank 0 of 2 and 1 more"),
                                     HasSubstr("hangs in NCCL"), HasSubstr("start it again")));
  EXPECT_THAT(lines.back(), HasSubstr("hangs in NCCL"));
  EXPECT_EQ(NumQuarantinedGpuCommunicators(*plugin_), 2);
  ranks_.clear();  // the handles go all the same
  Break({});
  const Deadline end = InTime().deadline;
  while (NumQuarantinedGpuCommunicators(*plugin_) > 0 && !end.Expired(RealClock())) {
    std::this_thread::yield();
  }
  EXPECT_EQ(NumQuarantinedGpuCommunicators(*plugin_), 0);
}

struct Fault {
  int32_t outcome;
  StatusCode code;
  const char* message;
};

TEST_F(Nccl, ErrorsOfNcclHaveACodeAndWhatItSaidLast) {
  for (const Fault& fault :
       {Fault{6, StatusCode::kUnavailable, "another rank has failed or is gone"},
        Fault{2, StatusCode::kInternal, "unhandled system error (2)"},
        Fault{1, StatusCode::kInternal, "unhandled cuda error (1)"},
        Fault{5, StatusCode::kInvalidArgument, "invalid usage (5)"},
        Fault{8, StatusCode::kDeadlineExceeded, "timeout (8)"}}) {
    // Comes out of a later question, after the work was taken.
    Make(2);
    fake::NcclFaults faults;
    faults.error = fault.outcome;
    faults.error_rank = 1;
    faults.error_operation = 1;
    Break(faults);
    for (const auto& rank : ranks_) {
      void* const memory = rank->Copied(SmallNumbers(DType::kInt8, 2, 1));
      GPU_OK(rank->communicator->AllReduce(*rank->stream, ReduceOp::kSum, DType::kInt8, memory,
                                           memory, 2));
    }
    GPU_OK(ranks_[0]->communicator->Poll());
    const Status found = ranks_[1]->communicator->Poll();
    EXPECT_EQ(found.code(), fault.code) << found.ToString();
    EXPECT_THAT(found.ToString(),
                AllOf(HasSubstr("GPU:1, rank 1 of 2"), HasSubstr(fault.message)));
    // And stays.
    EXPECT_EQ(ranks_[1]->communicator->Poll().ToString(), found.ToString());
    EXPECT_EQ(ranks_[1]->communicator->Info().value().state, TUTTI_PLUGIN_COMMUNICATOR_FAILED);
    // While one is made, and when an operation is called.
    faults.error_operation = 0;
    Break(faults);
    Begin(2);
    GPU_OK(ranks_[0]->communicator->AwaitReady());
    EXPECT_EQ(ranks_[1]->communicator->AwaitReady().code(), fault.code);
    faults = {};
    faults.refuse = fault.outcome;
    Break(faults);
    const Status refused = ranks_[0]->communicator->AllReduce(
        *ranks_[0]->stream, ReduceOp::kSum, DType::kInt8, nullptr, nullptr, 0);
    EXPECT_EQ(refused.code(), fault.code);
    EXPECT_THAT(refused.ToString(),
                AllOf(HasSubstr("all_reduce: "), HasSubstr("refused by the test")));
    Break({});
  }
}

TEST_F(Nccl, RanksThatCallDifferentOperationsAllHearOfIt) {
  Make(2);
  ExpectOk(OnRanks([&](int r, Rank& rank) -> Status {
    void* const memory = rank.Copied(SmallNumbers(DType::kInt8, 8, 1));
    const uint64_t elements = static_cast<uint64_t>(r) + 4;
    TUTTI_RETURN_IF_ERROR(rank.communicator->AllReduce(*rank.stream, ReduceOp::kSum, DType::kInt8,
                                                       memory, memory, elements));
    return rank.stream->Wait();
  }));
  for (const auto& rank : ranks_) {
    EXPECT_THAT(rank->communicator->Poll().ToString(),
                HasSubstr("internal error (3): ranks call different operations"));
  }
}

TEST_F(Nccl, SplitMakesACommunicatorForEachColorInTheOrderOfTheKeys) {
  Make(5);
  std::vector<Ref<GpuCommunicator>> made;
  for (int r = 0; r < 5; ++r) {
    auto one = ranks_[static_cast<size_t>(r)]->communicator->Split(
        r == 4 ? TUTTI_PLUGIN_NO_COLOR : r % 2, -r);
    GPU_OK(one);
    made.push_back(std::move(one).value());
  }
  EXPECT_FALSE(made[4]);
  for (size_t r = 0; r < 4; ++r) {
    GPU_OK(made[r]->AwaitReady());
    const auto info = made[r]->Info().value();
    EXPECT_EQ(info.num_ranks, 2);
    EXPECT_EQ(info.rank, r < 2 ? 1 : 0);
    EXPECT_EQ(info.state, TUTTI_PLUGIN_COMMUNICATOR_READY);
  }
  EXPECT_THAT(ranks_[0]->communicator->Split(-2, 0).status().ToString(),
              HasSubstr("color -2 is negative; -1 is for ranks that are in none"));
  // The old ones and the new ones go on.
  ranks_.pop_back();
  ExpectOk(OnRanks([&](int r, Rank& rank) -> Status {
    void* const memory = rank.Copied(SmallNumbers(DType::kInt32, 3, static_cast<uint64_t>(r)));
    TUTTI_RETURN_IF_ERROR(made[static_cast<size_t>(r)]->Broadcast(
        *rank.stream, DType::kInt32, memory, memory, 3, 0));
    EXPECT_EQ(rank.Read(memory, 12),
              SmallNumbers(DType::kInt32, 3, static_cast<uint64_t>(r % 2 + 2)));
    return OkStatus();
  }));
}

TEST_F(Nccl, ShrinkLeavesOutRanksAfterARevoke) {
  Make(3);
  std::vector<void*> memories;
  for (size_t i = 0; i < 2; ++i) {
    memories.push_back(ranks_[i]->Copied(SmallNumbers(DType::kInt32, 2, i)));
    GPU_OK(ranks_[i]->communicator->AllReduce(*ranks_[i]->stream, ReduceOp::kSum, DType::kInt32,
                                              memories[i], memories[i], 2));
  }
  const CallOptions options = InTime();
  const GpuWait wait{&options, &RealClock()};
  for (size_t i = 0; i < 2; ++i) GPU_OK(ranks_[i]->communicator->Revoke(wait));
  EXPECT_THAT(ranks_[0]->communicator
                  ->AllReduce(*ranks_[0]->stream, ReduceOp::kSum, DType::kInt32, memories[0],
                              memories[0], 2)
                  .ToString(),
              AllOf(HasSubstr("ABORTED"), HasSubstr("was revoked; shrink or split it")));
  const int32_t gone[] = {2};
  std::vector<Ref<GpuCommunicator>> made;
  for (size_t i = 0; i < 2; ++i) {
    auto one = ranks_[i]->communicator->Shrink(gone, false);
    GPU_OK(one);
    made.push_back(std::move(one).value());
  }
  for (const auto& one : made) {
    GPU_OK(one->AwaitReady(wait));
    EXPECT_EQ(one->Info().value().num_ranks, 2);
  }
  const int32_t itself[] = {0}, outside[] = {3};
  EXPECT_THAT(ranks_[0]->communicator->Shrink(itself, false).status().ToString(),
              HasSubstr("cannot leave out rank 0; name others"));
  EXPECT_THAT(ranks_[0]->communicator->Shrink(outside, true).status().ToString(),
              HasSubstr("cannot leave out rank 3"));
  EXPECT_THAT(ranks_[0]->communicator->Shrink({}, true).status().ToString(),
              HasSubstr("there is no rank to leave out"));
}

TEST_F(Nccl, WhatARemoteErrorLeftShrinks) {
  Make(3);
  fake::NcclFaults faults;
  faults.error = 6;
  faults.error_operation = 1;
  Break(faults);
  std::vector<Ref<GpuCommunicator>> made;
  const int32_t gone[] = {2};
  for (size_t i = 0; i < 2; ++i) {
    void* const memory = ranks_[i]->Copied(SmallNumbers(DType::kInt32, 2, i));
    const auto& comm = ranks_[i]->communicator;
    GPU_OK(comm->AllReduce(*ranks_[i]->stream, ReduceOp::kSum, DType::kInt32, memory, memory, 2));
    EXPECT_EQ(comm->Poll().code(), StatusCode::kUnavailable);
    EXPECT_EQ(comm->Shrink(gone, false).status().code(), StatusCode::kUnavailable);
    auto one = comm->Shrink(gone, true);
    GPU_OK(one);
    made.push_back(std::move(one).value());
  }
  Break({});
  const CallOptions options = InTime();
  for (size_t i = 0; i < 2; ++i) {
    GPU_OK(made[i]->AwaitReady({&options, &RealClock()}));
    GPU_OK(ranks_[i]->stream->Wait({&options, &RealClock()}));
    EXPECT_EQ(made[i]->Info().value().num_ranks, 2);
  }
}

TEST_F(Nccl, GrowTakesInNewRanks) {
  Make(2);
  const auto id = ranks_[0]->communicator->GrowId();
  GPU_OK(id);
  EXPECT_THAT(ranks_[1]->communicator->Grow(2, nullptr).status().ToString(),
              HasSubstr("cannot grow to 2 ranks; pass more than it has"));
  std::vector<Ref<GpuCommunicator>> made(3);
  for (size_t i = 0; i < 2; ++i) {
    auto one = ranks_[i]->communicator->Grow(3, i == 0 ? &id.value() : nullptr);
    GPU_OK(one);
    made[i] = std::move(one).value();
  }
  auto joined = GpuCommunicator::BeginToJoin(Place(2), {id.value(), 2, 3});
  GPU_OK(joined);
  made[2] = std::move(joined).value();
  for (size_t i = 0; i < 3; ++i) {
    const CallOptions options = InTime();
    GPU_OK(made[i]->AwaitReady({&options, &RealClock()}));
    EXPECT_EQ(made[i]->Info().value().rank, static_cast<int32_t>(i));
    EXPECT_EQ(made[i]->Info().value().num_ranks, 3);
  }
}

TEST_F(Nccl, FinalizeWaitsForAllRanks) {
  Make(2);
  const CallOptions soon = InTime(20);
  EXPECT_EQ(ranks_[0]->communicator->Finalize({&soon, &RealClock()}).code(),
            StatusCode::kDeadlineExceeded);
  Make(2);
  ExpectOk(OnRanks([](int, Rank& rank) { return rank.communicator->Finalize(); }));
  EXPECT_THAT(ranks_[0]->communicator
                  ->Broadcast(*ranks_[0]->stream, DType::kInt8, nullptr, nullptr, 0, 0)
                  .ToString(),
              HasSubstr("the communicator was finalized; make a new one"));
}

}  // namespace
}  // namespace tutti::gpu

// For tests: every operation of a communicator once, for cases that hold of all of them.

#ifndef TUTTI_CORE_COLLECTIVE_TESTING_ALL_OPERATIONS_TESTING_H_
#define TUTTI_CORE_COLLECTIVE_TESTING_ALL_OPERATIONS_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/base/ref.h"
#include "core/collective/call/call_header.h"
#include "core/collective/testing/collective_reference_testing.h"
#include "core/tensor/tensor.h"

namespace tutti {

inline constexpr CollectiveOp kFolds[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduce,
                                          CollectiveOp::kReduceScatter};

struct Move {
  CollectiveOp op;
  bool uneven;
};
inline constexpr Move kMoves[] = {
    {CollectiveOp::kBroadcast, false}, {CollectiveOp::kScatter, false},
    {CollectiveOp::kAllGather, false}, {CollectiveOp::kAllGather, true},
    {CollectiveOp::kGather, true},     {CollectiveOp::kAllToAll, false},
    {CollectiveOp::kAllToAll, true}};

// Every operation of that many rows, from the last rank where there is a root.
inline std::vector<ReferenceCall> AllOperations(size_t size, int64_t rows, bool in_place,
                                                bool strided) {
  std::vector<ReferenceCall> calls;
  for (CollectiveOp op : kFolds) {
    calls.push_back({.op = op, .dtype = DType::kFloat32});
  }
  for (const Move& move : kMoves) {
    calls.push_back({.op = move.op, .uneven = move.uneven, .dtype = DType::kFloat32});
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].root = static_cast<int64_t>(size) - 1;
    calls[i].rows = rows;
    calls[i].columns = 3;
    calls[i].in_place = in_place;
    calls[i].strided = strided;
    calls[i].seed = i + 1;
  }
  return calls;
}

inline Ref<Tensor> Floats(std::initializer_list<int64_t> dims) {
  return Tensor::Create(DType::kFloat32, Shape(dims)).value();
}

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_TESTING_ALL_OPERATIONS_TESTING_H_

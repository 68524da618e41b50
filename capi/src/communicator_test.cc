// Communicators: every operation, at once and with a future, and wrong arguments.
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

tutti_tensor *Raw(const Tensor &tensor) { return tensor; }
tutti_future *Raw(const Future &future) { return future; }

// Two ranks in this process.
class CommunicatorTest : public testing::Test {
 protected:
  CommunicatorTest() {
    EXPECT_OK(tutti_communicator_create_local(nullptr, 2, nullptr, ranks_));
  }
  ~CommunicatorTest() override {
    for (tutti_communicator *rank : ranks_) tutti_communicator_release(rank);
  }

  // body(rank, its communicator) on a thread each.
  void OnBoth(const std::function<void(int64_t, tutti_communicator *)> &body) {
    std::thread other([&] { body(1, ranks_[1]); });
    body(0, ranks_[0]);
    other.join();
  }

  static Tensor Ints(const std::vector<int64_t> &elements) {
    Tensor tensor;
    const auto rows = static_cast<int64_t>(elements.size());
    EXPECT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, &rows,
                                            elements.data(), elements.size() * sizeof(int64_t),
                                            &tensor));
    return tensor;
  }
  static std::vector<int64_t> Elements(const tutti_tensor *tensor) {
    const auto *data = static_cast<const int64_t *>(tutti_tensor_get_data(tensor));
    return {data, data + tutti_tensor_get_byte_size(tensor) / sizeof(int64_t)};
  }
  static void ExpectDone(const Future &future) {
    EXPECT_OK(tutti_future_wait(future, nullptr));
    Value value;
    EXPECT_OK(tutti_future_result(future, &value));
  }

  tutti_communicator *ranks_[2] = {nullptr, nullptr};
};

TEST_F(CommunicatorTest, EveryOperation) {
  OnBoth([](int64_t rank, tutti_communicator *self) {
    const Tensor input = Ints({1 + rank, 2 + rank});
    const Tensor output = Ints({0, 0});
    const Tensor one = Ints({rank});
    const Tensor four = Ints({0, 0, 0, 0});

    EXPECT_OK(tutti_communicator_all_reduce(self, input, TUTTI_REDUCE_BXOR, nullptr, output));
    EXPECT_EQ(Elements(output), (std::vector<int64_t>{3, 1}));
    const tutti_tensor *inputs[] = {input, one};
    const Tensor second = Ints({7});
    tutti_tensor *outputs[] = {output, second};
    EXPECT_OK(tutti_communicator_all_reduce_many(self, 2, inputs, TUTTI_REDUCE_SUM, nullptr,
                                                 outputs));
    EXPECT_EQ(Elements(output), (std::vector<int64_t>{3, 5}));
    EXPECT_EQ(Elements(second), (std::vector<int64_t>{1}));
    EXPECT_OK(tutti_communicator_reduce(self, input, TUTTI_REDUCE_MAX, 1, nullptr,
                                        rank == 1 ? Raw(output) : nullptr));
    EXPECT_EQ(Elements(output), rank == 1 ? (std::vector<int64_t>{2, 3})
                                          : (std::vector<int64_t>{3, 5}));
    EXPECT_OK(
        tutti_communicator_reduce_scatter(self, input, TUTTI_REDUCE_SUM, nullptr, second));
    EXPECT_EQ(Elements(second), (std::vector<int64_t>{3 + 2 * rank}));
    EXPECT_OK(tutti_communicator_all_gather_into(self, input, nullptr, four));
    EXPECT_EQ(Elements(four), (std::vector<int64_t>{1, 2, 2, 3}));
    Tensor joined;
    EXPECT_OK(tutti_communicator_gather(self, one, 0, nullptr, &joined));
    EXPECT_EQ(joined == nullptr, rank == 1);
    if (rank == 0) {
      EXPECT_EQ(Elements(joined), (std::vector<int64_t>{0, 1}));
    }
    EXPECT_OK(tutti_communicator_scatter(self, rank == 0 ? Raw(input) : nullptr, 0, nullptr,
                                         second));
    EXPECT_EQ(Elements(second), (std::vector<int64_t>{1 + rank}));
    EXPECT_OK(tutti_communicator_all_to_all(self, input, nullptr, output));
    EXPECT_EQ(Elements(output), (std::vector<int64_t>{1 + rank, 2 + rank}));
    const int64_t send_rows[] = {0, 2};  // all to rank 1
    int64_t received_rows[] = {-1, -1};
    EXPECT_OK(tutti_communicator_all_to_all_uneven(self, input, 2, send_rows, nullptr,
                                                   received_rows, &joined));
    EXPECT_EQ(received_rows[0], 2 * rank);
    EXPECT_EQ(Elements(joined),
              rank == 0 ? std::vector<int64_t>() : (std::vector<int64_t>{1, 2, 2, 3}));
    EXPECT_OK(rank == 0 ? tutti_communicator_send(self, input, 1, nullptr)
                        : tutti_communicator_receive(self, 0, nullptr, output));
    EXPECT_EQ(Elements(output), (std::vector<int64_t>{1, 2}));
  });
}

TEST_F(CommunicatorTest, EveryOperationWithAFuture) {
  OnBoth([](int64_t rank, tutti_communicator *self) {
    const Tensor input = Ints({1 + rank, 2 + rank});
    const Tensor sum = Ints({0, 0});
    const Tensor many = Ints({rank});
    const Tensor reduced = Ints({0, 0});
    const Tensor sent = Ints({10 * rank});
    const Tensor share = Ints({0});
    const Tensor four = Ints({0, 0, 0, 0});
    const Tensor scattered = Ints({0});
    const Tensor exchanged = Ints({0, 0});
    const Tensor moved = Ints({rank});
    const tutti_tensor *inputs[] = {many};
    tutti_tensor *outputs[] = {many};
    Future futures[12];
    Future *next = futures;
    EXPECT_OK(tutti_communicator_all_reduce_async(self, input, TUTTI_REDUCE_SUM, nullptr, sum,
                                                  &*next++));
    EXPECT_OK(tutti_communicator_all_reduce_many_async(self, 1, inputs, TUTTI_REDUCE_SUM, nullptr,
                                                       outputs, &*next++));
    EXPECT_OK(tutti_communicator_reduce_async(self, input, TUTTI_REDUCE_SUM, 0, nullptr,
                                              rank == 0 ? Raw(reduced) : nullptr, &*next++));
    EXPECT_OK(tutti_communicator_broadcast_async(self, 1, nullptr, sent, &*next++));
    EXPECT_OK(tutti_communicator_reduce_scatter_async(self, input, TUTTI_REDUCE_SUM, nullptr,
                                                      share, &*next++));
    EXPECT_OK(tutti_communicator_all_gather_into_async(self, input, nullptr, four, &*next++));
    EXPECT_OK(tutti_communicator_scatter_async(self, rank == 0 ? Raw(input) : nullptr, 0, nullptr,
                                               scattered, &*next++));
    EXPECT_OK(tutti_communicator_all_to_all_async(self, input, nullptr, exchanged, &*next++));
    EXPECT_OK(tutti_communicator_barrier_async(self, nullptr, &*next++));
    EXPECT_OK(rank == 0 ? tutti_communicator_send_async(self, input, 1, nullptr, &*next)
                        : tutti_communicator_receive_async(self, 0, nullptr, reduced, &*next));
    ++next;
    EXPECT_OK(tutti_communicator_all_gather_async(self, moved, nullptr, &*next++));
    EXPECT_OK(tutti_communicator_gather_async(self, moved, 1, nullptr, &*next++));
    // A call without a future comes behind them.
    EXPECT_OK(tutti_communicator_barrier(self, nullptr));
    for (Future *future = futures; future < next; ++future) {
      EXPECT_EQ(tutti_future_is_done(*future), 1);
      ExpectDone(*future);
    }
    EXPECT_EQ(Elements(sum), (std::vector<int64_t>{3, 5}));
    EXPECT_EQ(Elements(many), (std::vector<int64_t>{1}));
    EXPECT_EQ(Elements(reduced), rank == 0 ? (std::vector<int64_t>{3, 5})
                                           : (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(Elements(sent), (std::vector<int64_t>{10}));
    EXPECT_EQ(Elements(share), (std::vector<int64_t>{3 + 2 * rank}));
    EXPECT_EQ(Elements(four), (std::vector<int64_t>{1, 2, 2, 3}));
    EXPECT_EQ(Elements(scattered), (std::vector<int64_t>{1 + rank}));
    EXPECT_EQ(Elements(exchanged), (std::vector<int64_t>{1 + rank, 2 + rank}));
    Value value;
    ASSERT_OK(tutti_future_result(futures[10], &value));
    EXPECT_EQ(Elements(tutti_value_get_leaf_tensor(value, 0)), (std::vector<int64_t>{0, 1}));
    ASSERT_OK(tutti_future_result(futures[11], &value));
    EXPECT_EQ(value == nullptr, rank == 0);
  });
}

TEST_F(CommunicatorTest, NullArgumentsAreNamedAndEndNothing) {
  tutti_communicator *self = ranks_[0];
  const Tensor tensor = Ints({1});
  tutti_tensor *no_tensor = nullptr;
  Future future;
  EXPECT_FAILS(tutti_communicator_all_reduce_many(self, 1, nullptr, TUTTI_REDUCE_SUM, nullptr,
                                                  nullptr),
               TUTTI_INVALID_ARGUMENT, "inputs");
  EXPECT_FAILS(tutti_communicator_reduce(self, nullptr, TUTTI_REDUCE_SUM, 0, nullptr, tensor),
               TUTTI_INVALID_ARGUMENT, "input");
  EXPECT_FAILS(tutti_communicator_reduce_scatter(self, tensor, TUTTI_REDUCE_SUM, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "output");
  EXPECT_FAILS(tutti_communicator_all_gather_into(self, tensor, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "output");
  EXPECT_FAILS(tutti_communicator_gather(self, tensor, 0, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "out_tensor");
  EXPECT_FAILS(tutti_communicator_scatter(nullptr, tensor, 0, nullptr, tensor),
               TUTTI_INVALID_ARGUMENT, "communicator");
  EXPECT_FAILS(tutti_communicator_all_to_all(self, tensor, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "output");
  EXPECT_FAILS(tutti_communicator_all_to_all_uneven(self, tensor, 2, nullptr, nullptr, nullptr,
                                                    &no_tensor),
               TUTTI_INVALID_ARGUMENT, "send_rows");
  EXPECT_FAILS(tutti_communicator_send(self, nullptr, 1, nullptr), TUTTI_INVALID_ARGUMENT,
               "tensor");
  EXPECT_FAILS(tutti_communicator_receive(self, 1, nullptr, nullptr), TUTTI_INVALID_ARGUMENT,
               "tensor");
  EXPECT_FAILS(tutti_communicator_barrier_async(self, nullptr, nullptr), TUTTI_INVALID_ARGUMENT,
               "out_future");
  EXPECT_FAILS(tutti_communicator_all_reduce_async(self, tensor, TUTTI_REDUCE_SUM, nullptr,
                                                   nullptr, &future),
               TUTTI_INVALID_ARGUMENT, "output");
  EXPECT_FAILS(tutti_communicator_send_async(nullptr, tensor, 1, nullptr, &future),
               TUTTI_INVALID_ARGUMENT, "communicator");
  EXPECT_EQ(future, nullptr);
  OnBoth([](int64_t, tutti_communicator *rank) {
    EXPECT_OK(tutti_communicator_barrier(rank, nullptr));
  });
}

TEST_F(CommunicatorTest, WrongArgumentsFailAtIssueAndEndTheEpoch) {
  const Tensor three = Ints({1, 2, 3});
  Future future;
  EXPECT_FAILS(tutti_communicator_all_to_all_async(ranks_[0], three, nullptr, three, &future),
               TUTTI_INVALID_ARGUMENT, "3 rows, which 2 ranks cannot share equally");
  EXPECT_EQ(future, nullptr);
  EXPECT_FAILS(tutti_communicator_barrier(ranks_[1], nullptr), TUTTI_INVALID_ARGUMENT,
               "rank 0: all_to_all #1");
}

TEST_F(CommunicatorTest, AnOperatorThatIsNoneIsAWrongArgument) {
  const Tensor tensor = Ints({1, 2});
  EXPECT_FAILS(tutti_communicator_all_reduce(ranks_[0], tensor, 9, nullptr, tensor),
               TUTTI_INVALID_ARGUMENT, "9");
}

TEST_F(CommunicatorTest, AFailureOfAQueuedCallIsTheFutures) {
  Future first;
  Future second;
  ASSERT_OK(tutti_communicator_barrier_async(ranks_[0], nullptr, &first));
  ASSERT_OK(tutti_communicator_barrier_async(ranks_[0], nullptr, &second));
  tutti_communicator_abort(ranks_[1], "no more data");
  for (const tutti_future *future : {Raw(second), Raw(first)}) {
    EXPECT_OK(tutti_future_wait(future, nullptr));
    Value value;
    EXPECT_FAILS(tutti_future_result(future, &value), TUTTI_ABORTED, "no more data");
  }
}

TEST_F(CommunicatorTest, CommunicationOptionsOfACallDecideHowManyCallsAreMade) {
  OnBoth([](int64_t rank, tutti_communicator *self) {
    tutti_communication_options hints = TUTTI_COMMUNICATION_OPTIONS_INIT;
    tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
    call.communication = &hints;
    hints.bytes_per_pack = 16;
    hints.implementation = TUTTI_COMMUNICATION_AUTO;
    const Tensor first = Ints({rank, 1}), second = Ints({2}), third = Ints({3});
    const tutti_tensor *inputs[] = {first, second, third};
    tutti_tensor *outputs[] = {first, second, third};
    EXPECT_OK(
        tutti_communicator_all_reduce_many(self, 3, inputs, TUTTI_REDUCE_SUM, &call, outputs));
    EXPECT_EQ(Elements(first), (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(Elements(third), (std::vector<int64_t>{6}));
    {
      // They are read at once.
      tutti_communication_options gone = hints;
      gone.bytes_per_pack = 1;
      tutti_call_options issue = call;
      issue.communication = &gone;
      Future future;
      EXPECT_OK(tutti_communicator_all_reduce_many_async(self, 3, inputs, TUTTI_REDUCE_SUM, &issue,
                                                         outputs, &future));
      gone.bytes_per_pack = -1;
      ExpectDone(future);
    }
    EXPECT_EQ(Elements(third), (std::vector<int64_t>{12}));

    hints.bytes_per_pack = -1;
    Tensor joined;
    EXPECT_FAILS(tutti_communicator_all_gather(self, first, &call, &joined),
                  TUTTI_INVALID_ARGUMENT, "bytes_per_pack is -1");
    hints.bytes_per_pack = 0;
    hints.implementation = 9;
    EXPECT_FAILS(tutti_communicator_gather(self, first, 0, &call, &joined),
                  TUTTI_INVALID_ARGUMENT, "the option implementation is 9; expected AUTO (1)");
    // Where the ranks disagree, the next call fails on both: after two and three calls.
    hints.implementation = rank == 0 ? TUTTI_COMMUNICATION_AUTO : TUTTI_COMMUNICATION_RING;
    EXPECT_FAILS(tutti_communicator_reduce(self, second, TUTTI_REDUCE_SUM, 0, &call, second),
                 TUTTI_INVALID_ARGUMENT,
                 "rank 1: reduce #6 asks for the communication RING, rank 0 for AUTO");
  });
}

TEST_F(CommunicatorTest, MakesTensorsThatOutliveIt) {
  const int64_t dims[] = {2, 3};
  Tensor tensor;
  ASSERT_OK(tutti_communicator_create_tensor(ranks_[0], TUTTI_DTYPE_INT64, 2, dims, &tensor));
  EXPECT_EQ(tutti_tensor_get_element_count(tensor), 6);
  Tensor of_other;
  ASSERT_OK(tutti_communicator_create_tensor(ranks_[1], TUTTI_DTYPE_INT64, 2, dims, &of_other));
  tutti_tensor *const tensors[] = {tensor, of_other};
  OnBoth([&](int64_t rank, tutti_communicator *self) {
    void *data = nullptr;
    EXPECT_OK(tutti_tensor_get_mutable_data(tensors[rank], &data));
    static_cast<int64_t *>(data)[5] = rank + 1;
    EXPECT_OK(tutti_communicator_all_reduce(self, tensors[rank], TUTTI_REDUCE_SUM, nullptr,
                                            tensors[rank]));
    EXPECT_OK(tutti_communicator_close(self, nullptr));
  });
  EXPECT_EQ(static_cast<const int64_t *>(tutti_tensor_get_data(tensor))[0], 0);
  EXPECT_EQ(static_cast<const int64_t *>(tutti_tensor_get_data(of_other))[5], 3);
  tutti_tensor *none = nullptr;
  EXPECT_FAILS(tutti_communicator_create_tensor(ranks_[0], 77, 2, dims, &none),
               TUTTI_INVALID_ARGUMENT, "no dtype");
  EXPECT_FAILS(tutti_communicator_create_tensor(ranks_[0], TUTTI_DTYPE_INT64, 2, dims, nullptr),
               TUTTI_INVALID_ARGUMENT, "out_tensor");
}

TEST_F(CommunicatorTest, SplitMakesAGroupPerColor) {
  OnBoth([](int64_t rank, tutti_communicator *self) {
    Handle<tutti_communicator, tutti_communicator_release> part;
    EXPECT_OK(tutti_communicator_split(self, 0, -rank, nullptr, nullptr, &part));
    EXPECT_EQ(tutti_communicator_get_size(part), 2);
    EXPECT_EQ(tutti_communicator_get_rank(part), 1 - rank);
    EXPECT_OK(tutti_communicator_barrier(part, nullptr));
    EXPECT_OK(tutti_communicator_close(part, nullptr));
    EXPECT_OK(tutti_communicator_split(self, rank == 0 ? 5 : -1, 0, nullptr, nullptr, &part));
    EXPECT_EQ(tutti_communicator_get_size(part), rank == 0 ? 1 : 0);
    EXPECT_EQ(part == nullptr, rank == 1);
    EXPECT_FAILS(tutti_communicator_split(self, 0, 0, nullptr, nullptr, nullptr),
                 TUTTI_INVALID_ARGUMENT, "out_communicator");
    EXPECT_OK(tutti_communicator_barrier(self, nullptr));
  });
}

}  // namespace
}  // namespace tutti::capi_test

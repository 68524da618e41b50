// Clusters through the C interface: specs, and workers that are runtimes, each on its own thread.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "capi/src/c_test.h"

namespace tutti::capi_test {
namespace {

using Cluster = Handle<tutti_cluster, tutti_cluster_release>;
using ClusterSpec = Handle<tutti_cluster_spec, tutti_cluster_spec_release>;
using Communicator = Handle<tutti_communicator, tutti_communicator_release>;
using DistributedDataset = Handle<tutti_distributed_dataset, tutti_distributed_dataset_release>;
using DistributedIterator = Handle<tutti_distributed_iterator, tutti_distributed_iterator_release>;
using Resolver = Handle<tutti_cluster_resolver, tutti_cluster_resolver_release>;

std::string TextIn(const tutti_bytes *bytes) {
  const tutti_string_view view = tutti_bytes_get_view(bytes);
  return std::string(view.data, view.size);
}

ClusterSpec SpecOf(const std::string &json) {
  ClusterSpec spec;
  EXPECT_OK(tutti_cluster_spec_create(json.c_str(), &spec));
  return spec;
}

Resolver SimpleOf(const std::string &json, const char *type, int64_t id) {
  tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  options.task_type = type;
  options.task_id = {1, id};
  Resolver resolver;
  EXPECT_OK(tutti_cluster_resolver_create_simple(SpecOf(json), &options, &resolver));
  return resolver;
}

// {"worker": [...]} with addresses of the loopback interface that nobody else gets: the ports stay
// bound, in a way that lets a worker listen there all the same (Linux: both sockets have
// SO_REUSEADDR, and this one does not listen).
class LoopbackCluster {
 public:
  explicit LoopbackCluster(int workers) {
    for (int i = 0; i < workers; ++i) Reserve();
  }
  ~LoopbackCluster() {
    for (const int socket : sockets_) close(socket);
  }
  LoopbackCluster(const LoopbackCluster &) = delete;
  LoopbackCluster &operator=(const LoopbackCluster &) = delete;

  Resolver ResolverOf(int worker) const { return ResolverOf(worker, ports_.size()); }
  // One that knows only the first `count` workers.
  Resolver ResolverOf(int worker, size_t count) const {
    std::string json = "{\"worker\": [";
    for (size_t i = 0; i < count; ++i) {
      json += (i == 0 ? "\"127.0.0.1:" : ", \"127.0.0.1:") + ports_[i] + "\"";
    }
    return SimpleOf(json + "]}", "worker", worker);
  }
  // Makes the first worker's port one that somebody listens at.
  std::string Occupy() {
    EXPECT_EQ(listen(sockets_[0], 1), 0);
    return ports_[0];
  }

 private:
  void Reserve() {
    const int reserved = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    sockets_.push_back(reserved);
    EXPECT_EQ(setsockopt(reserved, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    EXPECT_EQ(bind(reserved, generic, size), 0);
    EXPECT_EQ(getsockname(reserved, generic, &size), 0);
    ports_.push_back(std::to_string(ntohs(address.sin_port)));
  }

  std::vector<int> sockets_;
  std::vector<std::string> ports_;
};

// Calls until a call fails, for as long as a test may take.
tutti_status *FirstFailure(const std::function<tutti_status *()> &call) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  tutti_status *status = nullptr;
  while (status == nullptr && std::chrono::steady_clock::now() < end) {
    status = call();
    std::this_thread::yield();
  }
  return status;
}

tutti_call_options Within(int64_t seconds) {
  tutti_call_options call = TUTTI_CALL_OPTIONS_INIT;
  call.timeout = seconds * 1'000'000'000;
  return call;
}

class ClusterTest : public CInterfaceTest {
 protected:
  void SetUp() override {
    setenv("TUTTI_JOB_SECRET", "a secret of this test and of nobody else", 1);
    unsetenv("TF_CONFIG");
  }
  void TearDown() override {
    unsetenv("TF_CONFIG");
    unsetenv("TUTTI_JOB_SECRET");
    CInterfaceTest::TearDown();
  }

  // Calls `body` once per worker, concurrently, with a runtime and a resolver of its own.
  using Body = std::function<void(tutti_runtime *, const tutti_cluster_resolver *, int worker)>;
  static void RunWorkers(int workers, const Body &body) {
    const LoopbackCluster cluster(workers);
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        Runtime runtime;
        ASSERT_OK(tutti_runtime_create(nullptr, &runtime));
        body(runtime, cluster.ResolverOf(worker), worker);
        EXPECT_OK(tutti_runtime_shutdown(runtime, nullptr));
      });
    }
    for (std::thread &thread : threads) thread.join();
  }

  static Cluster JoinOf(tutti_runtime *runtime, const tutti_cluster_resolver *resolver) {
    Cluster cluster;
    const tutti_call_options call = Within(60);
    EXPECT_OK(tutti_cluster_join(runtime, resolver, nullptr, &call, &cluster));
    return cluster;
  }
};

TEST_F(ClusterTest, ASpecListsItsTasksAndGoesToJsonAndBack) {
  const ClusterSpec spec = SpecOf(R"({"worker": ["a:1", "b:2"], "ps": {"3": "c:3"}})");
  EXPECT_EQ(tutti_cluster_spec_get_job_count(spec), 2u);
  EXPECT_STREQ(tutti_cluster_spec_get_job(spec, 0), "ps");
  EXPECT_STREQ(tutti_cluster_spec_get_job(spec, 1), "worker");
  EXPECT_EQ(tutti_cluster_spec_get_job(spec, 2), nullptr);
  EXPECT_EQ(tutti_cluster_spec_get_task_count(spec, "worker"), 2u);
  EXPECT_EQ(tutti_cluster_spec_get_task_count(spec, "chief"), 0u);
  EXPECT_EQ(tutti_cluster_spec_get_task_index(spec, "ps", 0), 3);
  EXPECT_EQ(tutti_cluster_spec_get_task_index(spec, "ps", 1), -1);
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "ps", 3), "c:3");
  EXPECT_EQ(tutti_cluster_spec_get_task_address(spec, "ps", 0), nullptr);
  Bytes json, again;
  ASSERT_OK(tutti_cluster_spec_to_json(spec, &json));
  ASSERT_OK(tutti_cluster_spec_to_json(SpecOf(TextIn(json)), &again));
  EXPECT_EQ(TextIn(again), TextIn(json));
}

TEST_F(ClusterTest, ResolversAnswerNullAndAbsentForWhatTheyDoNotKnow) {
  Resolver resolver;
  ClusterSpec spec;
  Bytes type, layer, environment;
  tutti_optional_int64 id = {1, 1};
  ASSERT_OK(tutti_cluster_resolver_create_tf_config(nullptr, &resolver));
  ASSERT_OK(tutti_cluster_resolver_read_cluster_spec(resolver, &spec));
  EXPECT_EQ(tutti_cluster_spec_get_job_count(spec), 0u);
  ASSERT_OK(tutti_cluster_resolver_read_task_type(resolver, &type));
  EXPECT_EQ(static_cast<tutti_bytes *>(type), nullptr);
  ASSERT_OK(tutti_cluster_resolver_read_task_id(resolver, &id));
  EXPECT_EQ(id.present, 0);
  ASSERT_OK(tutti_cluster_resolver_read_environment(resolver, &environment));
  EXPECT_EQ(TextIn(environment), "");

  setenv("TF_CONFIG", R"({"cluster": {"chief": ["a:1"], "worker": ["b:2"]},
                          "task": {"type": "worker", "index": "0"}})", 1);
  ASSERT_OK(tutti_cluster_resolver_read_cluster_spec(resolver, &spec));
  EXPECT_STREQ(tutti_cluster_spec_get_task_address(spec, "chief", 0), "a:1");
  ASSERT_OK(tutti_cluster_resolver_read_task_type(resolver, &type));
  EXPECT_EQ(TextIn(type), "worker");
  ASSERT_OK(tutti_cluster_resolver_read_task_id(resolver, &id));
  EXPECT_EQ(id.present, 1);
  EXPECT_EQ(id.value, 0);
  ASSERT_OK(tutti_cluster_resolver_read_rpc_layer(resolver, &layer));
  EXPECT_EQ(TextIn(layer), "grpc");
}

TEST_F(ClusterTest, ASimpleResolverSaysWhatItWasGiven) {
  tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  options.master = "m:9";
  options.rpc_layer = "grpc";
  options.num_accelerators = {1, 8};
  Resolver resolver;
  ASSERT_OK(tutti_cluster_resolver_create_simple(SpecOf(R"({"worker": ["a:1", "b:2"]})"), &options,
                                                 &resolver));
  Bytes master, of_task;
  ASSERT_OK(tutti_cluster_resolver_read_master(resolver, nullptr, {0, 0}, nullptr, &master));
  EXPECT_EQ(TextIn(master), "grpc://m:9");
  ASSERT_OK(tutti_cluster_resolver_read_master(resolver, "worker", {1, 1}, nullptr, &of_task));
  EXPECT_EQ(TextIn(of_task), "grpc://b:2");
  int64_t count = 0;
  ASSERT_OK(tutti_cluster_resolver_read_num_accelerators(resolver, &count));
  EXPECT_EQ(count, 8);
}

TEST_F(ClusterTest, WorkersMeetAndReduce) {
  RunWorkers(3, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    const Cluster cluster = JoinOf(runtime, resolver), again = JoinOf(runtime, resolver);
    EXPECT_EQ(static_cast<tutti_cluster *>(cluster), static_cast<tutti_cluster *>(again));
    EXPECT_EQ(tutti_cluster_get_worker(cluster), worker);
    EXPECT_EQ(tutti_cluster_get_worker_count(cluster), 3);
    EXPECT_OK(tutti_cluster_check(cluster));
    Bytes text;
    ASSERT_OK(tutti_cluster_describe_worker(cluster, 2, &text));
    EXPECT_THAT(TextIn(text), testing::StartsWith("worker 2"));
    EXPECT_FAILS(tutti_cluster_describe_worker(cluster, 3, &text), TUTTI_INVALID_ARGUMENT,
                 "0 to 2");

    for (int64_t epoch = 1; epoch <= 2; ++epoch) {
      Communicator communicator;
      ASSERT_OK(tutti_communicator_create(cluster, nullptr, nullptr, &communicator));
      EXPECT_EQ(tutti_communicator_get_rank(communicator), worker);
      EXPECT_EQ(tutti_communicator_get_size(communicator), 3);
      EXPECT_EQ(tutti_communicator_get_epoch(communicator), epoch);
      EXPECT_STREQ(tutti_communicator_get_transport(communicator), "shared_memory");
      const int64_t dims[] = {1}, mine = worker + 1;
      Tensor tensor;
      ASSERT_OK(tutti_tensor_create_from_data(nullptr, TUTTI_DTYPE_INT64, 1, dims, &mine,
                                              sizeof(mine), &tensor));
      EXPECT_OK(tutti_communicator_all_reduce(communicator, tensor, TUTTI_REDUCE_SUM, nullptr,
                                              tensor));
      EXPECT_EQ(*static_cast<const int64_t *>(tutti_tensor_get_data(tensor)), 6);
      EXPECT_OK(tutti_communicator_barrier(communicator, nullptr));
      EXPECT_OK(tutti_communicator_close(communicator, nullptr));
    }
  });
}

TEST_F(ClusterTest, AStrategySpansTheReplicasOfAllWorkers) {
  RunWorkers(2, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    const char *devices[] = {"CPU:0", "CPU:1"};
    tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
    options.resolver = resolver;
    options.device_count = 2;
    options.devices = devices;
    const tutti_call_options call = Within(60);
    Strategy strategy;
    ASSERT_OK(
        tutti_strategy_create_multi_worker_mirrored(runtime, &options, &call, &strategy));
    EXPECT_STREQ(tutti_strategy_get_type_name(strategy), "MultiWorkerMirroredStrategy");
    EXPECT_EQ(tutti_strategy_get_num_replicas_in_sync(strategy), 4);
    EXPECT_EQ(tutti_strategy_get_local_replica_count(strategy), 2u);
    EXPECT_EQ(tutti_strategy_get_worker(strategy), worker);
    EXPECT_EQ(tutti_strategy_get_worker_count(strategy), 2);
    EXPECT_EQ(tutti_strategy_get_cluster_resolver(strategy), resolver);
    const auto sum_of_ids = [](tutti_context *replica, const tutti_value *, tutti_value **out,
                               void *) -> tutti_status * {
      Value id;
      if (tutti_status *status =
              tutti_value_create_int64(tutti_context_get_replica_id(replica), &id)) {
        return status;
      }
      return tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, id, nullptr, out);
    };
    Value sums, total;
    ASSERT_OK(tutti_strategy_run(strategy, sum_of_ids, nullptr, nullptr, nullptr, &sums));
    ASSERT_OK(tutti_strategy_reduce(strategy, TUTTI_REDUCE_SUM, sums, nullptr, nullptr, &total));
    EXPECT_EQ(NumberIn(total), 24);

    Dataset numbers;
    ASSERT_OK(tutti_dataset_create_range(runtime, 0, 16, 1, nullptr, &numbers));
    ASSERT_OK(tutti_dataset_batch(&numbers, 8, nullptr));
    tutti_input_options input = TUTTI_INPUT_OPTIONS_INIT;
    input.rebatch = TUTTI_REBATCH_EVEN;
    DistributedDataset steps;
    Bytes plan;
    ASSERT_OK(tutti_strategy_distribute_dataset(strategy, numbers, &input, nullptr, &steps));
    ASSERT_OK(tutti_distributed_dataset_explain(steps, &plan));
    EXPECT_THAT(TextIn(plan), testing::HasSubstr("DATA"));

    DistributedIterator iterator;
    ASSERT_OK(tutti_distributed_iterator_create(steps, nullptr, &iterator));
    Bytes own, svg, none;
    ASSERT_OK(tutti_distributed_iterator_explain(iterator, "json", &own));
    EXPECT_THAT(TextIn(own), testing::HasSubstr("\"op\": \"batch\""));
    ASSERT_OK(tutti_distributed_dataset_explain_as(steps, "svg", &svg));
    EXPECT_THAT(TextIn(svg), testing::StartsWith("<svg "));
    EXPECT_FAILS(tutti_distributed_dataset_explain_as(steps, "yaml", &none),
                 TUTTI_INVALID_ARGUMENT, "the formats are text, json and svg");
    EXPECT_FAILS(tutti_distributed_iterator_explain(nullptr, "text", &none),
                 TUTTI_INVALID_ARGUMENT, "iterator");
    ASSERT_OK(tutti_distributed_iterator_close(iterator, nullptr));
  });
}

// All workers name the one of four whose replica has brought a NaN, though only worker 3 looks.
TEST_F(ClusterTest, ANanOfOneReplicaIsNamedByAllWorkers) {
  RunWorkers(4, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    if (worker == 3) {
      EXPECT_OK(tutti_debugging_enable_check_numerics(nullptr));
    }
    tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
    options.resolver = resolver;
    const tutti_call_options call = Within(60);
    Strategy strategy;
    ASSERT_OK(tutti_strategy_create_multi_worker_mirrored(runtime, &options, &call, &strategy));
    const auto step = [](tutti_context *replica, const tutti_value *, tutti_value **out,
                         void *) -> tutti_status * {
      const bool bad = tutti_context_get_replica_id(replica) == 2;
      const Value gradient = ValueOf(Floats({1, bad ? std::nanf("") : 2}));
      return tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, gradient, nullptr, out);
    };
    Value sum;
    EXPECT_FAILS(tutti_strategy_run(strategy, step, nullptr, nullptr, &call, &sum),
                 TUTTI_INVALID_ARGUMENT, "worker 2: all_reduce 'SUM': the input of replica 2");
    // One that only a result has, when the run's sum was finite.
    const auto returns = [](tutti_context *replica, const tutti_value *, tutti_value **out,
                            void *) -> tutti_status * {
      const Value one = ValueOf(Floats({1}));
      Value sum;
      tutti_status *status =
          tutti_context_all_reduce(replica, TUTTI_REDUCE_SUM, one, nullptr, &sum);
      if (status != nullptr) return status;
      const bool bad = tutti_context_get_replica_id(replica) == 2;
      const Value loss = ValueOf(Floats({bad ? std::nanf("") : 2}));
      tutti_value_retain(loss);
      *out = loss;
      return nullptr;
    };
    EXPECT_FAILS(tutti_strategy_run(strategy, returns, nullptr, nullptr, &call, &sum),
                 TUTTI_INVALID_ARGUMENT, "worker 2: run: the result of replica 2");
    tutti_debugging_disable_check_numerics();
  });
}

TEST_F(ClusterTest, WithoutAClusterAStrategyIsAlone) {
  const char *devices[] = {"CPU:0", "CPU:1"};
  tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
  options.device_count = 2;
  options.devices = devices;
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_multi_worker_mirrored(nullptr, &options, nullptr, &strategy));
  EXPECT_EQ(tutti_strategy_get_worker_count(strategy), 1);
  EXPECT_EQ(tutti_strategy_get_num_replicas_in_sync(strategy), 2);
  // TF_CONFIG's, which names no cluster here.
  EXPECT_NE(tutti_strategy_get_cluster_resolver(strategy), nullptr);
}

TEST_F(ClusterTest, TheSettingReplicasCountsTheReplicasOfAWorker) {
  ASSERT_OK(tutti_runtime_set(nullptr, "replicas", "3"));
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_multi_worker_mirrored(nullptr, nullptr, nullptr, &strategy));
  EXPECT_EQ(tutti_strategy_get_num_replicas_in_sync(strategy), 3);
}

TEST_F(ClusterTest, AResolverThatKnowsItsAcceleratorsDecidesOnTheDevices) {
  tutti_cluster_resolver_options none = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  none.num_accelerators = {1, 0};
  Resolver resolver;
  ASSERT_OK(tutti_cluster_resolver_create_simple(SpecOf("{}"), &none, &resolver));
  tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
  options.resolver = resolver;
  Strategy strategy;
  ASSERT_OK(tutti_strategy_create_multi_worker_mirrored(nullptr, &options, nullptr, &strategy));
  EXPECT_STREQ(tutti_strategy_get_worker_device(strategy, 0), "/device:CPU:0");
}

// ---- What goes wrong

TEST_F(ClusterTest, TextThatIsNoClusterSaysWhere) {
  ClusterSpec spec;
  EXPECT_FAILS(tutti_cluster_spec_create(R"({"worker": [)", &spec), TUTTI_INVALID_ARGUMENT,
               "cluster spec");
  EXPECT_FAILS(tutti_cluster_spec_create(R"(["a:1"])", &spec), TUTTI_INVALID_ARGUMENT, "");
  EXPECT_FAILS(tutti_cluster_spec_create(R"({"worker": ["a:1", 2]})", &spec),
               TUTTI_INVALID_ARGUMENT, "worker");
  EXPECT_EQ(static_cast<tutti_cluster_spec *>(spec), nullptr);
}

TEST_F(ClusterTest, AMalformedTfConfigIsNamed) {
  setenv("TF_CONFIG", R"({"cluster": {"worker")", 1);
  Cluster cluster;
  Strategy strategy;
  EXPECT_FAILS(tutti_cluster_join(nullptr, nullptr, nullptr, nullptr, &cluster),
               TUTTI_INVALID_ARGUMENT, "TF_CONFIG");
  EXPECT_FAILS(tutti_strategy_create_multi_worker_mirrored(nullptr, nullptr, nullptr, &strategy),
               TUTTI_INVALID_ARGUMENT, "TF_CONFIG");
}

// So that the same program can be run by itself.
TEST_F(ClusterTest, AnEmptyClusterIsOneOfThisProcess) {
  Cluster cluster;
  ASSERT_OK(tutti_cluster_join(nullptr, nullptr, nullptr, nullptr, &cluster));
  EXPECT_EQ(tutti_cluster_get_worker(cluster), 0);
  EXPECT_EQ(tutti_cluster_get_worker_count(cluster), 1);
  EXPECT_OK(tutti_cluster_close(cluster, nullptr));
}

TEST_F(ClusterTest, TasksAndAddressesThatCannotBeAreNamed) {
  const char cluster_json[] = R"({"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3"]})";
  const char twice_json[] = R"({"worker": ["a:1", "a:1"]})";
  const char portless_json[] = R"({"worker": ["a:1", "somewhere"]})";
  const struct {
    const char *json, *type;
    int64_t id;
    const char *part;
  } cases[] = {{cluster_json, "worker", 7, "worker:0"},
               {cluster_json, "helper", 0, "chief, ps, worker"},
               {cluster_json, "ps", 0, "ps"},
               {twice_json, "worker", 0, "a:1"},
               {portless_json, "worker", 0, "somewhere"}};
  for (const auto &wrong : cases) {
    const Resolver resolver = SimpleOf(wrong.json, wrong.type, wrong.id);
    tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
    options.resolver = resolver;
    Cluster cluster;
    Strategy strategy;
    EXPECT_FAILS(tutti_cluster_join(nullptr, resolver, nullptr, nullptr, &cluster),
                 TUTTI_INVALID_ARGUMENT, wrong.part);
    EXPECT_FAILS(
        tutti_strategy_create_multi_worker_mirrored(nullptr, &options, nullptr, &strategy),
        TUTTI_INVALID_ARGUMENT, wrong.part);
  }
}

TEST_F(ClusterTest, NumbersThatCannotBeAreRefused) {
  tutti_cluster_resolver_options options = TUTTI_CLUSTER_RESOLVER_OPTIONS_INIT;
  Resolver resolver;
  options.task_id = {1, -1};
  EXPECT_FAILS(tutti_cluster_resolver_create_tf_config(&options, &resolver), TUTTI_INVALID_ARGUMENT,
               "task_id");
  options.task_id = {0, 0};
  options.num_accelerators = {1, -1};
  EXPECT_FAILS(tutti_cluster_resolver_create_simple(SpecOf("{}"), &options, &resolver),
               TUTTI_INVALID_ARGUMENT, "num_accelerators");
  options.num_accelerators = {0, 0};
  options.master = "a:1";
  EXPECT_FAILS(tutti_cluster_resolver_create_tf_config(&options, &resolver), TUTTI_INVALID_ARGUMENT,
               "master");
  tutti_cluster_options replicas = TUTTI_CLUSTER_OPTIONS_INIT;
  replicas.num_replicas = -1;
  Cluster cluster;
  EXPECT_FAILS(tutti_cluster_join(nullptr, LoopbackCluster(1).ResolverOf(0), &replicas, nullptr,
                                  &cluster),
               TUTTI_INVALID_ARGUMENT, "num_replicas");
}

TEST_F(ClusterTest, NullIsNamedAndHarmlessWhereNothingCanFail) {
  ClusterSpec spec;
  Resolver resolver;
  Cluster cluster;
  Communicator communicator;
  Bytes text;
  Strategy strategy;
  const char *devices[] = {nullptr};
  tutti_multi_worker_options options = TUTTI_MULTI_WORKER_OPTIONS_INIT;
  options.device_count = 1;
  EXPECT_FAILS(tutti_cluster_spec_create(nullptr, &spec), TUTTI_INVALID_ARGUMENT, "json");
  EXPECT_FAILS(tutti_cluster_spec_to_json(nullptr, &text), TUTTI_INVALID_ARGUMENT, "spec");
  EXPECT_FAILS(tutti_cluster_resolver_create_simple(nullptr, nullptr, &resolver),
               TUTTI_INVALID_ARGUMENT, "spec");
  EXPECT_FAILS(tutti_cluster_resolver_read_task_type(nullptr, &text), TUTTI_INVALID_ARGUMENT,
               "resolver");
  EXPECT_FAILS(tutti_cluster_join(nullptr, nullptr, nullptr, nullptr, nullptr),
               TUTTI_INVALID_ARGUMENT, "out_cluster");
  EXPECT_FAILS(tutti_cluster_check(nullptr), TUTTI_INVALID_ARGUMENT, "cluster");
  EXPECT_OK(tutti_cluster_close(nullptr, nullptr));
  EXPECT_FAILS(tutti_communicator_create(nullptr, nullptr, nullptr, &communicator),
               TUTTI_INVALID_ARGUMENT, "cluster");
  EXPECT_FAILS(
      tutti_strategy_create_multi_worker_mirrored(nullptr, &options, nullptr, &strategy),
      TUTTI_INVALID_ARGUMENT, "devices");
  options.devices = devices;
  EXPECT_FAILS(
      tutti_strategy_create_multi_worker_mirrored(nullptr, &options, nullptr, &strategy),
      TUTTI_INVALID_ARGUMENT, "devices");
  EXPECT_FAILS(tutti_distributed_dataset_explain(nullptr, &text), TUTTI_INVALID_ARGUMENT,
               "dataset");
  EXPECT_EQ(tutti_cluster_get_worker(nullptr), -1);
  EXPECT_EQ(tutti_cluster_get_worker_count(nullptr), 0);
  EXPECT_EQ(tutti_cluster_spec_get_task_index(nullptr, nullptr, 0), -1);
  EXPECT_EQ(tutti_strategy_get_cluster_resolver(nullptr), nullptr);
  EXPECT_STREQ(tutti_communicator_get_transport(nullptr), "");
  tutti_cluster_abort(nullptr, nullptr);
  tutti_cluster_fail(nullptr, nullptr);
  tutti_cluster_release(nullptr);
}

TEST_F(ClusterTest, AWorkerThatNeverComesIsNamed) {
  const LoopbackCluster addresses(2);
  const Resolver resolver = addresses.ResolverOf(0);
  const tutti_call_options call = Within(1);
  Cluster cluster;
  EXPECT_FAILS(tutti_cluster_join(nullptr, resolver, nullptr, &call, &cluster),
               TUTTI_DEADLINE_EXCEEDED, "worker:1");
}

TEST_F(ClusterTest, AnotherSeatInTheSameRuntimeIsRefused) {
  const LoopbackCluster addresses(1), others(1);
  const Cluster cluster = JoinOf(nullptr, addresses.ResolverOf(0));
  Cluster other;
  EXPECT_FAILS(tutti_cluster_join(nullptr, others.ResolverOf(0), nullptr, nullptr, &other),
               TUTTI_FAILED_PRECONDITION, "another runtime");
}

TEST_F(ClusterTest, AnAddressThatIsInUseIsNamed) {
  LoopbackCluster addresses(2);
  const std::string port = addresses.Occupy();
  Cluster cluster;
  const Answer answer =
      tutti_cluster_join(nullptr, addresses.ResolverOf(0), nullptr, nullptr, &cluster);
  EXPECT_EQ(answer.code(), TUTTI_UNAVAILABLE) << answer.message();
  EXPECT_THAT(answer.message(), testing::HasSubstr(port));
}

TEST_F(ClusterTest, UnequalNumbersOfReplicasAreTheSameErrorOnEveryWorker) {
  std::string messages[2];
  RunWorkers(2, [&](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    tutti_cluster_options options = TUTTI_CLUSTER_OPTIONS_INIT;
    options.num_replicas = 1 + worker;
    const tutti_call_options call = Within(60);
    Cluster cluster;
    const Answer answer = tutti_cluster_join(runtime, resolver, &options, &call, &cluster);
    EXPECT_EQ(answer.code(), TUTTI_INVALID_ARGUMENT);
    messages[worker] = answer.message();
  });
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_THAT(messages[0], testing::HasSubstr("replica"));
}

TEST_F(ClusterTest, WorkersThatKnowDifferentClustersAreTheSameErrorOnEveryWorker) {
  const LoopbackCluster addresses(3);
  std::string messages[2];
  RunWorkers(2, [&](tutti_runtime *runtime, const tutti_cluster_resolver *, int worker) {
    const Resolver resolver = addresses.ResolverOf(worker, worker == 0 ? 2 : 3);
    const tutti_call_options call = Within(60);
    Cluster cluster;
    const Answer answer = tutti_cluster_join(runtime, resolver, nullptr, &call, &cluster);
    EXPECT_EQ(answer.code(), TUTTI_INVALID_ARGUMENT) << answer.message();
    messages[worker] = answer.message();
  });
  for (const std::string &message : messages) {
    EXPECT_EQ(message, "cluster: workers 0 and 1 were given different clusters: worker 0 knows 2 "
                       "tasks, worker 1 knows 3; give all workers the same cluster specification");
  }
}

TEST_F(ClusterTest, AClosedClusterIsRefused) {
  RunWorkers(2, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int) {
    const Cluster cluster = JoinOf(runtime, resolver);
    EXPECT_OK(tutti_cluster_close(cluster, nullptr));
    EXPECT_OK(tutti_cluster_close(cluster, nullptr));
    Communicator communicator;
    EXPECT_FAILS(tutti_communicator_create(cluster, nullptr, nullptr, &communicator),
                 TUTTI_FAILED_PRECONDITION, "has left");
  });
}

TEST_F(ClusterTest, AnAbortEndsTheJobOnEveryWorker) {
  RunWorkers(2, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    const Cluster cluster = JoinOf(runtime, resolver);
    Communicator communicator;
    ASSERT_OK(tutti_communicator_create(cluster, nullptr, nullptr, &communicator));
    if (worker == 1) tutti_cluster_abort(cluster, "enough for today");
    // Calls that are under way may still succeed.
    EXPECT_FAILS(FirstFailure([&] { return tutti_communicator_barrier(communicator, nullptr); }),
                 TUTTI_ABORTED, "enough for today");
    EXPECT_FAILS(FirstFailure([&] { return tutti_cluster_check(cluster); }), TUTTI_ABORTED,
                 "enough for today");
  });
}

TEST_F(ClusterTest, AWorkerThatGoesByAnErrorOfItsOwnSaysWhy) {
  RunWorkers(2, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    const Cluster cluster = JoinOf(runtime, resolver);
    Communicator communicator;
    ASSERT_OK(tutti_communicator_create(cluster, nullptr, nullptr, &communicator));
    if (worker == 1) {
      tutti_runtime_fail(runtime, "no rows in shard 7");
      return;
    }
    EXPECT_FAILS(FirstFailure([&] { return tutti_communicator_barrier(communicator, nullptr); }),
                 TUTTI_ABORTED, "no rows in shard 7");
    // What ended the job stays.
    tutti_cluster_fail(cluster, "another reason");
    EXPECT_FAILS(tutti_cluster_check(cluster), TUTTI_ABORTED, "no rows in shard 7");
  });
}

TEST_F(ClusterTest, AnErrorOfOnesOwnWithoutAJobIsNobodysBusiness) {
  tutti_runtime_fail(nullptr, "no job");
  Runtime runtime;
  ASSERT_OK(tutti_runtime_create(nullptr, &runtime));
  tutti_runtime_fail(runtime, nullptr);
  EXPECT_EQ(tutti_runtime_is_running(runtime), 1);
}

TEST_F(ClusterTest, AWorkerThatLeavesIsToldFromOneThatDied) {
  RunWorkers(2, [](tutti_runtime *runtime, const tutti_cluster_resolver *resolver, int worker) {
    const Cluster cluster = JoinOf(runtime, resolver);
    Communicator communicator;
    ASSERT_OK(tutti_communicator_create(cluster, nullptr, nullptr, &communicator));
    if (worker == 1) return;
    EXPECT_FAILS(tutti_communicator_barrier(communicator, nullptr), TUTTI_UNAVAILABLE, "left");
  });
}

TEST_F(ClusterTest, RebatchingThatDoesNotExistIsRefused) {
  tutti_input_options input = TUTTI_INPUT_OPTIONS_INIT;
  input.rebatch = 3;
  Dataset batches = RangeOf(4);
  ASSERT_OK(tutti_dataset_batch(&batches, 2, nullptr));
  DistributedDataset steps;
  EXPECT_FAILS(
      tutti_strategy_distribute_dataset(MirroredOver(2), batches, &input, nullptr, &steps),
      TUTTI_INVALID_ARGUMENT, "rebatch");
}

}  // namespace
}  // namespace tutti::capi_test

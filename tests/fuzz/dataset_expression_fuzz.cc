// Any bytes as the definition of a function that gives datasets: a function or a status. What is
// one is the same again when it has been written down, and gives a dataset or a status for each
// element. Such a dataset is written, read and explained as any; where nothing in it reaches out of
// this process, some of its elements are made.
//
// Input: a byte, then the definition; or, where the byte is odd, its parts, whose dataset gets the
// checksum that a mutation would not find: the size of the first in two bytes, the expression of
// what it computes for an element, and the dataset.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/base/real_environment.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_function_kind.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/function/context.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"
#include "core/tensor/tensor.h"
#include "tests/fuzz/fuzz_target.h"

namespace tutti {
namespace {

struct World {
  Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
  Ref<DatasetEnvironment> datasets =
      DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());
};

constexpr int64_t kMostCallNs = 20'000'000;

// Operations whose elements cost what they are asked for, and no more.
constexpr std::array<std::string_view, 9> kQuiet = {
    "range", "from_tensors", "from_tensor_slices", "map", "filter",
    "take",  "enumerate",    "concatenate",        "zip"};

bool IsQuiet(const Dataset& dataset) {
  return std::ranges::all_of(InputsFirst(dataset.node()), [](const Node* node) {
    return std::ranges::find(kQuiet, node->op().name) != kQuiet.end();
  });
}

std::string PayloadOf(FuzzInput input) {
  const auto how = input.Take<uint8_t>();
  if (how % 2 == 0) return std::string(input.TakeRest());
  const std::string_view values = input.TakeBytes(input.Take<uint16_t>());
  StateWriter writer;
  writer.Section(kDatasetFunctionKind);
  writer.Int(1);
  writer.Int((how >> 1) % 2);
  writer.Bytes(values);
  writer.Bytes(SealEnvelope("TUTTI-D1", input.TakeRest()));
  return std::move(writer).TakeBytes();
}

void Iterate(const World& world, const Ref<const Dataset>& dataset) {
  const CallOptions call{Deadline::After(world.environment->clock(), kMostCallNs), nullptr};
  const Result<Ref<Iterator>> iterator = Iterator::Create(dataset, {}, call);
  if (!iterator.ok()) return;
  for (int i = 0; i < 8; ++i) {
    const Result<Ref<Value>> element = (*iterator)->Next(call);
    Require(element.ok() || element.status().code() != StatusCode::kInternal,
            "no failure is internal");
    if (!element.ok() || !*element) break;
  }
  Require((*iterator)->Close(CallOptions()).ok(), "an iterator is closed");
}

void Examine(const World& world, const Value& given) {
  Require(given.is_leaf() && given.leaf().kind() == LeafKind::kDataset, "it gives a dataset");
  const auto* const object = given.leaf().object_as<const Dataset>();
  const auto dataset = Ref<const Dataset>::Retain(object);
  (void)dataset->cardinality();
  (void)dataset->node().element_spec();
  (void)dataset->Explain();
  const Result<std::string> written = dataset->Serialize();
  if (written.ok()) {
    const Result<Ref<Dataset>> again = Dataset::Deserialize(world.datasets, *written);
    Require(again.ok(), "what it gives is read again");
    Require((*again)->Serialize().value() == *written, "and then written the same");
  }
  if (IsQuiet(*dataset)) Iterate(world, dataset);
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  static const World* const world = new World;
  const std::string payload = PayloadOf(FuzzInput(data, size));
  const Result<Ref<Function>> read = ReadDatasetFunction(world->datasets, payload, 0);
  if (!read.ok()) {
    Require(read.status().code() != StatusCode::kInternal, "no failure is internal");
    return 0;
  }
  Function& function = **read;
  const Result<FunctionDefinition> written = function.Define();
  if (written.ok()) {
    const Result<Ref<Function>> again = ReadDatasetFunction(world->datasets, written->payload, 0);
    Require(again.ok(), "a definition is read again");
    Require((*again)->Define().value().payload == written->payload, "and then written the same");
  }
  (void)function.OutputSpec(nullptr);
  const Ref<Tensor> rows[] = {Tensor::Scalar<int64_t>(3), Tensor::Scalar<int64_t>(-1),
                              Tensor::Vector<int64_t>({5, -7}), Tensor::Bytes("text")};
  for (const Ref<Tensor>& row : rows) {
    Context context(*world->environment);
    Ref<Value> out;
    const Status status = function.Call(context, *Value::OfTensor(row), &out);
    Require(status.code() != StatusCode::kInternal, "no failure is internal");
    Require(status.ok() == static_cast<bool>(out), "a dataset or a status");
    if (out) Examine(*world, *out);
  }
  return 0;
}

// Any bytes as the position of an iterator, of a distributed one, or as a joint one: it is gone to,
// or a status says why not and the iterator is where it was. Where it is gone to, what is saved
// there is gone to again, and the same comes behind both.

#include <string>
#include <string_view>

#include "core/base/crc32c.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/graph/envelope.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/position_pipelines.h"

namespace tutti {
namespace {

const PositionPipelines& World() {
  static const PositionPipelines* const world = new PositionPipelines;
  return *world;
}

// The next elements as text; "!" where one failed, "?" where the time was over.
template <class T>
std::string Rest(T& iterator) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    const Result<Ref<Value>> element = iterator.Next(World().Call());
    if (!element.ok()) {
      Require(element.status().code() != StatusCode::kInternal, "no failure is internal");
      if (element.status().code() == StatusCode::kDeadlineExceeded) return text + "?";
      text += "!";
      continue;
    }
    if (!*element) return text + ".";
    bool is_tensors = true;
    for (const Leaf& leaf : (*element)->leaves()) is_tensors = is_tensors && leaf.is_tensor();
    text += is_tensors ? (*element)->ToString() : "dataset";
  }
  return text;
}

template <class T>
void Try(T& iterator, const std::string& state) {
  const Status restored = iterator.Restore(state, World().Call());
  Require(restored.code() != StatusCode::kInternal, "no failure is internal");
  const Result<std::string> saved = iterator.Save(World().Call());
  const std::string rest = Rest(iterator);
  if (!saved.ok() || rest.ends_with("?")) return;
  const Status again = iterator.Restore(*saved, World().Call());
  if (again.code() == StatusCode::kDeadlineExceeded) return;
  Require(again.ok(), "what was saved is gone to");
  const std::string same = Rest(iterator);
  if (!same.ends_with("?")) Require(same == rest, "and the same comes behind it");
}

std::string Sealed(const char* kind, int64_t version, std::string_view content) {
  StateWriter writer;
  writer.Section(kind);
  writer.Int(version);
  writer.Int(Crc32c(content.data(), content.size()));
  writer.Bytes(content);
  return std::move(writer).TakeBytes();
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  FuzzInput input(data, size);
  const auto kind = static_cast<size_t>(input.Take<uint8_t>());
  const size_t count = World().pipelines.size();
  if (kind < count) {
    const Ref<Iterator> iterator =
        Iterator::Create(World().pipelines[kind], {}, World().Call()).value();
    Try(*iterator, SealEnvelope("TUTTI-I2", input.TakeRest()));
    (void)iterator->Close(CallOptions());
    return 0;
  }
  const Ref<DistributedIterator> iterator = World().Distributed();
  if (kind == count) {
    Try(*iterator, Sealed("distributed_iterator", 3, input.TakeRest()));
  } else if (kind == count + 1) {
    Try(*iterator, Sealed("dealt_iterator", 1, input.TakeRest()));
  } else if (kind == count + 2) {
    Try(*iterator, Sealed("joint_iterator", 1, input.TakeRest()));
  } else {
    // Of several workers, whose positions are sealed.
    StateWriter joint;
    joint.Int(1);
    const int64_t workers = 1 + input.Take<uint8_t>() % 4;
    joint.Int(workers);
    for (int64_t i = 0; i < workers; ++i) {
      const bool is_dealt = input.Take<uint8_t>() % 2 != 0;
      const std::string_view content = input.TakeBytes(input.Take<uint16_t>());
      joint.Bytes(is_dealt ? Sealed("dealt_iterator", 1, content)
                           : Sealed("distributed_iterator", 3, content));
    }
    Try(*iterator, Sealed("joint_iterator", 1, joint.bytes()));
  }
  (void)iterator->Close(CallOptions());
  return 0;
}

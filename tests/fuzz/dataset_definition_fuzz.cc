// Any bytes as a dataset's definition: a dataset or a status. What is one is the same again when it
// has been written down.

#include <string>

#include "core/base/real_environment.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/function/function_registry.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  struct World {
    Ref<RealEnvironment> environment = MakeRef<RealEnvironment>();
    Ref<DatasetEnvironment> datasets =
        DatasetEnvironment::Create(environment, MakeRef<FunctionRegistry>());
  };
  static const World* const world = new World;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const Result<Ref<Dataset>> read =
      Dataset::Deserialize(world->datasets, SealEnvelope("TUTTI-D1", content));
  if (!read.ok()) {
    Require(read.status().code() != StatusCode::kInternal, "no failure is internal");
    return 0;
  }
  (void)(*read)->cardinality();
  (void)(*read)->node().element_spec();
  (void)(*read)->Explain();
  const Result<std::string> written = (*read)->Serialize();
  if (!written.ok()) return 0;
  const Result<Ref<Dataset>> again = Dataset::Deserialize(world->datasets, *written);
  Require(again.ok(), "a definition is read again");
  Require((*again)->Serialize().value() == *written, "and then written the same");
  Require(GraphFingerprint((*again)->node()).value() == GraphFingerprint((*read)->node()).value(),
          "and has the fingerprint that it had");
  return 0;
}

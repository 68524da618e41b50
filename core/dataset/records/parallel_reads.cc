#include "core/dataset/records/parallel_reads.h"

#include <string>
#include <utility>

#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/records/file_names.h"
#include "core/dataset/records/record_file_source.h"
#include "core/function/function.h"

namespace tutti {
namespace {

// The name of a file to the dataset of its records.
class ReadFile final : public Function {
 public:
  ReadFile(Ref<DatasetEnvironment> environment, const Node& reader)
      : Function(std::string(reader.op().name)),
        environment_(std::move(environment)),
        reader_(Ref<const Node>::Retain(&reader)) {
    for (const auto& [name, value] : reader.attributes().items()) {
      if (name != "num_parallel_reads") attributes_.Set(name, value);
    }
  }

  Status Call(Context&, const Value& in, Ref<Value>* out) override {
    TUTTI_ASSIGN_OR_RETURN(
        Ref<Dataset> name,
        Dataset::FromTensors(environment_, Value::OfTensor(in.leaf(0).tensor_ref())));
    TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> records,
                           Dataset::Make(environment_, reader_->op().name, reader_->name(),
                                         attributes_, {std::move(name)}));
    *out = Value::OfLeaf(Leaf(LeafKind::kDataset, std::move(records)));
    return OkStatus();
  }

  Granularity granularity() const override { return Granularity::kRow; }
  bool calls_host() const override { return false; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec*) const override {
    TUTTI_ASSIGN_OR_RETURN(Ref<const ElementSpec> records, RecordElementSpec(*reader_));
    return ElementSpec::Dataset(std::move(records));
  }

 private:
  const Ref<DatasetEnvironment> environment_;
  const Ref<const Node> reader_;
  Attributes attributes_;  // of a reader of one file after the other
};

class ParallelReadsStage final : public Stage {
 public:
  // `cycle` is the stage of an interleave.
  ParallelReadsStage(const Node& node, StageInputs cycle) : Stage(node, std::move(cycle)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    input().Next(demand, options, slab);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("parallel reads");
    writer->Int(version());
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    reader->Section("parallel reads");
    reader->IntIn(version(), version());
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  // The interleave stands in no graph header.
  int64_t version() const { return input().node().op().state_version; }
};

}  // namespace

bool HasParallelReads(const Node& node) {
  const int64_t files = node.attributes().Int("num_parallel_reads");
  return files > 1 || files == kAutotune;
}

Result<std::unique_ptr<Stage>> MakeParallelReadsStage(const Node& node, const ExecContext& context,
                                                      StageInputs inputs) {
  TUTTI_ASSIGN_OR_RETURN(const OpTraits* interleave, context.environment->ops().Find("interleave"));
  Attributes attributes;
  attributes.Set("cycle_length", node.attributes().Int("num_parallel_reads"));
  attributes.Set("num_parallel_calls", kAutotune);
  attributes.Set("seed", int64_t{0});
  auto read = MakeRef<ReadFile>(Ref<DatasetEnvironment>::Retain(context.environment), node);
  TUTTI_ASSIGN_OR_RETURN(const Ref<const Node> cycle,
                         Node::Create(*interleave, node.name(), std::move(attributes),
                                      node.inputs(), {std::move(read)}));
  if (context.profile != nullptr) context.profile->ShowAs(*cycle, node);
  StageInputs names;
  names.push_back(MakeFileNamesStage(node, context, std::move(inputs)));
  StageInputs made(1);
  TUTTI_ASSIGN_OR_RETURN(made[0], interleave->make_stage(*cycle, context, std::move(names)));
  return std::unique_ptr<Stage>(std::make_unique<ParallelReadsStage>(node, std::move(made)));
}

}  // namespace tutti

#include "core/dataset/exec/measured_stage.h"

#include <string>
#include <utility>

#include "core/base/environment.h"
#include "core/base/text.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/graph/dataset_options.h"
#include "core/dataset/graph/run_profile.h"
#include "core/dataset/graph/stats_aggregator.h"

namespace tutti {
namespace {

StageInputs OneInput(std::unique_ptr<Stage> stage) {
  StageInputs inputs;
  inputs.push_back(std::move(stage));
  return inputs;
}

// What stands before a tag: every part that is there, and "::" behind it.
std::string PrefixOf(const DatasetOptions& options, bool counters) {
  std::string prefix = options.Get(DatasetOptions::Text::kStatsPrefix).value_or("");
  if (!prefix.empty()) prefix += "::";
  if (!counters) return prefix;
  const std::string more = options.Get(DatasetOptions::Text::kStatsCounterPrefix).value_or("");
  return more.empty() ? prefix : prefix + more + "::";
}

class MeasuredStage final : public Stage {
 public:
  MeasuredStage(const Node& node, std::string_view tag, std::unique_ptr<Stage> stage,
                const ExecContext& context)
      : Stage(node, OneInput(std::move(stage))),
        stage_(input()),
        record_(context.options->aggregator(), context.environment->environment().clock(),
                Format("{}{}", PrefixOf(*context.options, false), tag),
                Format("{}{}::elements", PrefixOf(*context.options, true), tag),
                Format("{}{}::failures", PrefixOf(*context.options, true), tag)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (demand.count_only) return stage_.Next(demand, options, slab);
    if (record_.IsDue()) {
      const uint64_t then = record_.Now();
      stage_.Next(demand, options, slab);
      if (slab->rows > 0) record_.Add(slab->rows, record_.Now() - then);
    } else {
      stage_.Next(demand, options, slab);
      if (slab->rows > 0) record_.AddRows(slab->rows);
    }
    if (!slab->status.ok() && !IsInterruption(slab->status)) record_.AddFailure();
  }

 private:
  Stage& stage_;
  LatencyRecord record_;
};

class ProfiledStage final : public Stage {
 public:
  ProfiledStage(const Node& node, std::unique_ptr<Stage> stage, NodeProfile* record)
      : Stage(node, OneInput(std::move(stage))), stage_(input()), record_(*record) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (record_.IsDue()) {
      const uint64_t then = record_.Now();
      stage_.Next(demand, options, slab);
      const bool sizes = record_.Add(record_.Now() - then);
      if (sizes && !slab->columns.empty()) record_.AddBytes(slab->rows, ElementBytes(*slab));
    } else {
      stage_.Next(demand, options, slab);
    }
    if (!demand.count_only) record_.AddRows(slab->rows);
    if (!slab->status.ok() && !IsInterruption(slab->status)) record_.AddFailure();
  }

 private:
  Stage& stage_;
  NodeProfile& record_;  // of the iterator's profile
};

bool IsMeasured(const ExecContext& context) {
  return !context.probe && context.options != nullptr && context.options->aggregator();
}

}  // namespace

std::unique_ptr<Stage> MeasuredAs(std::string_view tag, const Node& node,
                                  std::unique_ptr<Stage> stage, const ExecContext& context) {
  if (!IsMeasured(context)) return stage;
  return std::make_unique<MeasuredStage>(node, tag, std::move(stage), context);
}

std::unique_ptr<Stage> Profiled(const Node& node, std::unique_ptr<Stage> stage,
                                const ExecContext& context) {
  if (context.record == nullptr) return stage;
  return std::make_unique<ProfiledStage>(node, std::move(stage), context.record);
}

std::unique_ptr<Stage> MeasuredIfAll(const Node& node, std::unique_ptr<Stage> stage,
                                     const ExecContext& context) {
  if (!IsMeasured(context) || !context.options->latency_all_edges()) return stage;
  const std::string tag = node.name().empty()
                              ? Format("record_latency::{}/{}", node.op().name, node.depth())
                              : Format("record_latency::{}", node.name());
  return MeasuredAs(tag, node, std::move(stage), context);
}

}  // namespace tutti

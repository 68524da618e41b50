#include "core/dataset/records/sql.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/wait.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/records/sql_column.h"
#include "core/dataset/records/sql_query.h"
#include "core/function/function.h"

namespace tutti {
namespace {

constexpr int64_t kMaxSqlRows = 1024;
constexpr size_t kMaxSqlSlabBytes = 1 << 20;
// A query may think long over each row: who waits gets what there is after a millisecond.
constexpr int64_t kGatheringNs = kMillisecondNs;
constexpr int64_t kPauseNs = 2 * kMillisecondNs;
constexpr size_t kMaxQueryBytes = 1 << 20;

std::span<const int64_t> TypesOf(const Node& node) {
  return *node.attributes().Get<std::vector<int64_t>>("output_types");
}
// Of attributes that the op's check has seen, or empty.
std::string_view GivenText(const Node& node, std::string_view attribute) {
  const auto* text = node.attributes().Get<std::string>(attribute);
  return text != nullptr ? std::string_view(*text) : std::string_view();
}
std::string TextOf(const Node& node, std::string_view attribute) {
  return std::string(GivenText(node, attribute));
}

Ref<const ElementSpec> RowSpecOf(const Node& node) {
  std::vector<Ref<const ElementSpec>> parts;
  for (const int64_t dtype : TypesOf(node)) {
    parts.push_back(ElementSpec::OfTensor(static_cast<DType>(dtype), PartialShape::Scalar()));
  }
  return ElementSpec::Tuple(parts);
}

// Whether the call in which the query runs still wants it.
class CallWatch final : public SqlWatch {
 public:
  CallWatch(const CallOptions& call, Clock& clock, const std::atomic<bool>& stopped,
            const std::string& label)
      : call_(call), clock_(clock), stopped_(stopped), label_(label) {}

  Status Check() override {
    if (stopped_) return Cancelled("{}: the iterator was closed", label_);
    if (call_.cancellation != nullptr && call_.cancellation->is_polled()) {
      const int64_t now_ns = clock_.NowNs();
      if (now_ns - asked_ns_ >= Cancellation::kPollIntervalNs) {
        call_.cancellation->PollNow();
        asked_ns_ = now_ns;
      }
    }
    return CheckCallOptions(call_, clock_, label_);
  }

  void Pause() override {
    std::mutex mutex;
    std::condition_variable nobody;
    std::unique_lock lock(mutex);
    CallOptions pause = call_;
    pause.deadline = Deadline::Earlier(call_.deadline, Deadline::After(clock_, kPauseNs));
    // Nothing comes of it but that time passes.
    (void)WaitUntil(lock, nobody, clock_, pause, [] { return false; }, label_);
  }

 private:
  const CallOptions& call_;
  Clock& clock_;
  const std::atomic<bool>& stopped_;
  const std::string& label_;
  int64_t asked_ns_ = clock_.NowNs();
};

class SqlSource final : public Stage {
 public:
  SqlSource(const Node& node, const ExecContext& context)
      : Stage(node, {}),
        context_(context),
        clock_(context.environment->environment().clock()),
        spec_(RowSpecOf(node)) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    if (ended_) {
      slab->end = true;
      return;
    }
    CallWatch watch(options, clock_, stopped_, node().label());
    slab->status = watch.Check();
    if (slab->status.ok() && query_ == nullptr) slab->status = GoTo(position_, watch);
    if (slab->status.ok()) {
      const int64_t begin = position_;
      std::vector<SqlColumn> columns = NewColumns();
      Gather(demand, watch, &columns, slab);
      if (slab->rows > 0 && !demand.count_only) Pack(begin, &columns, slab);
    } else if (!IsInterruption(slab->status)) {
      slab->status = Over(std::move(slab->status));
    }
  }

  Status Restart(const CallOptions&) override {
    query_.reset();
    position_ = 0;
    ended_ = false;
    return OkStatus();
  }

  Status Save(StateWriter* writer) override {
    writer->Section("sql");
    writer->Int(position_);
    writer->Int(ended_ ? 1 : 0);
    return OkStatus();
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    TUTTI_RETURN_IF_ERROR(Restart(options));
    reader->Section("sql");
    const int64_t position = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    const bool ended = reader->IntIn(0, 1) != 0;
    TUTTI_RETURN_IF_ERROR(reader->status());
    if (position > 0 && !ended) {
      CallWatch watch(options, clock_, stopped_, node().label());
      TUTTI_RETURN_IF_ERROR(GoTo(position, watch));
    }
    position_ = position;
    ended_ = ended;
    return OkStatus();
  }

  void Stop() override { stopped_ = true; }
  // A query that waits for its next call keeps others from writing.
  Status Join(const CallOptions&) override {
    query_.reset();
    return OkStatus();
  }

 private:
  std::vector<SqlColumn> NewColumns() const {
    std::vector<SqlColumn> columns;
    for (const int64_t dtype : TypesOf(node())) {
      columns.emplace_back(static_cast<DType>(dtype), columns.size());
    }
    return columns;
  }

  // Asks the query anew, and goes in front of row `position`.
  Status GoTo(int64_t position, SqlWatch& watch) {
    Result<std::unique_ptr<SqlQuery>> query =
        SqlQuery::Open(TextOf(node(), "data_source_name"), TextOf(node(), "query"),
                       TypesOf(node()).size(), watch);
    if (!query.ok()) return About(std::move(query).status());
    for (int64_t row = 0; row < position; ++row) {
      const Result<bool> found = (*query)->Step(watch);
      if (!found.ok()) return About(found.status());
      if (*found) continue;
      return FailedPrecondition(
                 "{}: the query gave {} rows, and at least {} when it was asked before; the "
                 "database was changed in between",
                 node().label(), row, position)
          .With("node", node().label())
          .With("file", TextOf(node(), "data_source_name"));
    }
    query_ = std::move(query).value();
    return OkStatus();
  }

  // Rows until there are enough, one fails or the query ends.
  void Gather(const Demand& demand, SqlWatch& watch, std::vector<SqlColumn>* columns, Slab* slab) {
    const int64_t wanted =
        demand.count_only ? demand.max_rows : std::min(demand.max_rows, kMaxSqlRows);
    const int64_t until_ns = clock_.NowNs() + kGatheringNs;
    while (slab->rows < wanted) {
      if (slab->rows > 0 && (BytesOf(*columns) >= kMaxSqlSlabBytes || clock_.NowNs() >= until_ns)) {
        return;
      }
      const Result<bool> found = query_->Step(watch);
      if (!found.ok()) {
        query_.reset();
        // What there is was not called off; the rest is asked for anew.
        if (!IsInterruption(found.status())) {
          slab->status = Over(About(found.status()));
        } else if (slab->rows == 0) {
          slab->status = found.status();
        }
        return;
      }
      if (!*found) {
        query_.reset();
        ended_ = slab->end = true;
        return;
      }
      ++position_;
      if (!demand.count_only) {
        Status converted = AppendRow(static_cast<size_t>(slab->rows), columns);
        if (!converted.ok() && demand.tentative) {
          // Whether it is wanted is not decided: it is asked for anew.
          query_.reset();
          --position_;
          if (slab->rows == 0) slab->status = Undecided(node());
          return;
        }
        if (!converted.ok()) {
          slab->status = std::move(converted);
          return;
        }
      }
      ++slab->rows;
    }
  }

  static size_t BytesOf(const std::vector<SqlColumn>& columns) {
    size_t bytes = 0;
    for (const SqlColumn& column : columns) bytes += column.bytes();
    return bytes;
  }

  // The query's row as row `rows`, or nothing of it.
  Status AppendRow(size_t rows, std::vector<SqlColumn>* columns) {
    for (SqlColumn& column : *columns) {
      Status status = column.Append(*query_);
      if (status.ok()) continue;
      for (SqlColumn& other : *columns) {
        if (&other == &column) break;
        other.Truncate(rows);
      }
      const int64_t index = position_ - 1;
      return std::move(status)
          .WithPrefix(Format("{}: row {}", node().label(), index))
          .With("node", node().label())
          .With("index", index)
          .With("file", TextOf(node(), "data_source_name"));
    }
    return OkStatus();
  }

  // Where there is no memory for all rows from `begin` on, that one fails, and the others are asked
  // for anew.
  void Pack(int64_t begin, std::vector<SqlColumn>* columns, Slab* slab) {
    slab->tree = spec_->tree_ref();
    for (SqlColumn& column : *columns) {
      Result<Ref<Tensor>> made = column.Take(context_.account);
      if (made.ok()) {
        slab->columns.push_back(Column::Dense(std::move(made).value()));
        continue;
      }
      slab->Clear();
      slab->status = About(std::move(made).status()).With("index", begin);
      query_.reset();
      ended_ = false;
      position_ = begin + 1;
      return;
    }
  }

  Status About(Status status) const {
    if (IsInterruption(status)) return status;
    return std::move(status).WithPrefix(node().label()).With("node", node().label());
  }

  // Nothing follows, and nobody knows how much that is.
  Status Over(Status status) {
    ended_ = true;
    return WithLoss(std::move(status), Loss::kMany);
  }

  const ExecContext& context_;
  Clock& clock_;
  const Ref<const ElementSpec> spec_;
  std::unique_ptr<SqlQuery> query_;  // in front of row position_; null before it has been asked
  int64_t position_ = 0;
  bool ended_ = false;
  std::atomic<bool> stopped_{false};
};

Status CheckSqlText(const Node& node, std::string_view attribute, size_t most) {
  const std::string_view text = GivenText(node, attribute);
  if (text.empty()) return InvalidArgument("{}: {} is empty", node.label(), attribute);
  if (text.find('\0') != std::string_view::npos) {
    return InvalidArgument("{}: {} has a byte 0 in it", node.label(), attribute);
  }
  if (text.size() > most) {
    return InvalidArgument("{}: {} has {} bytes, at most {} are taken", node.label(), attribute,
                           text.size(), most);
  }
  return OkStatus();
}

Status CheckSql(const Node& node) {
  if (const std::string_view driver = GivenText(node, "driver_name"); driver != "sqlite") {
    return InvalidArgument("{}: the only driver_name is \"sqlite\", got {}", node.label(),
                           Quote(driver));
  }
  TUTTI_RETURN_IF_ERROR(CheckSqlText(node, "data_source_name", kMaxQueryBytes));
  TUTTI_RETURN_IF_ERROR(CheckSqlText(node, "query", kMaxQueryBytes));
  const auto* types = node.attributes().Get<std::vector<int64_t>>("output_types");
  if (types == nullptr || types->empty()) {
    return InvalidArgument("{}: output_types is empty; pass one dtype for each column of the query",
                           node.label());
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t number = (*types)[i];
    const bool is_dtype = number == static_cast<int32_t>(number) &&
                          IsValid(static_cast<DType>(number));
    if (is_dtype && SqlColumn::Takes(static_cast<DType>(number))) continue;
    return InvalidArgument("{}: output_types[{}] must be one of {}, got {}", node.label(), i,
                           SqlColumn::TakenDTypes(),
                           is_dtype ? std::string(DTypeName(static_cast<DType>(number)))
                                    : Format("the number {}", number))
        .With("index", i);
  }
  return OkStatus();
}

}  // namespace

constinit const OpTraits kSqlOp = {
    .name = "sql",
    .attributes = {{"driver_name"}, {"data_source_name"}, {"query"}, {"output_types"}},
    .num_inputs = 0,
    .row_ratio = RowRatio::kSource,
    .check = CheckSql,
    .cardinality = [](const Node&) { return kUnknownCardinality; },
    .element_spec = [](const Node& node) -> Result<Ref<const ElementSpec>> {
      return RowSpecOf(node);
    },
    .make_stage = [](const Node& node, const ExecContext& context,
                     StageInputs) -> Result<std::unique_ptr<Stage>> {
      return std::unique_ptr<Stage>(std::make_unique<SqlSource>(node, context));
    },
};

Result<Ref<Dataset>> MakeSqlDataset(const Ref<DatasetEnvironment>& environment,
                                    SqlDatasetOptions options) {
  std::vector<int64_t> types;
  for (const DType dtype : options.output_types) types.push_back(static_cast<int64_t>(dtype));
  Attributes attributes;
  attributes.Set("driver_name", std::move(options.driver_name));
  attributes.Set("data_source_name", std::move(options.data_source_name));
  attributes.Set("query", std::move(options.query));
  attributes.Set("output_types", std::move(types));
  return Dataset::Make(environment, kSqlOp.name, std::move(options.name), std::move(attributes),
                       {});
}

}  // namespace tutti

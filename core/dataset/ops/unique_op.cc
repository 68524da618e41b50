// unique: of equal elements the first. Elements are equal that have one dtype, one shape and the
// same contents; they are single tensors of int32, int64 or byte strings.
//
// What has been seen in a pass is kept, one key per element, in memory that is charged to the
// iterator; the state of the iterator holds the keys, so that nothing is made again after Restore.
// Elements that do not fit in memory are not lost: the call fails, and the next one tries again.
#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/pick_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/dataset/exec/stage.h"
#include "core/dataset/graph/dataset.h"
#include "core/dataset/graph/dataset_environment.h"
#include "core/dataset/ops/builtin_ops.h"
#include "core/dataset/ops/op_parts.h"

namespace tutti {
namespace {

constexpr std::string_view kWanted =
    "unique takes elements of one tensor of int32, int64 or byte strings; map them to such a key";

bool HasKeys(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kBytes;
}

void AppendNumber(uint64_t number, std::string* key) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  key->append(bytes, sizeof(bytes));
}

// Equal for equal tensors, different for all others.
Status MakeKey(const Tensor& original, std::string* key) {
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> tensor, original.Contiguous());
  key->clear();
  key->push_back(static_cast<char>(tensor->dtype()));
  key->push_back(static_cast<char>(tensor->rank()));
  for (int64_t dim : tensor->shape().dims()) AppendNumber(static_cast<uint64_t>(dim), key);
  if (tensor->dtype() != DType::kBytes) {
    key->append(static_cast<const char*>(tensor->data()), tensor->byte_size());
    return OkStatus();
  }
  for (const BytesView& view : tensor->span<BytesView>()) {
    // Without the lengths ["ab", "c"] would be ["a", "bc"].
    if (tensor->rank() > 0) AppendNumber(view.text().size(), key);
    key->append(view.text());
  }
  return OkStatus();
}

// The keys of a pass in the order of their elements.
class SeenKeys {
 public:
  explicit SeenKeys(MemoryAccount* account) : account_(account) {}
  ~SeenKeys() { Clear(); }

  // Sets *added to whether the key is new. RESOURCE_EXHAUSTED when there is no memory for it.
  Status Add(const std::string& key, bool* added) {
    *added = false;
    if (set_.contains(key)) return OkStatus();
    const uint64_t bytes = key.size() + kBytesPerKey;
    TUTTI_RETURN_IF_ERROR(account_->Reserve(bytes));
    charged_ += bytes;
    set_.insert(keys_.emplace_back(key));
    *added = true;
    return OkStatus();
  }

  void Clear() {
    set_.clear();
    keys_.clear();
    account_->Unreserve(std::exchange(charged_, 0));
  }

  const std::deque<std::string>& keys() const { return keys_; }
  int64_t bytes() const { return static_cast<int64_t>(charged_); }

 private:
  // The string, and its node and part of the table in the set.
  static constexpr uint64_t kBytesPerKey =
      sizeof(std::string) + sizeof(std::string_view) + 4 * sizeof(void*);

  MemoryAccount* const account_;
  std::deque<std::string> keys_;               // stays where it is
  std::unordered_set<std::string_view> set_;  // of keys_
  uint64_t charged_ = 0;
};

class UniqueStage final : public Stage {
 public:
  UniqueStage(const Node& node, const ExecContext& context, StageInputs inputs)
      : Stage(node, std::move(inputs)),
        clock_(context.environment->environment().clock()),
        account_(context.account),
        rows_(input()),
        seen_(context.account),
        kept_(context, node, HeldBytes::Kind::kKept) {}

  void Next(const Demand& demand, const CallOptions& options, Slab* slab) override {
    while (slab->rows == 0 && !slab->end && slab->status.ok()) {
      slab->status = CheckCallOptions(options, clock_, node().label());
      if (slab->status.ok()) slab->status = kept_.CheckRoom();
      if (!slab->status.ok()) return;
      Slab in;
      // Nobody knows how many rows it takes to find what is wanted.
      rows_.Pull(Demand::Made(std::min(demand.max_rows, kMaxSlabRows), kNoHorizon), options, &in);
      std::vector<int64_t> kept;
      int64_t used = 0;
      Status status = Sift(in, &kept, &used);
      kept_.Set(seen_.bytes());
      index_ += used;
      bool end = false;
      if (used == in.rows && status.ok()) {
        status = std::move(in.status);
        end = in.end;
      } else {
        rows_.PutBack(in, used);
      }
      if (!kept.empty()) {
        Result<Slab> picked = PickRows(in, kept, account_);
        if (picked.ok()) {
          *slab = std::move(picked).value();
        } else if (status.ok()) {
          status = picked.status();
        }
      }
      slab->end = end;
      // A call that has rows was not interrupted.
      if (!IsInterruption(status) || slab->rows == 0) slab->status = std::move(status);
    }
  }

  Status Restart(const CallOptions& options) override {
    Empty();
    return Stage::Restart(options);
  }

  Status Save(StateWriter* writer) override {
    writer->Section("unique");
    writer->Int(index_);
    writer->Int(static_cast<int64_t>(seen_.keys().size()));
    for (const std::string& key : seen_.keys()) writer->Bytes(key);
    TUTTI_RETURN_IF_ERROR(rows_.Save(writer));
    return Stage::Save(writer);
  }

  Status Restore(StateReader* reader, const CallOptions& options) override {
    Empty();
    reader->Section("unique");
    index_ = reader->IntIn(0, std::numeric_limits<int64_t>::max());
    const int64_t count = reader->IntIn(0, index_);
    for (int64_t i = 0; i < count && reader->ok(); ++i) {
      bool added = false;
      TUTTI_RETURN_IF_ERROR(seen_.Add(std::string(reader->Bytes()), &added));
    }
    kept_.Set(seen_.bytes());
    rows_.Restore(reader);
    TUTTI_RETURN_IF_ERROR(reader->status());
    return Stage::Restore(reader, options);
  }

 private:
  void Empty() {
    rows_.Clear();
    seen_.Clear();
    kept_.Clear();
    index_ = 0;
  }

  // The rows whose keys are new. *used counts those that need not come again: all of them, unless
  // it fails.
  Status Sift(const Slab& in, std::vector<int64_t>* kept, int64_t* used) {
    for (; *used < in.rows; ++*used) {
      const int64_t index = index_ + *used;
      Status status = CheckRow(in, *used);
      if (!status.ok()) {
        ++*used;
        return About(std::move(status), index);
      }
      bool added = false;
      status = seen_.Add(key_, &added);
      if (!status.ok()) return About(std::move(status), index);
      if (added) kept->push_back(*used);
    }
    return OkStatus();
  }

  // Leaves the row's key in key_.
  Status CheckRow(const Slab& in, int64_t row) {
    if (in.columns.size() != 1) {
      return InvalidArgument("expected one component, found {} in {}; {}", in.columns.size(),
                             in.tree->ToString(), kWanted)
          .With("structure", in.tree->ToString());
    }
    const Leaf leaf = in.columns[0].Row(row);
    if (!leaf.is_tensor() || !HasKeys(leaf.tensor().dtype())) {
      const std::string found = LeafSpec::Of(leaf).ToString();
      return InvalidArgument("found {}; {}", found, kWanted).With("structure", found);
    }
    return MakeKey(leaf.tensor(), &key_);
  }

  Status About(Status status, int64_t index) const {
    return std::move(status)
        .WithPrefix(Format("{}: element {}", node().label(), index))
        .With("node", node().label())
        .With("index", index);
  }

  Clock& clock_;
  MemoryAccount* const account_;
  InputRows rows_;
  SeenKeys seen_;
  HeldBytes kept_;
  int64_t index_ = 0;  // of the next element of the input
  std::string key_;
};

Status CheckUnique(const Node& node) {
  const Ref<const ElementSpec> spec = node.input().element_spec();
  if (!spec) return OkStatus();
  if (spec->num_leaves() == 1 && spec->leaf(0).is_tensor() && HasKeys(spec->leaf(0).dtype)) {
    return OkStatus();
  }
  return InvalidArgument("{}: the elements are {}; {}", node.label(), spec->ToString(), kWanted)
      .With("structure", spec->ToString());
}

int64_t UniqueCardinality(const Node&) { return kUnknownCardinality; }

Result<std::unique_ptr<Stage>> MakeUnique(const Node& node, const ExecContext& context,
                                          StageInputs inputs) {
  return std::unique_ptr<Stage>(std::make_unique<UniqueStage>(node, context, std::move(inputs)));
}

}  // namespace

constinit const OpTraits kUniqueOp = {
    .name = "unique",
    .row_ratio = RowRatio::kSubset,
    .passes_elements = true,
    .check = CheckUnique,
    .cardinality = UniqueCardinality,
    .element_spec = SpecOfInput,
    .make_stage = MakeUnique,
};

}  // namespace tutti

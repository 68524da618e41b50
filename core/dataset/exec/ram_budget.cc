#include "core/dataset/exec/ram_budget.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/graph/dataset.h"

namespace tutti {
namespace {

int64_t TensorBytes(const Tensor& tensor) {
  auto bytes = static_cast<int64_t>(tensor.byte_size());
  if (tensor.dtype() != DType::kBytes) return bytes;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    bytes += static_cast<int64_t>(
        static_cast<const BytesView*>(tensor.ElementAt(i))->text().size());
  }
  return bytes;
}

int64_t LeafBytes(const Leaf& leaf) {
  if (leaf.is_tensor()) return TensorBytes(leaf.tensor());
  if (leaf.kind() != LeafKind::kDataset) return 0;
  const Node& node = leaf.object_as<const Dataset>()->node();
  const Ref<const Value>* value =
      node.op().is_value ? node.attributes().Get<Ref<const Value>>("value") : nullptr;
  return value != nullptr ? ElementBytes(**value) : 0;
}

}  // namespace

int64_t ElementBytes(const Slab& rows) {
  int64_t bytes = 0;
  for (const Column& column : rows.columns) {
    if (column.is_dense()) {
      bytes += TensorBytes(*column.dense());
      continue;
    }
    for (const Leaf& leaf : column.leaves()) bytes += LeafBytes(leaf);
  }
  return bytes;
}

int64_t ElementBytes(const Value& element) {
  int64_t bytes = 0;
  for (const Leaf& leaf : element.leaves()) bytes += LeafBytes(leaf);
  return bytes;
}

Status RamBudget::NoRoom(const Node& asking) const {
  const int64_t kept = kept_bytes();
  // Many stages may be of one operation, as those of an interleave's datasets are.
  std::map<const Node*, int64_t> by_node;
  std::vector<std::pair<int64_t, std::string>> holders;  // the largest first
  {
    std::lock_guard lock(mutex_);
    for (const HeldBytes* one : all_) {
      by_node[one->node_.get()] += one->bytes_.load(std::memory_order_relaxed);
    }
    for (const auto& [node, bytes] : by_node) holders.emplace_back(bytes, node->label());
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto [most, label] = holders.empty() ? std::pair<int64_t, std::string>(-1, "")
                                             : holders.front();
  constexpr size_t kMostOthers = 4;
  std::string others;
  for (size_t i = 1; i < holders.size() && i <= kMostOthers && holders[i].first > 0; ++i) {
    others += Format("{}{} holds {}", i == 1 ? "; " : ", ", holders[i].second,
                     HumanBytes(static_cast<uint64_t>(holders[i].first)));
  }
  return ResourceExhausted(
             "{}: the pipeline's buffers hold {} that they have to keep, and autotune.ram_budget "
             "is {}; {} holds most, {}: make it hold less, let elements be smaller there, or raise "
             "the budget{}",
             asking.label(), HumanBytes(static_cast<uint64_t>(std::max<int64_t>(kept, 0))),
             HumanBytes(static_cast<uint64_t>(limit_)), label,
             HumanBytes(static_cast<uint64_t>(std::max<int64_t>(most, 0))), others)
      .With("node", label)
      .With("node_bytes", most)
      .With("held_bytes", kept)
      .With("budget_bytes", limit_);
}

HeldBytes::HeldBytes(const ExecContext& context, const Node& node, Kind kind)
    : budget_(context.probe ? nullptr : context.budget),
      node_(Ref<const Node>::Retain(&node)),
      kind_(kind) {
  if (!counts()) return;
  std::lock_guard lock(budget_->mutex_);
  budget_->all_.push_back(this);
}

HeldBytes::~HeldBytes() {
  if (!counts()) return;
  Clear();
  std::lock_guard lock(budget_->mutex_);
  std::erase(budget_->all_, this);
}

void HeldBytes::AddBytes(int64_t rows, int64_t bytes) {
  if (!counts()) return;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  (kind_ == Kind::kKept ? budget_->kept_ : budget_->ahead_)
      .fetch_add(bytes, std::memory_order_relaxed);
  if (rows == 0) return;
  seen_rows_.fetch_add(rows, std::memory_order_relaxed);
  seen_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void HeldBytes::Set(int64_t bytes) {
  AddBytes(0, bytes - bytes_.load(std::memory_order_relaxed));
}

int64_t HeldBytes::BytesEach() const {
  const int64_t rows = seen_rows_.load(std::memory_order_relaxed);
  return rows == 0 ? -1 : seen_bytes_.load(std::memory_order_relaxed) / rows;
}

Status HeldBytes::CheckRoom() const {
  if (!counts() || budget_->kept_bytes() < budget_->limit_) return OkStatus();
  return budget_->NoRoom(*node_);
}

Status HeldBytes::CheckWithin() const {
  if (!counts() || budget_->kept_bytes() <= budget_->limit_) return OkStatus();
  return budget_->NoRoom(*node_);
}

int64_t HeldBytes::RowsThatFit(int64_t rows) const {
  if (!counts()) return rows;
  const int64_t each = BytesEach();
  if (each < 0) return std::min<int64_t>(rows, 1);
  const int64_t held = kind_ == Kind::kKept ? budget_->kept_bytes() : budget_->held_bytes();
  const int64_t room = budget_->limit_ - held;
  return std::min(rows, std::max<int64_t>(room / std::max<int64_t>(each, 1), 1));
}

}  // namespace tutti

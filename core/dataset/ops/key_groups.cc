#include "core/dataset/ops/key_groups.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/input_rows.h"
#include "core/dataset/exec/ram_budget.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_spec.h"

namespace tutti {
namespace {

constexpr int64_t kMostInGroup = std::numeric_limits<int64_t>::max();

Status Append(Ref<const Value> row, std::vector<Ref<const Value>>* rows) {
  if (!rows->empty()) {
    TUTTI_RETURN_IF_ERROR(CheckSameStructure(rows->front()->spec(), row->spec(), "an element"));
  }
  rows->push_back(std::move(row));
  return OkStatus();
}

}  // namespace

Status ReadInteger(const Value& result, std::string_view what, int64_t* integer,
                   bool* is_unsigned) {
  const Tensor* const tensor = result.AsTensor();
  if (tensor == nullptr || !IsInteger(tensor->dtype()) || tensor->rank() != 0) {
    return InvalidArgument("{} must give an integer scalar, and gave {}", what,
                           ElementSpec::OfValue(result)->ToString());
  }
  *is_unsigned = tensor->dtype() == DType::kUint64;
  if (*is_unsigned) {
    *integer = static_cast<int64_t>(tensor->item<uint64_t>());
    return OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(const Ref<Tensor> number,
                         Convert(result.leaf().tensor_ref(), DType::kInt64));
  *integer = number->item<int64_t>();
  return OkStatus();
}

Ref<Value> GroupKey::ToValue() const {
  return Value::OfTensor(is_unsigned ? Tensor::Scalar(static_cast<uint64_t>(value))
                                     : Tensor::Scalar(value));
}

Slab KeyGroups::Group::Slice(size_t begin, size_t end) const {
  Slab slab;
  slab.rows = static_cast<int64_t>(end - begin);
  slab.tree = rows[begin]->spec_ref();
  for (size_t i = 0; i < rows[begin]->num_leaves(); ++i) {
    std::vector<Leaf> leaves;
    leaves.reserve(end - begin);
    for (size_t row = begin; row < end; ++row) leaves.push_back(rows[row]->leaf(i));
    slab.columns.push_back(Column::Rows(std::move(leaves)));
  }
  return slab;
}

void KeyGroups::SetSize(const GroupKey& key, int64_t size) { groups_[key].size = size; }

Status KeyGroups::Add(const GroupKey& key, Ref<const Value> row) {
  const auto place = groups_.try_emplace(key).first;
  Group& group = place->second;
  const auto before = static_cast<int64_t>(group.rows.size());
  TUTTI_RETURN_IF_ERROR(Append(std::move(row), &group.rows));
  if (size_ > 0) group.size = size_;
  if (size_ > 0 && before > 0) missing_.erase(missing_.find(size_ - before));
  Note(*place);
  return OkStatus();
}

void KeyGroups::Note(Entry& entry) {
  const Group& group = entry.second;
  const auto rows = static_cast<int64_t>(group.rows.size());
  if (size_ > 0) missing_.insert(size_ - rows);
  if (rows == group.size) full_ = &entry;
}

int64_t KeyGroups::RowsUntilFull() const {
  // A new key may have any size.
  if (size_ == 0) return 1;
  return missing_.empty() ? size_ : *missing_.begin();
}

const KeyGroups::Entry* KeyGroups::First() {
  while (!groups_.empty() && groups_.begin()->second.rows.empty()) {
    groups_.erase(groups_.begin());
  }
  return groups_.empty() ? nullptr : &*groups_.begin();
}

void KeyGroups::Remove(const Entry& entry) {
  if (full_ == &entry) full_ = nullptr;
  const auto place = groups_.find(entry.first);
  if (size_ > 0) {
    missing_.erase(missing_.find(size_ - static_cast<int64_t>(entry.second.rows.size())));
    groups_.erase(place);
  } else {
    place->second.rows = {};
  }
}

int64_t KeyGroups::ElementBytes() const {
  int64_t bytes = 0;
  for (const auto& [key, group] : groups_) {
    for (const Ref<const Value>& row : group.rows) bytes += tutti::ElementBytes(*row);
  }
  return bytes;
}

void KeyGroups::Clear() {
  groups_.clear();
  missing_.clear();
  full_ = nullptr;
}

Status KeyGroups::Save(StateWriter* writer) const {
  writer->Int(static_cast<int64_t>(groups_.size()));
  for (const auto& [key, group] : groups_) {
    writer->Int(key.value);
    writer->Int(key.is_unsigned ? 1 : 0);
    writer->Int(group.size);
    HeldRows held;
    for (size_t begin = 0; begin < group.rows.size(); begin += kMaxSlabRows) {
      held.Append(group.Slice(begin, std::min(begin + kMaxSlabRows, group.rows.size())));
    }
    TUTTI_RETURN_IF_ERROR(held.Save(writer));
  }
  return OkStatus();
}

void KeyGroups::Restore(StateReader* reader) {
  Clear();
  const int64_t count = reader->IntIn(0, kMostInGroup);
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    GroupKey key;
    key.value = reader->Int();
    key.is_unsigned = reader->IntIn(0, 1) != 0;
    Group group;
    group.size = size_ > 0 ? reader->IntIn(size_, size_) : reader->IntIn(1, kMostInGroup);
    HeldRows held;
    held.Restore(reader);
    while (reader->ok() && !held.empty()) {
      Slab rows;
      held.Pop(kMaxSlabRows, &rows);
      for (int64_t row = 0; row < rows.rows && reader->ok(); ++row) {
        Result<Ref<Value>> value = rows.Row(row);
        const Status added =
            value.ok() ? Append(std::move(value).value(), &group.rows) : value.status();
        if (!added.ok()) reader->Fail(added.message());
      }
    }
    const auto rows = static_cast<int64_t>(group.rows.size());
    const bool in_order = groups_.empty() || groups_.rbegin()->first < key;
    if (reader->ok() && (!in_order || rows > group.size || (size_ > 0 && rows == 0) ||
                         (rows == group.size && full_ != nullptr))) {
      reader->Fail("an impossible group");
    }
    if (!reader->ok()) return Clear();
    Note(*groups_.emplace_hint(groups_.end(), key, std::move(group)));
  }
}

}  // namespace tutti

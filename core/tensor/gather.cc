// Gathering rows: each row is copied once, by a fixed-size copy where rows are one small item.
// Sources whose rows have gaps are made dense first.
#include "core/tensor/gather.h"

#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/copy.h"

namespace tutti {
namespace {

// Where rows are copied from. `dense` keeps a made copy alive.
struct RowSource {
  const char* data;
  size_t row_stride_bytes;
  int64_t num_rows;
  Ref<Tensor> dense;
};

bool RowsAreDense(const Tensor& tensor) {
  const Dims row_major = tensor.shape().RowMajorStrides();
  for (size_t axis = 1; axis < tensor.rank(); ++axis) {
    if (tensor.dim(axis) != 1 && tensor.strides()[axis] != row_major[axis]) return false;
  }
  return true;
}

Result<std::vector<RowSource>> PrepareSources(std::span<const Tensor* const> sources) {
  if (sources.empty()) return InvalidArgument("gather: no tensors are given");
  const Tensor& first = *sources[0];
  std::vector<RowSource> prepared;
  prepared.reserve(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const Tensor& source = *sources[i];
    if (source.rank() == 0) {
      return InvalidArgument("gather: tensor {} is {}, which has no rows", i, source.SpecString());
    }
    if (source.dtype() != first.dtype() ||
        !(source.shape().RowShape() == first.shape().RowShape())) {
      return InvalidArgument(
                 "gather: tensor 0 is {} and tensor {} is {}; dtypes and the shapes of rows must "
                 "be equal",
                 first.SpecString(), i, source.SpecString())
          .With("index", i);
    }
    RowSource& row_source = prepared.emplace_back(RowSource{
        static_cast<const char*>(source.data()),
        static_cast<size_t>(source.strides()[0]) * source.item_size(), source.dim(0), nullptr});
    if (!RowsAreDense(source) && source.num_elements() > 0) {
      TUTTI_ASSIGN_OR_RETURN(row_source.dense, source.Copy());
      row_source.data = static_cast<const char*>(row_source.dense->data());
      row_source.row_stride_bytes =
          static_cast<size_t>(row_source.dense->strides()[0]) * source.item_size();
    }
  }
  return prepared;
}

Status CheckRows(std::span<const RowSource> sources, std::span<const RowRef> rows) {
  for (const RowRef& row : rows) {
    if (row.source >= sources.size()) {
      return OutOfRange("gather: there is no tensor {} of {}", row.source, sources.size());
    }
    if (row.row < 0 || row.row >= sources[row.source].num_rows) {
      return OutOfRange("gather: there is no row {} in tensor {}, which has {}", row.row,
                        row.source, sources[row.source].num_rows);
    }
  }
  return OkStatus();
}

const char* RowData(std::span<const RowSource> sources, const RowRef& row) {
  const RowSource& source = sources[row.source];
  return source.data + static_cast<size_t>(row.row) * source.row_stride_bytes;
}

template <size_t kRowBytes>
void CopyRows(std::span<const RowSource> sources, std::span<const RowRef> rows, char* out) {
  for (const RowRef& row : rows) {
    std::memcpy(out, RowData(sources, row), kRowBytes);
    out += kRowBytes;
  }
}

void CopyRowsOf(size_t row_bytes, std::span<const RowSource> sources, std::span<const RowRef> rows,
                char* out) {
  switch (row_bytes) {
    case 0: return;
    case 1: return CopyRows<1>(sources, rows, out);
    case 2: return CopyRows<2>(sources, rows, out);
    case 4: return CopyRows<4>(sources, rows, out);
    case 8: return CopyRows<8>(sources, rows, out);
    case 16: return CopyRows<16>(sources, rows, out);
    default: break;
  }
  for (const RowRef& row : rows) {
    std::memcpy(out, RowData(sources, row), row_bytes);
    out += row_bytes;
  }
}

}  // namespace

Result<Ref<Tensor>> GatherRows(std::span<const Tensor* const> sources, std::span<const RowRef> rows,
                               const TensorOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<RowSource> prepared, PrepareSources(sources));
  TUTTI_RETURN_IF_ERROR(CheckRows(prepared, rows));
  const Tensor& first = *sources[0];
  const Shape shape = first.shape().WithDim(0, static_cast<int64_t>(rows.size()));
  const size_t row_bytes =
      static_cast<size_t>(first.shape().RowShape().num_elements()) * first.item_size();
  if (first.dtype() == DType::kBytes) {
    std::vector<BytesView> views(static_cast<size_t>(shape.num_elements()));
    CopyRowsOf(row_bytes, prepared, rows, reinterpret_cast<char*>(views.data()));
    return Tensor::FromStrings(shape, views, options.account);
  }
  TUTTI_ASSIGN_OR_RETURN(Ref<Tensor> out, Tensor::Create(first.dtype(), shape, Unzeroed(options)));
  CopyRowsOf(row_bytes, prepared, rows, static_cast<char*>(out->mutable_data()));
  return out;
}

Result<Ref<Tensor>> GatherRows(const Tensor& source, std::span<const int64_t> rows,
                               const TensorOptions& options) {
  std::vector<RowRef> refs;
  refs.reserve(rows.size());
  for (int64_t row : rows) refs.push_back(RowRef{0, row});
  const Tensor* const sources[] = {&source};
  return GatherRows(sources, refs, options);
}

Status GatherRowsInto(std::span<const Tensor* const> sources, std::span<const RowRef> rows,
                      Tensor* out) {
  TUTTI_ASSIGN_OR_RETURN(std::vector<RowSource> prepared, PrepareSources(sources));
  TUTTI_RETURN_IF_ERROR(CheckRows(prepared, rows));
  const Tensor& first = *sources[0];
  const Shape shape = first.shape().WithDim(0, static_cast<int64_t>(rows.size()));
  if (out->dtype() != first.dtype() || !(out->shape() == shape) || !out->is_contiguous() ||
      first.dtype() == DType::kBytes) {
    return InvalidArgument("gather: {} rows of {} do not go into {}", rows.size(),
                           first.SpecString(), out->SpecString());
  }
  if (out->read_only()) return FailedPrecondition("gather: {} is read-only", out->SpecString());
  const size_t row_bytes =
      static_cast<size_t>(first.shape().RowShape().num_elements()) * first.item_size();
  CopyRowsOf(row_bytes, prepared, rows, static_cast<char*>(out->mutable_data()));
  return OkStatus();
}

Result<Ref<Tensor>> Stack(std::span<const Tensor* const> tensors, const TensorOptions& options) {
  if (tensors.empty()) return InvalidArgument("stack: no tensors are given");
  const Tensor& first = *tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i]->dtype() != first.dtype() || !(tensors[i]->shape() == first.shape())) {
      return InvalidArgument("stack: tensor 0 is {} and tensor {} is {}; they must be equal",
                             first.SpecString(), i, tensors[i]->SpecString())
          .With("index", i);
    }
  }
  const Shape shape = first.shape().Prepend(static_cast<int64_t>(tensors.size()));
  const bool is_bytes = first.dtype() == DType::kBytes;
  std::vector<BytesView> views(is_bytes ? static_cast<size_t>(shape.num_elements()) : 0);
  Ref<Tensor> stacked;
  auto* place = reinterpret_cast<char*>(views.data());
  if (!is_bytes) {
    TUTTI_ASSIGN_OR_RETURN(stacked, Tensor::Create(first.dtype(), shape, Unzeroed(options)));
    place = static_cast<char*>(stacked->mutable_data());
  }
  const Dims row_strides = first.shape().RowMajorStrides();
  const size_t row_bytes = first.byte_size();
  for (const Tensor* tensor : tensors) {
    if (row_bytes == 0) break;
    if (tensor->is_contiguous()) {
      std::memcpy(place, tensor->data(), row_bytes);
    } else {
      CopyStrided(tensor->item_size(), tensor->shape().dims(), tensor->data(), tensor->strides(),
                  place, row_strides.span());
    }
    place += row_bytes;
  }
  if (is_bytes) return Tensor::FromStrings(shape, views, options.account);
  return stacked;
}

}  // namespace tutti

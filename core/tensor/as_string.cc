#include "core/tensor/as_string.h"

#include <fmt/printf.h>

#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

// Longer texts are nobody's numbers.
constexpr int64_t kMostCharacters = 1000;

Status CheckAsString(DType dtype, const AsStringOptions& options) {
  if (options.scientific && options.shortest) {
    return InvalidArgument("as_string: scientific and shortest are both set; set one");
  }
  if (options.fill.size() > 1 ||
      (!options.fill.empty() && std::string_view(" +-0#").find(options.fill[0]) ==
                                    std::string_view::npos)) {
    return InvalidArgument(
        "as_string: fill is {}; expected nothing, or one of the characters ' ', '0', '-', '+', '#'",
        Quote(options.fill));
  }
  for (const auto& [name, value] :
       {std::pair{"precision", options.precision}, std::pair{"width", options.width}}) {
    if (value >= -1 && value <= kMostCharacters) continue;
    return InvalidArgument("as_string: {} is {}; expected -1 (none) to {}", name, value,
                           kMostCharacters);
  }
  const bool of_floats = IsFloating(dtype) || IsComplex(dtype) || dtype == DType::kBytes;
  if (of_floats) return OkStatus();
  const char* const wrong = options.scientific        ? "scientific"
                            : options.shortest        ? "shortest"
                            : options.precision >= 0 ? "precision"
                                                      : nullptr;
  if (wrong == nullptr) return OkStatus();
  return InvalidArgument("as_string: {} is for floats, and the tensor is of {}; leave it away, or "
                         "cast the tensor",
                         wrong, DTypeName(dtype))
      .With("dtype", DTypeName(dtype));
}

// A format of printf's for one number, which ends with `conversion`.
std::string FormatOf(const AsStringOptions& options, char conversion) {
  std::string format = "%";
  if (options.width >= 0) format += options.fill + std::to_string(options.width);
  if (options.precision >= 0) format += "." + std::to_string(options.precision);
  return format + conversion;
}

char ConversionOf(DType dtype, const AsStringOptions& options) {
  if (IsUnsignedInteger(dtype)) return 'u';
  if (IsSignedInteger(dtype)) return 'd';
  return options.scientific ? 'e' : options.shortest ? 'g' : 'f';
}

template <class T>
std::string TextOf(const std::string& format, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (kIsHalf<T>) {
    return fmt::sprintf(format, static_cast<double>(ToFloat(value)));
  } else if constexpr (kIsComplex<T>) {
    return "(" + fmt::sprintf(format, static_cast<double>(value.real)) + "," +
           fmt::sprintf(format, static_cast<double>(value.imag)) + ")";
  } else if constexpr (std::is_same_v<T, BytesView>) {
    return std::string(value.text());
  } else if constexpr (std::is_floating_point_v<T>) {
    return fmt::sprintf(format, static_cast<double>(value));
  } else if constexpr (std::is_signed_v<T>) {
    return fmt::sprintf(format, static_cast<int64_t>(value));
  } else {
    return fmt::sprintf(format, static_cast<uint64_t>(value));
  }
}

}  // namespace

Result<Ref<Tensor>> AsString(const Tensor& tensor, const AsStringOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckAsString(tensor.dtype(), options));
  const std::string format = FormatOf(options, ConversionOf(tensor.dtype(), options));
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(tensor.num_elements()));
  VisitDType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      texts.push_back(TextOf(format, *static_cast<const T*>(tensor.ElementAt(i))));
    }
  });
  std::vector<BytesView> views;
  views.reserve(texts.size());
  for (const std::string& text : texts) views.push_back(BytesView{text.data(), text.size()});
  return Tensor::FromStrings(tensor.shape(), views);
}

}  // namespace tutti

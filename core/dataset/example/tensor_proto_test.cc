#include "core/dataset/example/tensor_proto.h"

#include <gmock/gmock.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/half.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;

std::string Serialized(const Tensor& tensor) {
  const Result<Ref<Tensor>> bytes = SerializeTensor(tensor);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return std::string((*bytes)->item<BytesView>().text());
}
std::string Parsed(std::string_view bytes, DType dtype) {
  const Result<Ref<Tensor>> tensor = ParseTensor(*Tensor::Bytes(bytes), dtype);
  return tensor.ok() ? (*tensor)->ToString() : "!" + std::string(tensor.status().message());
}
Ref<Tensor> Strings(const Shape& shape, std::initializer_list<std::string_view> texts) {
  std::vector<BytesView> views;
  for (const std::string_view text : texts) views.push_back(BytesView{text.data(), text.size()});
  return Tensor::FromStrings(shape, views).value();
}

// What TensorFlow's serialize_tensor gives for the same tensors.
TEST(TensorProto, HasTheBytesOfTensorFlow) {
  EXPECT_EQ(Serialized(*Tensor::Scalar<int64_t>(0)), "\x08\x09\x12\x00\x22\x08\0\0\0\0\0\0\0\0"s);
  EXPECT_EQ(Serialized(*Tensor::Vector<float>({1, 2})),
            "\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08\0\0\x80\x3f\0\0\0\x40"s);
  EXPECT_EQ(Serialized(*Strings(Shape({1, 2}), {"ab", ""})),
            "\x08\x07\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02\x42\x02"
            "ab\x42\x00"s);
  EXPECT_EQ(Serialized(*Tensor::Scalar<bool>(true)), "\x08\x0a\x12\x00\x22\x01\x01"s);
  EXPECT_EQ(Serialized(*Tensor::Create(DType::kInt32, Shape({0, 3})).value()),
            "\x08\x03\x12\x06\x12\x00\x12\x02\x08\x03"s);
  EXPECT_EQ(Serialized(*Tensor::Scalar(ToBfloat16(1.0f))), "\x08\x0e\x12\x00\x22\x02\x80\x3f"s);
}

TEST(TensorProto, WhatWasSerializedIsParsed) {
  const Ref<Tensor> row = Tensor::Vector<int64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (int32_t number = 1; number <= 16; ++number) {
    const auto dtype = static_cast<DType>(number);
    SCOPED_TRACE(DTypeName(dtype));
    Ref<Tensor> tensor =
        Strings(Shape({2, 3}), {"a", "", "ccc", "\x80", "e", std::string(300, 'f')});
    if (dtype != DType::kBytes) {
      tensor = Tensor::Create(dtype, Shape({3, 4})).value();
      auto* bytes = static_cast<unsigned char*>(tensor->mutable_data());
      for (size_t i = 0; i < tensor->byte_size(); ++i) {
        bytes[i] = static_cast<unsigned char>(dtype == DType::kBool ? i % 2 : i % 60);
      }
    }
    for (const Ref<Tensor>& one :
         {tensor, tensor->Row(1), tensor->SliceAxis(1, 1, 3).value(), tensor->Slice(0, 0)}) {
      const Result<Ref<Tensor>> again =
          ParseTensor(*Tensor::Bytes(Serialized(*one)), one->dtype());
      ASSERT_TRUE(again.ok()) << again.status().ToString();
      EXPECT_TRUE((*again)->ContentsEqual(*one)) << (*again)->ToString();
    }
  }
}

// As TensorFlow's constants are written: element by element, and the last one for the rest.
TEST(TensorProto, ReadsElementsOneByOne) {
  EXPECT_EQ(Parsed("\x08\x09\x12\x04\x12\x02\x08\x03\x52\x02\x05\x07"s, DType::kInt64),
            "int64[3] [5 7 7]");
  EXPECT_EQ(Parsed("\x08\x09\x12\x04\x12\x02\x08\x03\x50\x05\x50\x07\x50\x01"s, DType::kInt64),
            "int64[3] [5 7 1]");
  EXPECT_EQ(Parsed("\x08\x09\x12\x04\x12\x02\x08\x02"s, DType::kInt64), "int64[2] [0 0]");
  EXPECT_EQ(Parsed("\x08\x06\x12\x00\x3a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,
                   DType::kInt8),
            "int8[] -1");
  EXPECT_EQ(Parsed("\x08\x01\x12\x04\x12\x02\x08\x02\x2a\x04\0\0\x80\x3f"s, DType::kFloat32),
            "float32[2] [1 1]");
  EXPECT_EQ(Parsed("\x08\x02\x12\x00\x31\0\0\0\0\0\0\xf8\x3f"s, DType::kFloat64),
            "float64[] 1.5");
  EXPECT_EQ(Parsed("\x08\x13\x12\x00\x6a\x03\x80\xf8\x00"s, DType::kFloat16),
            "float16[] 1");
  EXPECT_EQ(Parsed("\x08\x0a\x12\x00\x5a\x01\x05"s, DType::kBool), "bool[] True");
  EXPECT_EQ(Parsed("\x08\x08\x12\x00\x4a\x08\0\0\x80\x3f\0\0\0\x40"s, DType::kComplex64),
            Tensor::Scalar(Complex64{1, 2})->ToString());
  EXPECT_EQ(Parsed("\x08\x07\x12\x04\x12\x02\x08\x02\x42\x01x"s, DType::kBytes),
            "bytes[2] [\"x\" \"x\"]");
  EXPECT_EQ(Parsed("\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x02\x01xyz"s, DType::kBytes),
            "bytes[2] [\"xy\" \"z\"]");
  // Fields that are not known here.
  EXPECT_EQ(Parsed("\x08\x09\x12\x00\x18\x01\x50\x05\xfa\x7f\x01?"s, DType::kInt64), "int64[] 5");
}

TEST(TensorProto, RefusesWhatIsNoTensorOrAnother) {
  EXPECT_THAT(Parsed("", DType::kInt64), HasSubstr("dtype number 0"));
  const std::string one = Serialized(*Tensor::Scalar<int64_t>(1));
  EXPECT_THAT(Parsed(one, DType::kInt32), HasSubstr("is of int64, and out_type is int32"));
  EXPECT_THAT(Parsed("\x08\x0b\x12\x00"s, DType::kInt32), HasSubstr("dtype number 11"));
  EXPECT_THAT(Parsed("\x08\x09\x12\x00\x22\x04\0\0\0\0"s, DType::kInt64),
              HasSubstr("its content has 4 bytes, and int64[] has 8"));
  EXPECT_THAT(Parsed("\x08\x09\x12\x02\x18\x01"s, DType::kInt64), HasSubstr("rank is unknown"));
  EXPECT_THAT(Parsed("\x08\x09\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s,
                     DType::kInt64),
              HasSubstr("no tensor"));
  EXPECT_THAT(Parsed("\x08\x09\x12\x08\x12\x06\x08\x80\x80\x80\x80\x40\x50\x01"s, DType::kInt64),
              HasSubstr("what repeats one element"));
  const Result<Ref<Tensor>> vector =
      ParseTensor(*Strings(Shape({1}), {one}), DType::kInt64);
  EXPECT_THAT(std::string(vector.status().message()), HasSubstr("found bytes[1]"));
  // Truncated, and with each byte changed: an answer, whatever it is.
  std::mt19937 random(5);
  const std::string texts = Serialized(*Strings(Shape({2}), {"abc", "d"}));
  for (const std::string& bytes : {one, texts}) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(random());
      for (const DType dtype : {DType::kInt64, DType::kBytes, DType::kBool}) {
        Parsed(damaged, dtype);
        Parsed(bytes.substr(0, i), dtype);
      }
    }
  }
}

}  // namespace
}  // namespace tutti

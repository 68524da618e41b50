// What the tests of record files share: a temporary folder, and files and TFRecord frames made byte
// by byte, so that they can be damaged.
#ifndef TUTTI_CORE_DATASET_TESTING_RECORD_FILE_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_RECORD_FILE_TESTING_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/status.h"

namespace tutti {

// A folder that ends with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string Path(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string Write(std::string_view name, std::string_view contents) const {
    std::ofstream(Path(name), std::ios::binary) << contents;
    return Path(name);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class T>
std::string LittleEndian(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// One record as it stands in a TFRecord file.
inline std::string TfRecordFrame(std::string_view data) {
  const std::string length = LittleEndian<uint64_t>(data.size());
  return length + LittleEndian(MaskCrc32c(Crc32c(length.data(), length.size()))) +
         std::string(data) + LittleEndian(MaskCrc32c(Crc32c(data.data(), data.size())));
}

inline std::string TfRecordFrames(const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) bytes += TfRecordFrame(record);
  return bytes;
}

// `bytes` in one GZIP member, or as one ZLIB stream.
inline std::string Deflated(std::string_view bytes, bool gzip) {
  z_stream zlib = {};
  EXPECT_EQ(deflateInit2(&zlib, 6, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&zlib, bytes.size()) + 64, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// A detail's value, or the type's zero when there is none of that type.
template <class T>
T Detail(const Status& status, std::string_view key) {
  const StatusDetail* detail = status.FindDetail(key);
  const T* value = detail != nullptr ? std::get_if<T>(&detail->value) : nullptr;
  return value != nullptr ? *value : T();
}

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_RECORD_FILE_TESTING_H_

// Where the inputs from which fuzzing begins are written to, and which rooms write some.
#ifndef TUTTI_TESTS_FUZZ_CORPUS_H_
#define TUTTI_TESTS_FUZZ_CORPUS_H_

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti {

// Of one target.
class Corpus {
 public:
  Corpus(const std::filesystem::path& folder, const char* target) : folder_(folder / target) {
    std::filesystem::create_directories(folder_);
  }
  void Add(const std::string& input) {
    char name[16];
    std::snprintf(name, sizeof(name), "%02d", number_++);
    std::ofstream(folder_ / name, std::ios::binary) << input;
  }

 private:
  const std::filesystem::path folder_;
  int number_ = 0;
};

// Appends the bytes of a number.
template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Of the targets of datasets and of what they read.
void MakeDatasetCorpus(const std::filesystem::path& folder);

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_CORPUS_H_

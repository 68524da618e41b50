// The reader of text lines; what is not compressed is compared with a loop over its bytes.

#include "core/dataset/records/text_line_reader.h"
#include "tests/fuzz/record_file_fuzzing.h"

namespace {

std::vector<std::string> LinesOf(const std::string& content) {
  std::vector<std::string> lines;
  std::string line;
  for (const char byte : content) {
    if (byte != '\n') {
      line += byte;
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    line.clear();
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  RecordFileFuzz fuzz(data, size);
  const std::vector<std::string> lines = fuzz.Run(OpenTextLineReader);
  if (fuzz.is_plain()) Require(lines == LinesOf(fuzz.content()), "lines are what lies between LFs");
  return 0;
}

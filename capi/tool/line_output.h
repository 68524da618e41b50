// What the workers print, on its way to our stdout and stderr: whole lines, each with its worker's
// name before it, that never mix with another worker's.
//
// Nothing here waits. A reader of our output that is slow makes the sink full; the workers' pipes
// are then not read, and they wait, as they would for a slow reader of their own. A reader that
// went away makes the sink closed; the pipes are then closed, and the workers learn it as they
// would.

#ifndef TUTTI_CAPI_TOOL_LINE_OUTPUT_H_
#define TUTTI_CAPI_TOOL_LINE_OUTPUT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::tool {

class OutputSink {
 public:
  explicit OutputSink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void Append(std::string_view bytes);
  bool empty() const { return begin_ == bytes_.size(); }
  bool full() const { return bytes_.size() - begin_ > kFullBytes; }
  bool closed() const { return closed_; }  // nobody reads any more
  // Writes what can be written without waiting.
  void Flush();

 private:
  static constexpr size_t kFullBytes = 1 << 20;

  const int fd_;
  std::string bytes_;
  size_t begin_ = 0;  // bytes before it are written
  bool closed_ = false;
};

// Cuts one stream of one worker into lines.
class LineCutter {
 public:
  // A line longer than this is cut in pieces, so that a worker cannot fill our memory.
  static constexpr size_t kMaxLineBytes = 64 << 10;

  // An empty prefix leaves the bytes as they are; lines still stay whole.
  explicit LineCutter(std::string prefix) : prefix_(std::move(prefix)) {}

  void Feed(std::string_view bytes, OutputSink* sink);
  // The end of the stream: a last line without a line end gets one, if lines are prefixed.
  void Finish(OutputSink* sink);

 private:
  void Emit(std::string_view line, bool cut, OutputSink* sink);

  std::string prefix_;
  std::string partial_;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_LINE_OUTPUT_H_

#include "capi/tool/line_output.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tutti::tool {

namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

void OutputSink::Append(std::string_view bytes) {
  if (closed_ || bytes.empty()) return;
  if (std::exchange(passing_, false)) Append(kClearLine);
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    begin_ = 0;
  } else if (begin_ > kFullBytes) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  bytes_.append(bytes);
  at_line_begin_ = bytes.back() == '\n' || bytes == kClearLine;
}

bool OutputSink::ShowPassing(std::string_view text) {
  if (!empty() || !at_line_begin_) return false;
  Append(text);
  passing_ = at_line_begin_ = true;
  return true;
}

void OutputSink::TakePassingAway() {
  if (std::exchange(passing_, false)) Append(kClearLine);
}

void OutputSink::EndOpenLine() {
  if (std::exchange(open_line_of_, nullptr) != nullptr) Append("\n");
}

void OutputSink::Flush() {
  while (!empty()) {
    pollfd ready = {fd_, POLLOUT, 0};
    if (poll(&ready, 1, 0) <= 0 || ready.revents == 0) return;
    // A pipe that is ready has room for PIPE_BUF bytes, so that this write does not wait. It ends
    // at a line end where it can: somebody else may write to the same place.
    std::string_view piece = std::string_view(bytes_).substr(begin_, PIPE_BUF);
    const size_t line_end = piece.rfind('\n');
    if (line_end != std::string_view::npos) piece = piece.substr(0, line_end + 1);
    const ssize_t count = write(fd_, piece.data(), piece.size());
    if (count > 0) {
      begin_ += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {  // EPIPE, ENOSPC, EIO: it will not get better
      closed_ = true;
      begin_ = bytes_.size();
    }
  }
}

void LineCutter::Feed(std::string_view bytes, OutputSink* sink) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t room = kMaxLineBytes - partial_.size();
    const bool whole = end != std::string_view::npos && end < room;
    const size_t take = whole ? end + 1 : std::min(bytes.size(), room);
    if (partial_.empty() && whole) {
      Emit(bytes.substr(0, take), false, sink);
    } else {
      partial_.append(bytes.substr(0, take));
      if (whole || partial_.size() == kMaxLineBytes) {
        Emit(partial_, !whole, sink);
        partial_.clear();
      }
    }
    bytes.remove_prefix(take);
  }
}

void LineCutter::Emit(std::string_view line, bool cut, OutputSink* sink) {
  if (listener_) listener_(line);
  if (prefix_.empty()) return sink->Append(line);
  if (sink->IsOpenLineOf(this)) {
    sink->SetOpenLine(nullptr);
  } else {
    sink->EndOpenLine();
    sink->Append(prefix_);
    returned_ = false;
  }
  AppendWithReturns(line, sink);
  if (cut) sink->Append("\n");
}

void LineCutter::AppendWithReturns(std::string_view text, OutputSink* sink) {
  while (!text.empty()) {
    if (returned_ && text.front() != '\n') sink->Append(prefix_);
    const size_t end = std::min(text.find('\r'), text.size() - 1) + 1;
    returned_ = text[end - 1] == '\r';
    sink->Append(text.substr(0, end));
    text.remove_prefix(end);
  }
}

void LineCutter::PassOn(OutputSink* sink) {
  if (partial_.empty()) return;
  Emit(std::exchange(partial_, {}), false, sink);
  if (!prefix_.empty()) sink->SetOpenLine(this);
}

void LineCutter::Finish(OutputSink* sink) {
  if (!partial_.empty()) {
    Emit(partial_, true, sink);
    partial_.clear();
  } else if (sink->IsOpenLineOf(this)) {
    sink->EndOpenLine();
  }
}

}  // namespace tutti::tool

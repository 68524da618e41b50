#include "capi/tool/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace tutti::tool {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string SecondsText(double seconds) {
  return seconds < 60 ? fmt::format("{:.1f} s", seconds)
                      : fmt::format("{} min {:02} s", static_cast<int64_t>(seconds) / 60,
                                    static_cast<int64_t>(seconds) % 60);
}

}  // namespace

ProgressForm ProgressFormOf(const std::string& name) {
  if (name == "line") return ProgressForm::kLine;
  return name == "lines" ? ProgressForm::kLines : ProgressForm::kOff;
}

const char* ProgressOfTerminal(bool prints_at_the_end) {
  const bool is_seen = isatty(STDERR_FILENO) != 0 &&
                       (prints_at_the_end || isatty(STDOUT_FILENO) == 0);
  return is_seen ? "line" : "off";
}

void AddProgressOption(CLI::App* app, const std::string& steps, std::string* form) {
  app->add_option("--progress", *form,
                  fmt::format("How far it is, on stderr: line, lines (one for each {}) or off "
                              "(default line on a terminal)", steps))
      ->type_name("FORM")
      ->check(CLI::IsMember({"line", "lines", "off"}));
}

std::string ProgressText(const std::string& label, const std::string& what, size_t done,
                         size_t total, double seconds) {
  std::string text = fmt::format("{}: {} of {} {}", label, done, total, what);
  if (total == 0) return text;
  text += fmt::format(" ({} %), {}", 100 * done / total, SecondsText(seconds));
  if (done == 0 || done >= total) return text;
  const double left = seconds / static_cast<double>(done) * static_cast<double>(total - done);
  return text + fmt::format(", about {} left", SecondsText(left));
}

ProgressLine::ProgressLine(ProgressForm form, std::string label, std::string what, size_t total,
                           std::FILE* out)
    : form_(form),
      label_(std::move(label)),
      what_(std::move(what)),
      total_(total),
      out_(out),
      begin_ns_(NowNs()) {
  Tell(0);
}

ProgressLine::ProgressLine(ProgressForm form, std::string label)
    : form_(form), label_(std::move(label)), total_(0), out_(stderr), begin_ns_(NowNs()) {}

ProgressLine::~ProgressLine() {
  if (!shown_) return;
  fmt::print(out_, "\r\x1b[K");
  std::fflush(out_);
}

void ProgressLine::Tell(size_t done) {
  if (form_ == ProgressForm::kOff) return;
  const double seconds = static_cast<double>(NowNs() - begin_ns_) * 1e-9;
  Write(ProgressText(label_, what_, done, total_, seconds));
}

void ProgressLine::Say(const std::string& text) {
  if (form_ != ProgressForm::kOff) Write(fmt::format("{}: {}", label_, text));
}

void ProgressLine::Write(const std::string& line) {
  if (form_ == ProgressForm::kLines) {
    fmt::print(out_, "{}\n", line);
  } else {
    fmt::print(out_, "\r{}\x1b[K", line);
    shown_ = true;
  }
  std::fflush(out_);
}

}  // namespace tutti::tool

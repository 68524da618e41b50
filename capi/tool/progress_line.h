// ProgressLine: how far a long command is, on standard error, so that what it prints stays what it
// is.
//
//   tutti bench: all_reduce: 3 of 21 sizes (14 %), 2.1 s, about 12 s left
//
// On a terminal it is one line, which is written anew and taken away at the end; else a line for
// each step, for whoever asked for that. Where one step takes about as long as any other the rest
// is told (Tell), and else what is being done (Say):
//
//   tutti doctor: KubernetesClusterResolver (8 of 9)
//
// Threads: one at a time.

#ifndef TUTTI_CAPI_TOOL_PROGRESS_LINE_H_
#define TUTTI_CAPI_TOOL_PROGRESS_LINE_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "capi/tool/command_line.h"

namespace tutti::tool {

enum class ProgressForm { kOff, kLine, kLines };

// "off", "line" or "lines"; anything else is off.
ProgressForm ProgressFormOf(const std::string& name);
// "line" where standard error is a terminal and standard output, or its form, shows nothing there
// meanwhile; else "off".
const char* ProgressOfTerminal(bool prints_at_the_end);
// The option --progress of a command that prints its result at the end; `steps` are what it is told
// by: "subject". *form stays "" where nothing is said.
void AddProgressOption(CLI::App* app, const std::string& steps, std::string* form);

// The text of the line.
std::string ProgressText(const std::string& label, const std::string& what, size_t done,
                         size_t total, double seconds);

class ProgressLine {
 public:
  // `label` is before the numbers, `what` behind them: "sizes".
  ProgressLine(ProgressForm form, std::string label, std::string what, size_t total,
               std::FILE* out = stderr);
  // Of which nothing is told before the first Say.
  ProgressLine(ProgressForm form, std::string label);
  // Takes the line away.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // So many steps are done.
  void Tell(size_t done);
  // What is being done, behind the label.
  void Say(const std::string& text);

 private:
  void Write(const std::string& line);

  const ProgressForm form_;
  const std::string label_;
  const std::string what_;
  const size_t total_;
  std::FILE* const out_;
  const int64_t begin_ns_;
  bool shown_ = false;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_PROGRESS_LINE_H_

#include "capi/tool/command_line.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "capi/tool/run_options.h"

namespace tutti::tool {
namespace {

class UsageFormatter final : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {
    column_width(26);
    label("TEXT", "");
  }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: " + usage_ + "\n";
  }

 private:
  const std::string usage_;
};

}  // namespace

std::optional<int> ReadWords(CLI::App& app, const std::string& usage,
                             const std::vector<std::string>& words) {
  app.formatter(std::make_shared<UsageFormatter>(usage));
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{0}: {1}\n{0} --help says more\n", app.get_name(), error.what());
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace tutti::tool

#include "capi/tool/doctor_command.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "capi/tool/command_line.h"
#include "capi/tool/doctor_checks.h"
#include "capi/tool/doctor_report.h"
#include "capi/tool/progress_line.h"

namespace tutti::tool {
namespace {

// Those below, and four resolvers.
constexpr size_t kSubjects = 9;

}  // namespace

int DoctorCommand(const std::vector<std::string>& words) {
  CLI::App app("Says what this machine offers, what Tutti chooses for it, and what will hurt.",
               "tutti doctor");
  app.footer("The status is 0 unless Tutti cannot be used; problems that only hurt leave it 0.");
  bool as_json = false, with_collectives = false;
  std::string coordinator;
  app.add_flag("--json", as_json, "One JSON object instead of text");
  app.add_flag("--collectives", with_collectives,
               "With the table by which collectives choose their algorithms");
  app.add_option("--coordinator", coordinator,
                 "Say which address this machine is reached at from there")
      ->type_name("HOST:PORT");
  ResolverQuestions questions{"job-name=tensorflow", "", nullptr};
  std::string progress_form;
  AddProgressOption(&app, "subject", &progress_form);
  app.add_option("--pod-label", questions.pod_label,
                 "Under Kubernetes: the label of the workers' pods (default job-name=tensorflow)")
      ->type_name("LABEL");
  app.add_option("--gce-group", questions.gce_group,
                 "On Compute Engine: the group of the workers' instances")
      ->type_name("NAME");
  if (const auto status = ReadWords(app, "tutti doctor [OPTIONS]", words)) return *status;

  if (progress_form.empty()) progress_form = ProgressOfTerminal(/*prints_at_the_end=*/true);
  std::optional<ProgressLine> progress(std::in_place, ProgressFormOf(progress_form),
                                       "tutti doctor");
  size_t begun = 0;
  const auto begin = [&](const std::string& subject) {
    progress->Say(fmt::format("{} ({} of {})", subject, ++begun, kSubjects));
  };
  questions.before_each = begin;

  DoctorReport report;
  begin("library");
  const std::vector<std::string> settings = CheckLibrary(&report);
  begin("machine");
  CheckMachine(&report);
  begin("network");
  CheckNetwork(coordinator, &report);
  begin("variables");
  CheckVariables(settings, &report);
  begin("TF_CONFIG");
  CheckTfConfig(&report);
  CheckResolvers(questions, &report);
  progress.reset();
  fmt::print("{}", as_json            ? report.ToJson()
                   : with_collectives ? report.ToText({})
                                      : report.ToText({"collectives"}));
  return report.usable() ? 0 : 1;
}

}  // namespace tutti::tool

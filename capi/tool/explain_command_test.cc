#include "capi/tool/explain_command.h"

#include <gmock/gmock.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "capi/tool/c_handles.h"
#include "capi/tool/text_file.h"

namespace tutti::tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

tutti_status* Same(tutti_context*, const tutti_value* in, tutti_value** out, void*) {
  tutti_value_retain(in);
  *out = const_cast<tutti_value*>(in);
  return nullptr;
}

class ExplainCommandTest : public ::testing::Test {
 protected:
  ExplainCommandTest() {
    folder_ = std::filesystem::temp_directory_path() / ("explain-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  ~ExplainCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const std::string& name) const { return (folder_ / name).string(); }
  static void Ok(tutti_status* status) {
    const CStatus owner(status);
    ASSERT_FALSE(owner) << tutti_status_get_message(owner.get());
  }
  // Stdout and then stderr.
  static std::string Run(const std::vector<std::string>& words, int status = 0) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(ExplainCommand(words), status);
    std::string text = testing::internal::GetCapturedStdout();
    return text + testing::internal::GetCapturedStderr();
  }

  std::filesystem::path folder_;
};

TEST_F(ExplainCommandTest, ADefinitionHasItsPlanWithoutItsFunctions) {
  tutti_function* function = nullptr;
  tutti_dataset* dataset = nullptr;
  Ok(tutti_function_register(nullptr, "decode \"it\"", {&Same, nullptr, nullptr}, nullptr));
  Ok(tutti_function_create_registered(nullptr, "decode \"it\"", &function));
  Ok(tutti_dataset_create_range(nullptr, 0, 5, 1, nullptr, &dataset));
  Ok(tutti_dataset_map(&dataset, function, nullptr));
  CBytes bytes;
  Ok(tutti_dataset_serialize(dataset, Out(&bytes)));
  ASSERT_EQ(WriteTextFile(PathOf("definition"), TextOf(bytes)), "");
  tutti_dataset_release(dataset);
  tutti_function_release(function);
  Ok(tutti_function_unregister(nullptr, "decode \"it\""));
  EXPECT_THAT(Run({PathOf("definition")}),
              AllOf(StartsWith("map("), HasSubstr("callback decode \"it\""),
                    HasSubstr("  range(start=0, stop=5, step=1, dtype=int64): 5 elements")));
  Ok(tutti_function_unregister(nullptr, "decode \"it\""));
}

TEST_F(ExplainCommandTest, ARunsReportIsShownAndDrawn) {
  tutti_dataset* dataset = nullptr;
  tutti_data_options* options = nullptr;
  tutti_iterator* iterator = nullptr;
  Ok(tutti_dataset_create_range(nullptr, 0, 5, 1, nullptr, &dataset));
  Ok(tutti_data_options_create(&options));
  Ok(tutti_data_options_set_bool(options, "experimental_stats.profile", TUTTI_TRUE));
  Ok(tutti_dataset_with_options(&dataset, options));
  Ok(tutti_iterator_create(dataset, nullptr, nullptr, &iterator));
  for (int i = 0; i < 6; ++i) {
    CValue element;
    Ok(tutti_iterator_next(iterator, nullptr, Out(&element)));
  }
  CBytes json;
  Ok(tutti_iterator_explain(iterator, "json", Out(&json)));
  tutti_iterator_release(iterator);
  tutti_data_options_release(options);
  tutti_dataset_release(dataset);
  ASSERT_EQ(WriteTextFile(PathOf("run.json"), TextOf(json)), "");
  EXPECT_THAT(Run({PathOf("run.json")}), AllOf(HasSubstr("run: 5 rows in "), HasSubstr("range(")));
  EXPECT_EQ(Run({PathOf("run.json"), "--json"}), TextOf(json));
  EXPECT_EQ(Run({PathOf("run.json"), "--svg", PathOf("run.svg")}), "");
  std::string svg;
  ASSERT_EQ(ReadTextFile(PathOf("run.svg"), &svg), "");
  EXPECT_THAT(svg, AllOf(StartsWith("<svg "), HasSubstr("5 rows in ")));
}

TEST_F(ExplainCommandTest, WhatIsNeitherIsRefused) {
  EXPECT_THAT(Run({PathOf("none")}, 1), HasSubstr("cannot read"));
  ASSERT_EQ(WriteTextFile(PathOf("text"), "hello"), "");
  EXPECT_THAT(Run({PathOf("text")}, 1), HasSubstr(PathOf("text") + ": "));
  ASSERT_EQ(WriteTextFile(PathOf("other.json"), "{\"a\": 1}"), "");
  EXPECT_THAT(Run({PathOf("other.json")}, 1), HasSubstr("this is no report"));
}

}  // namespace
}  // namespace tutti::tool

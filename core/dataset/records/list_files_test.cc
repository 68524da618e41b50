#include "core/dataset/records/list_files.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/dataset/testing/record_file_dataset_testing.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ListFiles : public RecordFileDatasetTest {
 protected:
  Ref<Dataset> List(std::vector<std::string> patterns, ListFilesOptions options) {
    Result<Ref<Dataset>> dataset =
        MakeListFilesDataset(datasets_, std::move(patterns), std::move(options));
    EXPECT_TRUE(dataset.ok()) << dataset.status().ToString();
    return std::move(dataset).value();
  }
  static ListFilesOptions Sorted() {
    ListFilesOptions options;
    options.shuffle = false;
    return options;
  }
};

TEST_F(ListFiles, GivesEachMatchingFileOnceInByteOrder) {
  const std::string b = folder_.Write("b.txt", "");
  const std::string a = folder_.Write("a.txt", "");
  const std::string c = folder_.Write("c.bin", "");
  std::filesystem::create_directory(folder_.Path("directory.txt"));
  EXPECT_THAT(All(List({folder_.Path("*.txt"), folder_.Path("[bc].*")}, Sorted())),
              ElementsAre(a, b, c));
  EXPECT_THAT(All(List({c}, Sorted())), ElementsAre(c));
  EXPECT_EQ(List({c}, Sorted())->known_element_spec()->ToString(), "bytes[]");
}

TEST_F(ListFiles, LooksAnewForEachIteration) {
  const std::string a = folder_.Write("a", "");
  const Ref<Dataset> dataset = List({folder_.Path("*")}, Sorted());
  EXPECT_THAT(All(dataset), ElementsAre(a));
  const std::string b = folder_.Write("b", "");
  EXPECT_THAT(All(dataset), ElementsAre(a, b));
}

TEST_F(ListFiles, NoMatchIsNotFoundAndNamesThePatterns) {
  const std::string first = folder_.Path("a-*");
  const std::string second = folder_.Path("b-?");
  std::vector<Status> errors;
  EXPECT_THAT(All(List({first, second}, Sorted()), &errors), ElementsAre("!"));
  EXPECT_EQ(errors[0].code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(errors[0].message()),
              AllOf(HasSubstr("list_files: no file matches"), HasSubstr(first), HasSubstr(second)));
  ExpectResumesEverywhere(List({first}, Sorted()));
  errors.clear();
  ListFilesOptions shuffled;
  shuffled.seed = 1;
  All(List({first}, shuffled), &errors);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code(), StatusCode::kNotFound);
}

TEST_F(ListFiles, ShufflesAnewForEachIterationAsTheSeedDecides) {
  std::vector<std::string> files;
  for (int i = 0; i < 50; ++i) files.push_back(folder_.Write(std::to_string(100 + i), ""));
  ListFilesOptions options;
  options.seed = 7;
  const Ref<Dataset> dataset = List({folder_.Path("*")}, options);
  const std::vector<std::string> first = All(dataset);
  const std::vector<std::string> second = All(dataset);
  EXPECT_NE(first, files);
  EXPECT_NE(first, second);
  std::vector<std::string> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, files);
  EXPECT_EQ(All(List({folder_.Path("*")}, options)), first);
}

TEST_F(ListFiles, ResumesAnywhereAndNoticesWhenTheFilesBeforeHaveChanged) {
  for (const char* name : {"a", "b", "c", "d"}) folder_.Write(name, "");
  const Ref<Dataset> dataset = List({folder_.Path("*")}, Sorted());
  ExpectResumesEverywhere(dataset);
  const Ref<Iterator> iterator = Iterate(dataset);
  Next(*iterator);
  Next(*iterator);
  const std::string state = iterator->Save(CallOptions()).value();
  // More files behind the position are welcome, before it they would be left out.
  folder_.Write("e", "");
  Ref<Iterator> other = Iterate(dataset);
  ASSERT_TRUE(other->Restore(state, CallOptions()).ok());
  EXPECT_EQ(Rest(*other).size(), 3u);
  folder_.Write("a0", "");
  const Status changed = Iterate(dataset)->Restore(state, CallOptions());
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()),
              HasSubstr("file 1 was \"" + folder_.Path("b") + "\" and is \"" + folder_.Path("a0")));
}

TEST_F(ListFiles, IsSerialised) {
  const std::string a = folder_.Write("a", "");
  const Result<Ref<Dataset>> again =
      Dataset::Deserialize(datasets_, List({folder_.Path("*")}, Sorted())->Serialize().value());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_THAT(All(again.value()), ElementsAre(a));
}

TEST_F(ListFiles, RefusesNoPatternAndAnEmptyOne) {
  Status status = MakeListFilesDataset(datasets_, {}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no pattern"));
  status = MakeListFilesDataset(datasets_, {"a*", ""}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pattern 1 is empty"));
}

}  // namespace
}  // namespace tutti

#include "core/base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "core/base/host_data.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(Status, IsOkAndOnePointerWideByDefault) {
  static_assert(sizeof(Status) == sizeof(void*));
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_TRUE(status.details().empty());
  EXPECT_TRUE(status.causes().empty());
  EXPECT_EQ(status.host_object(), nullptr);
}

TEST(Status, KeepsDetailsInOrderWithTheirTypes) {
  const Status status = InvalidArgument("rank {} is wrong", 7)
                            .With("rank", 7)
                            .With("ratio", 0.5)
                            .With("file", std::string("a.txt"))
                            .With("big", uint64_t{1} << 40);
  ASSERT_EQ(status.details().size(), 4u);
  EXPECT_EQ(std::get<int64_t>(status.details()[0].value), 7);
  EXPECT_EQ(std::get<double>(status.details()[1].value), 0.5);
  EXPECT_EQ(std::get<std::string>(status.details()[2].value), "a.txt");
  EXPECT_EQ(std::get<int64_t>(status.FindDetail("big")->value), int64_t{1} << 40);
  EXPECT_EQ(status.FindDetail("absent"), nullptr);
  EXPECT_EQ(status.ToString(),
            "INVALID_ARGUMENT: rank 7 is wrong [rank=7, ratio=0.5, file=a.txt, big=1099511627776]");
}

TEST(Status, ReplacesADetailThatIsThereAlready) {
  const Status status = Internal("x").With("index", 1).With("index", 2);
  ASSERT_EQ(status.details().size(), 1u);
  EXPECT_EQ(std::get<int64_t>(status.details()[0].value), 2);
}

TEST(Status, NeverChangesOnceItIsShared) {
  const Status first = NotFound("no file");
  const Status second = first.With("file", "a").WithPrefix("open");
  EXPECT_TRUE(first.details().empty());
  EXPECT_EQ(first.message(), "no file");
  EXPECT_EQ(second.message(), "open: no file");
  EXPECT_NE(first.rep(), second.rep());
}

TEST(Status, IsAlteredInPlaceWhileNobodyElseHoldsIt) {
  Status status = NotFound("no file");
  const StatusRep* rep = status.rep();
  status = std::move(status).With("file", "a");
  EXPECT_EQ(status.rep(), rep);
}

TEST(Status, ListsItsCausesAndDropsOkOnes) {
  const Status status =
      Aborted("run failed").WithCause(Internal("replica 1")).WithCause(OkStatus());
  ASSERT_EQ(status.causes().size(), 1u);
  EXPECT_EQ(status.ToString(), "ABORTED: run failed; caused by: INTERNAL: replica 1");
}

TEST(Status, StaysOkWhateverIsAddedToIt) {
  EXPECT_TRUE(OkStatus().With("rank", 1).WithCause(Internal("x")).WithPrefix("who").ok());
  EXPECT_TRUE(Status(StatusCode::kOk, "dropped").ok());
}

TEST(Status, DestroysItsHostObjectExactlyOnceWhenTheLastCopyGoes) {
  int destroyed = 0;
  static const int tag = 0;
  {
    auto object = MakeRef<HostData>(
        &destroyed, [](void* data) { ++*static_cast<int*>(data); }, nullptr, &tag);
    Status copy;
    {
      const Status status = Unknown("ValueError: x").WithHostObject(std::move(object));
      // The copy on write shares the object.
      copy = status.With("row", 3);
    }
    EXPECT_EQ(destroyed, 0);
    ASSERT_NE(copy.host_object(), nullptr);
    EXPECT_EQ(copy.host_object()->tag(), &tag);
    EXPECT_EQ(copy.host_object()->data(), &destroyed);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(Status, OutOfMemoryIsOneStaticStatusThatOutlivesItsReferences) {
  const StatusRep* rep = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Status status = Status::OutOfMemory();
    EXPECT_TRUE(rep == nullptr || status.rep() == rep);
    rep = status.rep();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  }
  const Status detailed = Status::OutOfMemory().With("bytes", 7);
  EXPECT_NE(detailed.rep(), rep);
  EXPECT_TRUE(Status::OutOfMemory().details().empty());
}

TEST(Status, TravelsThroughARawPointerWithoutLosingItsReference) {
  const StatusRep* raw = DataLoss("torn").release();
  const Status status = Status::Adopt(raw);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(raw->IsUnique());
}

TEST(Status, NamesAllCanonicalCodes) {
  EXPECT_STREQ(StatusCodeName(StatusCode::kUnauthenticated), "UNAUTHENTICATED");
  EXPECT_STREQ(StatusCodeName(StatusCode::kDeadlineExceeded), "DEADLINE_EXCEEDED");
  EXPECT_STREQ(StatusCodeName(static_cast<StatusCode>(99)), "UNKNOWN");
}

TEST(Status, TurnsErrnoIntoTheCodeThatACallerCanActOn) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "x").code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(EACCES, "x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(ENOENT, "open a").message(), "open a: No such file or directory");
  EXPECT_THAT(std::string(ErrnoStatus(99999, "open a").message()), HasSubstr("99999"));
}

Result<int> Half(int number) {
  if (number % 2 != 0) return InvalidArgument("{} is odd", number);
  return number / 2;
}

Result<int> Quarter(int number) {
  TUTTI_ASSIGN_OR_RETURN(const int half, Half(number));
  TUTTI_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckHalf(int number) {
  TUTTI_RETURN_IF_ERROR(Half(number).status());
  return OkStatus();
}

TEST(Result, IsAValueOrTheStatusThatSaysWhyThereIsNone) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_TRUE(CheckHalf(2).ok());
  EXPECT_FALSE(CheckHalf(3).ok());
}

TEST(Result, HoldsMoveOnlyValuesAndConvertsWhatConverts) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
  const Result<std::string> text = "hello";
  EXPECT_EQ(*text, "hello");
  Result<std::string> copy = text;
  copy = Result<std::string>(NotFound("gone"));
  EXPECT_EQ(copy.status().code(), StatusCode::kNotFound);
}

TEST(Result, IsInternalWhenItWasMadeFromAnOkStatus) {
  EXPECT_EQ(Result<int>(OkStatus()).status().code(), StatusCode::kInternal);
}

struct Counted : RefCounted {
  explicit Counted(int* alive) : alive(alive) { ++*alive; }
  ~Counted() override { --*alive; }
  int* alive;
};

TEST(Ref, KeepsItsObjectAsLongAsThereIsAReference) {
  int alive = 0;
  {
    Ref<Counted> first = MakeRef<Counted>(&alive);
    Ref<RefCounted> base = first;
    first.reset();
    EXPECT_EQ(alive, 1);
    RefCounted* raw = base.release();
    EXPECT_TRUE(raw->TryRetain());
    EXPECT_FALSE(raw->IsUnique());
    raw->Release();
    const Ref<RefCounted> adopted = Ref<RefCounted>::Adopt(raw);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(Ref<Counted>::Retain(nullptr), nullptr);
}

}  // namespace
}  // namespace tutti

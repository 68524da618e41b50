#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/base/executor.h"
#include "core/base/simulated_environment.h"
#include "core/function/callback.h"
#include "core/function/context.h"
#include "core/function/function.h"
#include "core/function/function_registry.h"
#include "core/tensor/value.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FunctionTest : public ::testing::Test {
 protected:
  Ref<SimulatedEnvironment> environment_ = MakeRef<SimulatedEnvironment>(1);
  Context context_{*environment_};
  Ref<Value> seven_ = Value::OfString("seven");
};

// Gives its input back, and counts its calls in an int.
const StatusRep* Echo(Context*, const Value* in, Value** out, void* user_data) {
  ++*static_cast<int*>(user_data);
  *out = Ref<Value>::Retain(const_cast<Value*>(in)).release();
  return nullptr;
}

void CountDestroy(void* data) { ++*static_cast<int*>(data); }

TEST_F(FunctionTest, ABorrowedCallbackRunsInTheClassOfItsContext) {
  ContextFields fields;
  fields.callback_class = CallbackClass::kReplica;
  fields.replica_id = 1;
  fields.num_replicas = 2;
  fields.global_rows = 7;
  Context context(*environment_, fields);
  bool ran = false;
  BorrowedCallback callback(
      [](Context* context, const Value*, Value**, void* ran) -> const StatusRep* {
        EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kReplica);
        EXPECT_EQ(context->replica_id(), 1);
        EXPECT_EQ(context->num_replicas(), 2);
        EXPECT_EQ(context->global_rows(), 7);
        EXPECT_EQ(context->device_name(), "");
        *static_cast<bool*>(ran) = true;
        return nullptr;
      },
      &ran);
  Ref<Value> out;
  ASSERT_TRUE(callback.Call(context, *seven_, &out).ok());
  EXPECT_TRUE(ran);
  EXPECT_EQ(CurrentCallbackClass(), CallbackClass::kNone);
  // Null means none.
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->ContentsEqual(*Value::None()));
}

TEST_F(FunctionTest, HandsOnTheStatusOfACallbackThatFailsWithItsHostObject) {
  int exception = 0;
  BorrowedCallback callback(
      [](Context*, const Value* in, Value** out, void* data) -> const StatusRep* {
        // A result beside a failure is taken over all the same.
        *out = Ref<Value>::Retain(const_cast<Value*>(in)).release();
        return Unknown("ValueError: odd")
            .WithHostObject(MakeRef<HostData>(data, &CountDestroy, nullptr))
            .release();
      },
      &exception);
  Ref<Value> out;
  {
    const Status status = callback.Call(context_, *seven_, &out);
    EXPECT_EQ(status.code(), StatusCode::kUnknown);
    EXPECT_EQ(status.message(), "ValueError: odd");
    ASSERT_NE(status.host_object(), nullptr);
    EXPECT_EQ(status.host_object()->data(), &exception);
    EXPECT_FALSE(out);
    EXPECT_TRUE(seven_->IsUnique());
  }
  EXPECT_EQ(exception, 1);
}

TEST_F(FunctionTest, AContextKnowsWhenNobodyWaitsForTheResult) {
  EXPECT_FALSE(context_.cancelled());
  auto cancellation = MakeRef<Cancellation>();
  ContextFields fields;
  fields.options.cancellation = cancellation.get();
  Context cancellable(*environment_, fields);
  EXPECT_FALSE(cancellable.cancelled());
  cancellation->Cancel();
  EXPECT_TRUE(cancellable.cancelled());
  fields.options = CallOptions::WithTimeout(environment_->clock(), 5);
  Context bounded(*environment_, fields);
  EXPECT_FALSE(bounded.cancelled());
  environment_->RunFor(5);
  EXPECT_TRUE(bounded.cancelled());
}

TEST_F(FunctionTest, AStoredCallbackIsDestroyedOnceOnTheCallbackExecutor) {
  int calls = 0;
  auto data = MakeRef<HostData>(
      &calls, [](void* data) { *static_cast<int*>(data) += 100; },
      Ref<CallbackExecutor>::Retain(&environment_->callback_executor()));
  Result<Ref<Function>> function = StoredCallback::Create(&Echo, std::move(data));
  ASSERT_TRUE(function.ok());
  Ref<Value> out;
  ASSERT_TRUE((*function)->Call(context_, *seven_, &out).ok());
  EXPECT_EQ(out, seven_);
  EXPECT_TRUE((*function)->calls_host());
  EXPECT_EQ((*function)->granularity(), Granularity::kRow);
  function = NotFound("gone");
  EXPECT_EQ(calls, 1);
  environment_->RunUntilIdle();
  EXPECT_EQ(calls, 101);
}

TEST_F(FunctionTest, AStoredCallbackIsDestroyedOnceAlsoWhenItCannotBeMade) {
  int destroyed = 0;
  EXPECT_EQ(StoredCallback::Create(nullptr, MakeRef<HostData>(&destroyed, &CountDestroy, nullptr))
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(FunctionTest, AStoredCallbackIsDestroyedWhenItsNameIsTaken) {
  int first = 0;
  int second = 0;
  auto registry = MakeRef<FunctionRegistry>();
  const auto make = [](int* count) {
    return *StoredCallback::Create(&Echo, MakeRef<HostData>(count, &CountDestroy, nullptr));
  };
  ASSERT_TRUE(registry->Register("parse", make(&first)).ok());
  EXPECT_EQ(registry->Register("parse", make(&second)).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  registry->Clear();
  EXPECT_EQ(first, 1);
}

TEST_F(FunctionTest, ACallbackTellsItsSpecOnlyWhenItWasGivenOne) {
  int unused = 0;
  const auto data = [&] { return MakeRef<HostData>(&unused, nullptr, nullptr); };
  EXPECT_FALSE(*(*StoredCallback::Create(&Echo, data()))->OutputSpec(nullptr));
  StoredCallbackOptions options;
  options.granularity = Granularity::kSlab;
  options.output_spec = ElementSpec::OfTensor(DType::kFloat32, PartialShape({64}));
  const Ref<const ElementSpec> spec = options.output_spec;
  const Ref<Function> function = *StoredCallback::Create(&Echo, data(), std::move(options));
  EXPECT_EQ(*function->OutputSpec(nullptr), spec);
  EXPECT_TRUE(function->takes_slabs());
}

TEST_F(FunctionTest, ACallbackCannotBeWrittenDownUnlessItHasAName) {
  int calls = 0;
  auto registry = MakeRef<FunctionRegistry>();
  StoredCallbackOptions options;
  options.name = "parse";
  const Ref<Function> function =
      *StoredCallback::Create(&Echo, MakeRef<HostData>(&calls, nullptr, nullptr), options);
  const Status status = function->Define().status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"parse\""));

  ASSERT_TRUE(registry->Register("parse_digit", function).ok());
  const Ref<Function> registered = *registry->Find("parse_digit");
  const FunctionDefinition definition = *registered->Define();
  EXPECT_EQ(definition, (FunctionDefinition{"registered", "parse_digit"}));
  // What a definition means elsewhere is what has that name there.
  Ref<Value> out;
  ASSERT_TRUE((*registry->Make(definition))->Call(context_, *seven_, &out).ok());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(MakeRef<FunctionRegistry>()->Make(definition).status().code(), StatusCode::kNotFound);
}

TEST_F(FunctionTest, ARegistryNamesTheNearestWhenThereIsNoSuchFunction) {
  int unused = 0;
  auto registry = MakeRef<FunctionRegistry>();
  const Ref<Function> function =
      *StoredCallback::Create(&Echo, MakeRef<HostData>(&unused, nullptr, nullptr));
  EXPECT_THAT(std::string(registry->Find("x").status().message()), HasSubstr("none is registered"));
  EXPECT_EQ(registry->Register("", function).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(registry->Register("parse_digit", function).ok());
  ASSERT_TRUE(registry->Register("augment", function).ok());
  EXPECT_THAT(registry->Names(), ElementsAre("augment", "parse_digit"));
  const Status status = registry->Find("parse_digits").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean \"parse_digit\""));
  EXPECT_THAT(std::string(registry->Unregister("zzz").message()),
              AllOf(HasSubstr("augment"), HasSubstr("parse_digit")));
}

TEST_F(FunctionTest, AFunctionThatWasFoundWorksOnAfterItsNameIsFreed) {
  int calls = 0;
  auto registry = MakeRef<FunctionRegistry>();
  const Ref<Function> function =
      *StoredCallback::Create(&Echo, MakeRef<HostData>(&calls, nullptr, nullptr));
  ASSERT_TRUE(registry->Register("f", function).ok());
  const Ref<Function> found = *registry->Find("f");
  ASSERT_TRUE(registry->Unregister("f").ok());
  EXPECT_EQ(registry->Find("f").status().code(), StatusCode::kNotFound);
  Ref<Value> out;
  EXPECT_TRUE(found->Call(context_, *seven_, &out).ok());
  EXPECT_EQ(calls, 1);
}

// A native function: what an expression will be.
class Repeat final : public Function {
 public:
  explicit Repeat(std::string text) : Function("repeat"), text_(std::move(text)) {}
  Status Call(Context&, const Value&, Ref<Value>* out) override {
    *out = Value::OfString(text_);
    return OkStatus();
  }
  Granularity granularity() const override { return Granularity::kEither; }
  bool calls_host() const override { return false; }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec*) const override {
    return ElementSpec::OfValue(*Value::OfString(text_));
  }
  Result<FunctionDefinition> Define() const override {
    return FunctionDefinition{"repeat", text_};
  }

 private:
  const std::string text_;
};

TEST_F(FunctionTest, ANativeFunctionIsReadBackByTheReaderOfItsKind) {
  auto registry = MakeRef<FunctionRegistry>();
  const FunctionRegistry::Reader reader = [](std::string_view payload) -> Result<Ref<Function>> {
    return Ref<Function>(MakeRef<Repeat>(std::string(payload)));
  };
  const FunctionDefinition definition = *MakeRef<Repeat>("hello")->Define();
  const Status unknown = registry->Make(definition).status();
  EXPECT_EQ(unknown.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(unknown.message(),
            "functions of kind \"repeat\" cannot be read here; known are registered; a newer "
            "release may have written this definition: read it with that one");
  ASSERT_TRUE(registry->AddKind("repeat", reader).ok());
  EXPECT_EQ(registry->AddKind("repeat", reader).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry->AddKind("registered", reader).code(), StatusCode::kAlreadyExists);
  Ref<Value> out;
  ASSERT_TRUE((*registry->Make(definition))->Call(context_, *seven_, &out).ok());
  EXPECT_TRUE(out->ContentsEqual(*Value::OfString("hello")));
}

}  // namespace
}  // namespace tutti

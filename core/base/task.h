// Task: a callable that runs once, can be moved and not copied. Lighter than std::function, and
// holds move-only captures.

#ifndef TUTTI_CORE_BASE_TASK_H_
#define TUTTI_CORE_BASE_TASK_H_

#include <memory>
#include <type_traits>
#include <utility>

namespace tutti {

class Task {
 public:
  Task() noexcept = default;
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Task>>>
  Task(F&& function)  // NOLINT: lambdas convert
      : callable_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(function))) {}

  explicit operator bool() const noexcept { return callable_ != nullptr; }
  void operator()() { callable_->Run(); }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual void Run() = 0;
  };
  template <typename F>
  struct Holder final : Callable {
    template <typename G>
    explicit Holder(G&& g) : function(std::forward<G>(g)) {}
    void Run() override { function(); }
    F function;
  };
  std::unique_ptr<Callable> callable_;
};

}  // namespace tutti

#endif  // TUTTI_CORE_BASE_TASK_H_

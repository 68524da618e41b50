// Package tutti is a distribution runtime: replicas, collectives and input pipelines.
//
//	strategy, err := tutti.NewMirroredStrategy("CPU:0", "CPU:1")
//	if err != nil {
//		return err
//	}
//	defer strategy.Close()
//	steps, err := strategy.Distribute(ctx, tutti.Range(0, 1000, 1).Batch(128))
//	if err != nil {
//		return err
//	}
//	defer steps.Close()
//	for steps.Next() {
//		losses, err := strategy.Run(ctx, step, steps.Value())
//		...
//	}
//	return steps.Err()
//
// # Errors
//
// Every failure is an *Error with a code, which errors.Is compares (errors.Is(err,
// tutti.ErrOutOfRange)). What a function of yours returned, or panicked with, is reached by
// errors.Is, errors.As and Unwrap; a panic is a *PanicError.
//
// # Who owns what
//
// An object with Close holds a reference to something native. Close ends it; the garbage collector
// does so too, some time. After Close, and after Shutdown for what lives in the runtime, every
// method fails with ErrFailedPrecondition.
//
// A slice that Slice or MutableSlice gives is the tensor's memory itself, and Go's garbage
// collector does not know it: it is valid while the tensor is reachable and not closed, so close
// the tensor after the last use (defer tensor.Close()), or end with runtime.KeepAlive(tensor). View
// does so by itself. Values that a function of yours is called with are valid until it returns;
// Keep makes one that stays.
//
// # Options
//
// What a call can be told besides its arguments are functions behind them, of a type of their own
// for each kind of call, so that one that means nothing there does not compile:
//
//	strategy, err := tutti.DefaultRuntime().NewMirroredStrategy(ctx,
//		tutti.WithDevices("CPU:0", "CPU:1"), tutti.WithTimeout(time.Minute))
//	bias, err := strategy.NewVariable(ctx, zeros, tutti.WithName("bias"),
//		tutti.WithAggregation(tutti.AggregateMean))
//
// A struct such as VariableOptions{...} is an option, too. It counts for every field, so it comes
// first.
//
// # Waiting
//
// Calls that can wait take a context.Context, whose deadline and cancellation end them. Of one
// without either, as context.Background(), they wait as long as the setting default_timeout says,
// by default without limit. A context costs a goroutine when it can be cancelled.
//
// A collective that ends in Async returns at once, with a Future. Its work is done in the order of
// issue and counts among the calls of the rank; one without Async takes its turn behind it. Its
// context is that of the call: when it ends before the call has, it ends the call and the epoch
// with it. The context of Future.Wait leaves the call alone, and so does closing the future or a
// tensor. Until the call is done nobody writes its tensors or reads its outputs. Wrong arguments
// are errors of the issue, all others are the future's.
//
// # Functions that the library calls
//
// They run on threads of the library, several at once. They must return or panic: runtime.Goexit in
// one, which FailNow and Fatal of package testing call, ends the process with a message that says
// so, because C++ frames below it wait.
package tutti

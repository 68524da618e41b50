package org.tutti.internal;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import org.tutti.Value;

/**
 * An object of the library that is a stage of the JDK's, by way of one: what a program hangs on it
 * runs as it would there, and never on a thread of the library.
 */
public abstract class StageOfValue extends NativeObject implements CompletionStage<Value> {
  protected StageOfValue(Box box) {
    super(box);
  }

  /** The same stage each time. */
  protected abstract CompletableFuture<Value> stage();

  @Override
  public <U> CompletionStage<U> thenApply(
      Function<? super Value, ? extends U> fn) {
    return stage().thenApply(fn);
  }

  @Override
  public <U> CompletionStage<U> thenApplyAsync(
      Function<? super Value, ? extends U> fn) {
    return stage().thenApplyAsync(fn);
  }

  @Override
  public <U> CompletionStage<U> thenApplyAsync(
      Function<? super Value, ? extends U> fn,
      Executor executor) {
    return stage().thenApplyAsync(fn, executor);
  }

  @Override
  public CompletionStage<Void> thenAccept(
      Consumer<? super Value> action) {
    return stage().thenAccept(action);
  }

  @Override
  public CompletionStage<Void> thenAcceptAsync(
      Consumer<? super Value> action) {
    return stage().thenAcceptAsync(action);
  }

  @Override
  public CompletionStage<Void> thenAcceptAsync(
      Consumer<? super Value> action,
      Executor executor) {
    return stage().thenAcceptAsync(action, executor);
  }

  @Override
  public CompletionStage<Void> thenRun(
      Runnable action) {
    return stage().thenRun(action);
  }

  @Override
  public CompletionStage<Void> thenRunAsync(
      Runnable action) {
    return stage().thenRunAsync(action);
  }

  @Override
  public CompletionStage<Void> thenRunAsync(
      Runnable action,
      Executor executor) {
    return stage().thenRunAsync(action, executor);
  }

  @Override
  public <U, V> CompletionStage<V> thenCombine(
      CompletionStage<? extends U> other,
      BiFunction<? super Value, ? super U, ? extends V> fn) {
    return stage().thenCombine(other, fn);
  }

  @Override
  public <U, V> CompletionStage<V> thenCombineAsync(
      CompletionStage<? extends U> other,
      BiFunction<? super Value, ? super U, ? extends V> fn) {
    return stage().thenCombineAsync(other, fn);
  }

  @Override
  public <U, V> CompletionStage<V> thenCombineAsync(
      CompletionStage<? extends U> other,
      BiFunction<? super Value, ? super U, ? extends V> fn,
      Executor executor) {
    return stage().thenCombineAsync(other, fn, executor);
  }

  @Override
  public <U> CompletionStage<Void> thenAcceptBoth(
      CompletionStage<? extends U> other,
      BiConsumer<? super Value, ? super U> action) {
    return stage().thenAcceptBoth(other, action);
  }

  @Override
  public <U> CompletionStage<Void> thenAcceptBothAsync(
      CompletionStage<? extends U> other,
      BiConsumer<? super Value, ? super U> action) {
    return stage().thenAcceptBothAsync(other, action);
  }

  @Override
  public <U> CompletionStage<Void> thenAcceptBothAsync(
      CompletionStage<? extends U> other,
      BiConsumer<? super Value, ? super U> action,
      Executor executor) {
    return stage().thenAcceptBothAsync(other, action, executor);
  }

  @Override
  public CompletionStage<Void> runAfterBoth(
      CompletionStage<?> other, Runnable action) {
    return stage().runAfterBoth(other, action);
  }

  @Override
  public CompletionStage<Void> runAfterBothAsync(
      CompletionStage<?> other, Runnable action) {
    return stage().runAfterBothAsync(other, action);
  }

  @Override
  public CompletionStage<Void> runAfterBothAsync(
      CompletionStage<?> other, Runnable action,
      Executor executor) {
    return stage().runAfterBothAsync(other, action, executor);
  }

  @Override
  public <U> CompletionStage<U> applyToEither(
      CompletionStage<? extends Value> other,
      Function<? super Value, U> fn) {
    return stage().applyToEither(other, fn);
  }

  @Override
  public <U> CompletionStage<U> applyToEitherAsync(
      CompletionStage<? extends Value> other,
      Function<? super Value, U> fn) {
    return stage().applyToEitherAsync(other, fn);
  }

  @Override
  public <U> CompletionStage<U> applyToEitherAsync(
      CompletionStage<? extends Value> other,
      Function<? super Value, U> fn,
      Executor executor) {
    return stage().applyToEitherAsync(other, fn, executor);
  }

  @Override
  public CompletionStage<Void> acceptEither(
      CompletionStage<? extends Value> other,
      Consumer<? super Value> action) {
    return stage().acceptEither(other, action);
  }

  @Override
  public CompletionStage<Void> acceptEitherAsync(
      CompletionStage<? extends Value> other,
      Consumer<? super Value> action) {
    return stage().acceptEitherAsync(other, action);
  }

  @Override
  public CompletionStage<Void> acceptEitherAsync(
      CompletionStage<? extends Value> other,
      Consumer<? super Value> action,
      Executor executor) {
    return stage().acceptEitherAsync(other, action, executor);
  }

  @Override
  public CompletionStage<Void> runAfterEither(
      CompletionStage<?> other, Runnable action) {
    return stage().runAfterEither(other, action);
  }

  @Override
  public CompletionStage<Void> runAfterEitherAsync(
      CompletionStage<?> other, Runnable action) {
    return stage().runAfterEitherAsync(other, action);
  }

  @Override
  public CompletionStage<Void> runAfterEitherAsync(
      CompletionStage<?> other, Runnable action,
      Executor executor) {
    return stage().runAfterEitherAsync(other, action, executor);
  }

  @Override
  public <U> CompletionStage<U> thenCompose(
      Function<? super Value, ? extends CompletionStage<U>> fn) {
    return stage().thenCompose(fn);
  }

  @Override
  public <U> CompletionStage<U> thenComposeAsync(
      Function<? super Value, ? extends CompletionStage<U>> fn) {
    return stage().thenComposeAsync(fn);
  }

  @Override
  public <U> CompletionStage<U> thenComposeAsync(
      Function<? super Value, ? extends CompletionStage<U>> fn,
      Executor executor) {
    return stage().thenComposeAsync(fn, executor);
  }

  @Override
  public <U> CompletionStage<U> handle(
      BiFunction<? super Value, Throwable, ? extends U> fn) {
    return stage().handle(fn);
  }

  @Override
  public <U> CompletionStage<U> handleAsync(
      BiFunction<? super Value, Throwable, ? extends U> fn) {
    return stage().handleAsync(fn);
  }

  @Override
  public <U> CompletionStage<U> handleAsync(
      BiFunction<? super Value, Throwable, ? extends U> fn,
      Executor executor) {
    return stage().handleAsync(fn, executor);
  }

  @Override
  public CompletionStage<Value> whenComplete(
      BiConsumer<? super Value, ? super Throwable> action) {
    return stage().whenComplete(action);
  }

  @Override
  public CompletionStage<Value> whenCompleteAsync(
      BiConsumer<? super Value, ? super Throwable> action) {
    return stage().whenCompleteAsync(action);
  }

  @Override
  public CompletionStage<Value> whenCompleteAsync(
      BiConsumer<? super Value, ? super Throwable> action,
      Executor executor) {
    return stage().whenCompleteAsync(action, executor);
  }

  @Override
  public CompletionStage<Value> exceptionally(Function<Throwable, ? extends Value> fn) {
    return stage().exceptionally(fn);
  }

  /** A future of the JDK that is completed when this one is; completing it leaves this alone. */
  @Override
  public CompletableFuture<Value> toCompletableFuture() {
    return stage().copy();
  }
}

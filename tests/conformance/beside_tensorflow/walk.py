"""A random pipeline built in both libraries step by step, and what they differ in."""

import tensorflow as tf
import tutti

from sides import SIDES, TensorFlow
from steps import MOST_ELEMENTS, Pipeline, draw_end, draw_source, draw_step
from texts import difference, shown, spec_difference


class Difference(Exception):
    """What the libraries differ in."""


# What becomes of an error of the reference's in this library: its class of the same name, or the
# built-in class that it is.
def fits(theirs, ours):
    if isinstance(theirs, UnicodeDecodeError):  # of a message that holds the bytes it is about
        return isinstance(ours, tutti.errors.InvalidArgumentError)
    if isinstance(theirs, tf.errors.InternalError) and "INVALID_ARGUMENT" in str(theirs):
        return isinstance(ours, tutti.errors.InvalidArgumentError)
    if isinstance(theirs, tf.errors.DataLossError) and (
            "Attempted to pad" in str(theirs) or "larger than the row shape" in str(theirs)):
        return isinstance(ours, tutti.errors.InvalidArgumentError)  # the argument is at fault
    if isinstance(theirs, tf.errors.OpError):
        return isinstance(ours, getattr(tutti.errors, type(theirs).__name__, ()))
    builtin = next(c for c in type(theirs).__mro__ if c.__module__ == "builtins")
    return isinstance(ours, builtin)


def named(error):
    return "nothing" if error is None else f"{type(error).__name__}: {shown(str(error))[:300]}"


def attempt(call):
    try:
        return call(), None
    except Exception as error:  # whatever it is, it is compared
        return None, error


class Rows:
    """The rows of an iterator up to the first failure, the end or so many."""

    @staticmethod
    def tells(side_name):
        """Called with whose rows are being made."""

    def __init__(self, side, dataset, most):
        self.rows, self.error, self.ended = [], None, False
        Rows.tells(side.name)
        try:
            iterator = side.iterator(dataset)
            while len(self.rows) < most:
                try:
                    element = next(iterator)
                except StopIteration:
                    self.ended = True
                    break
                self.rows.append(side.plain(element))
        except Exception as error:
            self.error = error


def _in_order(value):
    """The same for elements that are equal, whatever order their keys were written in."""
    if isinstance(value, dict):
        return [(key, _in_order(value[key])) for key in sorted(value)]
    return [_in_order(part) for part in value] if isinstance(value, (tuple, list)) else value


def _sorted(rows):
    return sorted(rows, key=lambda row: repr(_in_order(row)))


def compare_rows(datasets, is_shuffled, passes_over, windows, asserts):
    most = MOST_ELEMENTS * 100 if is_shuffled else MOST_ELEMENTS  # in any order: all of them
    theirs, ours = (Rows(side, dataset, most) for side, dataset in zip(SIDES, datasets))
    told = (f"\n  theirs: {shown(theirs.rows)} then {named(theirs.error)}"
            f"\n  ours:   {shown(ours.rows)} then {named(ours.error)}")
    if isinstance(theirs.error, tf.errors.AlreadyExistsError) and ours.error is None:
        return  # two iterators of theirs cannot share the file of a cache
    if is_shuffled and (theirs.error is not None or ours.error is not None):
        same = theirs.error is not None and ours.error is not None
        if same and fits(theirs.error, ours.error):
            return
        raise Difference("errors differ" + told)
    ordered = _sorted if is_shuffled else list
    for i, (a, b) in enumerate(zip(ordered(theirs.rows), ordered(ours.rows))):
        where = difference(a, b)
        if where:
            raise Difference(f"element {i}: {where}" + told)
    if passes_over and theirs.error is not None and ours.error is None:
        return  # an error belongs to its element, and that one is not asked for
    if windows and (theirs.error is not None or ours.error is not None):
        return  # theirs takes what stood before it in its window along
    if asserts and theirs.error is not None and ours.error is not None:
        return  # an element that fails is one that is counted
    if len(theirs.rows) != len(ours.rows) or theirs.ended != ours.ended:
        raise Difference(f"{len(theirs.rows)} and {len(ours.rows)} elements" + told)
    # Where TensorFlow calls an error its own mistake, ours is what is meant.
    if theirs.error is not None and not fits(theirs.error, ours.error) and not (
            ours.error is not None and "implementation error" in str(theirs.error)):
        raise Difference("errors differ" + told)


class Walk:
    """One pipeline. `steps` are what it is made of so far."""

    def __init__(self, seed, files, tells=False):
        self.seed, self.steps, self.tells = seed, [], tells
        self.pipeline = Pipeline(seed, files)
        self.exact, self.knows_more = True, 0
        self.learns_late = False  # of files whose names are only listed when they are read

    def text(self):
        return f"seed {self.seed}:\n    " + "\n    .".join(step.text for step in self.steps)

    def _look(self, datasets):
        """Compares what both say of their elements in advance."""
        theirs, ours = datasets
        spec = TensorFlow().plain_spec(theirs.element_spec)
        cardinality = TensorFlow().cardinality(theirs)
        mine = SIDES[1].cardinality(ours)
        if mine != cardinality and not self.learns_late and not (mine == -2 and not self.exact):
            # Who knows more may; TensorFlow takes what chooses among endless inputs for endless.
            counted = Rows(SIDES[1], ours, max(mine, MOST_ELEMENTS) + 1)
            # An input that repeats nothing for ever has an end after all: then there are fewer.
            is_right = counted.error is not None or (
                len(counted.rows) == mine or -1 == cardinality and len(counted.rows) < mine
                if counted.ended else mine == -1)
            if is_right and cardinality >= 0:  # then theirs has to be wrong
                met = Rows(SIDES[0], theirs, cardinality + 1)
                is_right = met.ended and len(met.rows) == mine
            if not is_right:
                raise Difference(f"cardinality {cardinality} and {mine}")
            self.knows_more += 1
        mine, error = attempt(lambda: SIDES[1].plain_spec(ours.element_spec))
        self.pipeline.is_learnt = error is None and not self._says_nothing(mine)
        if self.pipeline.is_learnt:
            where = spec_difference(spec, mine, self.exact)
            if where:
                raise Difference(f"element_spec: {where}")
        elif self.exact:
            raise Difference(f"element_spec: {spec} and {mine or named(error)}")
        self.pipeline.spec, self.pipeline.cardinality = spec, cardinality

    def _says_nothing(self, spec):
        return "none" in repr(spec)

    def _applied(self, step, datasets):
        """The datasets behind a step; None where both refuse it, or one did before its elements
        did in the other."""
        (theirs, their_error), (ours, our_error) = (
            attempt(lambda: step.apply(side, dataset)) for side, dataset in zip(SIDES, datasets))
        if their_error is None and our_error is None:
            return theirs, ours
        if their_error is not None and our_error is not None:
            if not fits(their_error, our_error):
                raise Difference(f"refused by {named(their_error)} and by {named(our_error)}")
        elif our_error is not None:
            met = Rows(SIDES[0], theirs, MOST_ELEMENTS)
            if met.error is None and not met.rows and isinstance(our_error, ValueError):
                return None  # theirs has not met anything that it would refuse
            if met.error is None or not fits(met.error, our_error):
                raise Difference(f"ours refuses it, {named(our_error)}, "
                                 f"theirs has {named(met.error)}")
        else:
            met = Rows(SIDES[1], ours, MOST_ELEMENTS)
            if not self.exact and (met.error is not None or not met.rows or
                                   not self.pipeline.is_learnt):
                return None  # ours knows only from its first element what they are
            if step.calls and met.error is None and not met.rows:
                return None  # its function is wrong for elements, and there are none
            if met.error is None or not fits(their_error, met.error):
                raise Difference(f"theirs refuses it, {named(their_error)}, "
                                 f"ours has {named(met.error)}")
        return None

    def _reduced(self, step, datasets):
        (theirs, their_error), (ours, our_error) = (
            attempt(lambda: side.plain(step.apply(side, dataset)))
            for side, dataset in zip(SIDES, datasets))
        passes_over = any(step.passes_over for step in self.steps)
        if their_error is not None and (passes_over or fits(their_error, our_error)):
            return
        where = difference(theirs, ours) if their_error is None and our_error is None else (
            f"{named(their_error)} and {named(our_error)}")
        if where:
            raise Difference(f"reduced: {where}")

    def run(self, most_steps):
        step = draw_source(self.pipeline)
        self.steps.append(step)
        self.learns_late = step.text.startswith("list_files")
        if self.tells:
            print("    " + step.text, flush=True)
        datasets = self._applied(step, (None, None))
        if datasets is None:
            return
        self.pipeline.may_call_back = step.may_call_back
        self._look(datasets)
        for _ in range(self.pipeline.random.randint(0, most_steps)):
            step = draw_step(self.pipeline)
            self.steps.append(step)
            if self.tells:
                print("    ." + step.text, flush=True)
            after = self._applied(step, datasets)
            if after is None:
                self.steps.pop()
                continue
            datasets = after
            self.exact = self.pipeline.is_promised = self.exact and not step.is_callback
            self.pipeline.is_shuffled = self.pipeline.is_shuffled or step.shuffles
            self.pipeline.may_call_back = self.pipeline.may_call_back or step.may_call_back
            self._look(datasets)
        end = draw_end(self.pipeline)
        if end is not None:
            self.steps.append(end)
            self._reduced(end, datasets)
            self.steps.pop()
        compare_rows(datasets, self.pipeline.is_shuffled,
                     any(step.passes_over for step in self.steps),
                     *(any(step.text.startswith(name) for step in self.steps)
                       for name in ("window", "assert")))

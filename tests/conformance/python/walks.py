"""Walks over a dataset: what its iterators give, call by call, compared with what is expected."""

import tutti
from vector_values import Failure, NotCovered, compare, dtype_of, known, need

END = object()


def is_error(expected):
    return isinstance(expected, dict) and "error" in expected


def expect_error(expected, run):
    known(expected, ("error", "message_names"))
    try:
        result = run()
    except tutti.errors.Error as error:
        need(error.code_name == expected["error"], "expected", expected["error"], "found",
             error.code_name, error)
        for name in expected.get("message_names", ()):
            need(name in str(error), f"the message does not name {name!r}:", error)
    else:
        need(False, "expected", expected["error"], "found", "the end" if result is END else result)


class Walks:
    """How a case iterates, by its `api`, and how it compares, by its `dtype` and `tolerance`."""

    def __init__(self, case):
        self._api = case.get("api")
        if self._api not in (None, "get_next", "get_next_as_optional"):
            raise NotCovered(f"api {self._api}")
        self._dtype = dtype_of(case["dtype"]) if "dtype" in case else None
        self._tolerance = case.get("tolerance", 0.0)

    def _next(self, iterator):
        """The next element; END at the end."""
        if self._api == "get_next_as_optional":
            optional = iterator.get_next_as_optional()
            return optional.get_value() if optional.has_value() else END
        if self._api == "get_next":
            try:
                return iterator.get_next()
            except tutti.errors.OutOfRangeError:
                return END
        return next(iterator, END)

    def _compare(self, element, expected, where=""):
        compare(element, expected, self._dtype, self._tolerance, where)

    def _is_equal(self, element, expected):
        try:
            self._compare(element, expected)
        except Failure:
            return False
        return True

    def _need_end(self, iterator, wanted):
        """With an `api` the end comes again."""
        for _ in range(1 if self._api is None else 2):
            more = self._next(iterator)
            need(more is END, "expected the end after", wanted, "elements, found", more)

    def walk(self, dataset, expected):
        """One walk that gives the list `expected`, in which {"error": CODE} is a call that fails;
        or {"multiset": [...]}, in any order."""
        if isinstance(expected, list):
            self._list(dataset, expected)
        else:
            known(expected, ("multiset",))
            self._multiset(dataset, expected["multiset"])

    def passes(self, dataset, expected):
        """{"passes": [[...], ...], "takes": [n, null]}: one walk after another, walk i given up
        behind n elements."""
        known(expected, ("passes", "takes"))
        takes = expected.get("takes", [])
        for i, items in enumerate(expected["passes"]):
            self._list(dataset, items, takes[i] if i < len(takes) else None, f"pass {i},")

    def _list(self, dataset, expected, take=None, where=""):
        need(take is None or len(expected) <= take, where, take, "elements are taken, expected",
             expected)
        with iter(dataset) as iterator:
            for i, item in enumerate(expected):
                if is_error(item):
                    expect_error(item, lambda: self._next(iterator))
                    continue
                element = self._next(iterator)
                need(element is not END, where, "expected", item, "found the end after", i,
                     "elements")
                self._compare(element, item, f"{where} element {i}:")
            # Nothing is compared behind an error that stands last, nor behind what is taken.
            if len(expected) != take and not (expected and is_error(expected[-1])):
                self._need_end(iterator, len(expected))

    def _multiset(self, dataset, expected):
        left = list(expected)
        with iter(dataset) as iterator:
            while (element := self._next(iterator)) is not END:
                match = next((i for i, item in enumerate(left) if self._is_equal(element, item)),
                             None)
                need(match is not None, "not, or not so often, expected:", element)
                del left[match]
            need(not left, "did not come:", left)
            self._need_end(iterator, len(expected))

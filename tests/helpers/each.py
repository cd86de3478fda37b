"""One test for many things of which each is looked at in no time."""

import functools
from collections.abc import Callable, Sequence


def each(things: Sequence, called: Callable = str) -> Callable:
    """A test of a check of one thing: it is made for all of them, and says for which it fails.

    A test of its own for each thing costs more than such a check does, in collecting it, too.
    called: what a thing is called where the check fails
    """

    def decorate(check):
        @functools.wraps(check)
        def test():
            assert things, "nothing is looked at"
            failures = {}
            for thing in things:
                try:
                    check(thing)
                except Exception as failure:
                    failures[called(thing)] = failure
            if failures:
                raise ExceptionGroup("\n".join(["not so:", *failures]), [*failures.values()])

        del test.__wrapped__  # pytest would take the check's argument for a fixture
        return test

    return decorate

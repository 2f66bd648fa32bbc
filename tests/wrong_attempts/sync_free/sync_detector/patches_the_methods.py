"""Replaces the methods that wait, for all threads, and misses the many other ways to a wait.

fails: test_it_notes_values_that_are_read
fails: test_it_notes_copies_that_block
fails: test_it_notes_copies_from_and_to_pageable_memory
fails: test_it_notes_copies_of_memory_with_holes
fails: test_it_notes_results_whose_size_the_host_cannot_know
fails: test_it_notes_python_values_that_travel
fails: test_it_sees_through_inference_mode
fails: test_it_watches_its_own_thread
says: a note of the wait in `number_as_float`
says: ends up as `_local_scalar_dense`
says: A mode sees the operators of the thread that entered it
"""

import functools

METHODS = ("item", "cpu", "tolist", "nonzero")


class SyncDetector:
    def __init__(self):
        self.waits = []

    def __enter__(self):
        self.replaced = {name: vars(torch.Tensor).get(name) for name in METHODS}
        for name in METHODS:
            setattr(torch.Tensor, name, self._noting(getattr(torch.Tensor, name), name))
        return self

    def __exit__(self, *exception):
        for name, method in self.replaced.items():
            delattr(torch.Tensor, name)
            if method is not None:
                setattr(torch.Tensor, name, method)

    def _noting(self, method, name):
        @functools.wraps(method)
        def call(tensor, *args, **kwargs):
            if on_device(tensor) and not _allowed.get():
                self.waits.append(next(outside_this_file(name)))
            return method(tensor, *args, **kwargs)

        return call


def outside_this_file(what):
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(MACHINERY):
            yield Wait(what, frame.name, frame.line)

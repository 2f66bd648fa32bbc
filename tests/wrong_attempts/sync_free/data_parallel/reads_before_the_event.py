"""Starts the copy, and returns its target without waiting.

fails: test_what_is_not_there_yet_is_waited_for
may fail: test_it_does_not_wait_for_the_model
says: `read` has to make sure that the event
"""


class ReadBack(ReadBack):
    def read(self):
        return self.values

"""Polls until the values have arrived.

fails: test_what_is_not_there_yet_is_waited_for
may fail: test_steps_in_a_row_are_all_read_right
may fail: test_it_does_not_wait_for_the_model
says: asks in a loop
"""


class ReadBack(ReadBack):
    def read(self):
        while not self.arrived.query():
            pass
        return self.values

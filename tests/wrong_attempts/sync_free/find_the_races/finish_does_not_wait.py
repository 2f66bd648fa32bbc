"""Waits in `step`, and reads the last tokens in `finish` without a wait.

fails: test_steps_one_after_another
says: Expected item 0 of what finish() returns, after step 4, to be 41252.
"""


class DecodeLoop(DecodeLoop):
    def finish(self):
        return None if self.on_its_way is None else self.on_its_way.values.tolist()

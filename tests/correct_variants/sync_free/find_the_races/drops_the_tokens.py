"""Drops a step's tokens in the next step, which waits for their copy before memory is allocated."""


class DecodeLoop(DecodeLoop):
    def _read_back(self):
        self.copying.wait_stream(current().current_stream())
        with self.copying:
            return ReadBack(self.tokens)

"""Keeps every uploaded tensor, so that none is overwritten.

fails: test_nothing_is_kept_of_each_call
says: after 6 rounds of the same calls
"""


class DecodeLoop(DecodeLoop):
    def __init__(self, decode, num_requests):
        super().__init__(decode, num_requests)
        self.sent = []
        inner = self.decode

        def keeping(tokens, positions):
            self.sent.append(positions)
            return inner(tokens, positions)

        self.decode = keeping

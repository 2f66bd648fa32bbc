"""Lets the copying stream wait for the stream on which the loop was made.

fails: test_on_another_stream
says: The object was made while another stream was current
"""


class DecodeLoop(DecodeLoop):
    def __init__(self, decode, num_requests):
        super().__init__(decode, num_requests)
        self.computing = current().current_stream()

    def _read_back(self):
        self.copying.wait_stream(self.computing)
        with self.copying:
            on_its_way = ReadBack(self.tokens)
        self.tokens.record_stream(self.copying)
        return on_its_way

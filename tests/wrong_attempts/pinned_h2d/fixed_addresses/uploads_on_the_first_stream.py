"""Uploads on the stream on which the buffer was made.

fails: test_on_another_stream
says: The object was made while another stream was current
"""


class PrefixRangeBuffer(PrefixRangeBuffer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.stream = current().current_stream()

    def _upload(self, rows):
        with self.stream:
            super()._upload(rows)

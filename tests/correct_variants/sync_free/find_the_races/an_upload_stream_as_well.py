"""Uploads on the copying stream too, and lets the computing stream wait for the upload alone."""


class DecodeLoop(DecodeLoop):
    def __init__(self, decode, num_requests):
        super().__init__(decode, num_requests)
        self.uploading, self.computing = current().stream(), current().current_stream

    def step(self, positions):
        computing = self.computing()
        with self.uploading:
            uploaded = torch.empty_like(self.tokens)
            self.staging.upload(positions, uploaded)
        computing.wait_event(self.uploading.record_event())
        uploaded.record_stream(computing)
        self.tokens = self.decode(self.tokens, uploaded)
        before, self.on_its_way = self.on_its_way, self._read_back()
        return before.read().tolist() if before else None

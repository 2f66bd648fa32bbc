"""Lets loads wait for the stream on which the engine was made.

fails: test_a_load_and_its_step_go_by_the_current_stream
says: Expected a load to run after all that was queued before it on the current
"""


class Engine(Engine):
    def __init__(self, model, cache, host_cache):
        self.computing = current().current_stream()
        super().__init__(model, cache, host_cache)

    def load(self, request, host_blocks):
        with self.computing:
            super().load(request, host_blocks)

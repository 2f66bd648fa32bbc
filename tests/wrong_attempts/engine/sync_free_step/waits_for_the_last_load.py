"""Keeps one event, that of the load that was asked for last.

fails: test_two_loads_may_come_before_a_step
says: Expected no race between the host, the copies and the kernels. Your code has
"""


class LastLoad(dict):
    def __setitem__(self, slot, event):
        self.clear()
        super().__setitem__(slot, event)


class Engine(Engine):
    def __init__(self, model, cache, host_cache):
        super().__init__(model, cache, host_cache)
        self.loads = LastLoad()

    def load(self, request, host_blocks):
        self.loading = current().stream()
        super().load(request, host_blocks)

"""Keeps all buffers in one list, each with its event or a mark that it is taken."""

TAKEN, FREE = "taken", "free"


class DescriptorPool:
    def __init__(self, most_buffers=None):
        self.most_buffers, self.all = most_buffers, []

    def take(self, num_descriptors):
        self.reclaim()
        full = self.most_buffers is not None and len(self.all) >= self.most_buffers
        if full and not any(state is FREE for _, state in self.all):
            flying = [entry for entry in self.all if entry[1] is not TAKEN]
            if not flying:
                raise RuntimeError("all buffers are taken")
            flying[0][1].synchronize()
            self.reclaim()
        for entry in self.all:
            if entry[1] is FREE and entry[0].shape[1] >= num_descriptors:
                entry[1] = TAKEN
                return entry[0]
        if full:
            small = next(entry for entry in self.all if entry[1] is FREE)
            self.all = [other for other in self.all if other is not small]
        self.all.append([_new_descriptor_buffers(max(1, num_descriptors)), TAKEN])
        return self.all[-1][0]

    def give_back(self, buffers, event):
        entry = next(entry for entry in self.all if entry[0] is buffers)
        self.all = [other for other in self.all if other is not entry]
        self.all.append([entry[0], event])

    def reclaim(self):
        for entry in self.all:
            if entry[1] not in (TAKEN, FREE):
                if not entry[1].query():
                    return
                entry[1] = FREE

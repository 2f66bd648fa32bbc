"""Scatters each needed page to its place in a running sum, and all other pages after them."""


class LayerMasks(LayerMasks):
    def build(self, num_tokens):
        self.num_groups = groups = num_tokens // Q_BLOCK
        for mask, lists in self.persistent.items():
            needed = needed_pages(mask, self.step, num_tokens)
            place = torch.where(needed, needed.cumsum(1) - 1, needed.shape[1])
            page = torch.arange(needed.shape[1], dtype=torch.int32, device=needed.device)
            indices = lists.kv_indices[:groups].fill_(-1)
            indices.scatter_reduce_(1, place, torch.where(needed, page, -1), "amax")
            torch.sum(needed, 1, dtype=torch.int32, out=lists.kv_num_blocks[:groups])

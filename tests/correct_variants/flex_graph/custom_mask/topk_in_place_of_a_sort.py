"""Orders the pages by `topk`, and writes them by `where`."""


class LayerMasks(LayerMasks):
    def build(self, num_tokens):
        self.num_groups = num_tokens // Q_BLOCK
        for mask, lists in self.persistent.items():
            needed = needed_pages(mask, self.step, num_tokens)
            count = needed.shape[1]
            page = torch.arange(count, device=needed.device)
            ranked = torch.where(needed, page, count).topk(count, largest=False, sorted=True).values
            pages = torch.where(ranked < count, ranked, -1)
            lists.kv_indices[: self.num_groups, :count] = pages.int()
            lists.kv_num_blocks[: self.num_groups] = needed.sum(1).int()

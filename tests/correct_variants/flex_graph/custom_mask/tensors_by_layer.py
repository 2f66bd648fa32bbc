"""Keeps the lists of each layer's mask, which its own class makes."""


class Lists:
    def __init__(self, mask, step):
        groups, pages = len(step.position) // Q_BLOCK, step.physical_to_logical.shape[1]
        options = {"dtype": torch.int32, "device": step.position.device}
        self.counts = torch.zeros(groups, **options)
        self.indices = torch.full((groups, pages + 1), -1, **options)
        self.mask, self.step, self.mask_mod = mask, step, mask_mod_of(mask, step)

    def write(self, num_tokens):
        needed = needed_pages(self.mask, self.step, num_tokens)
        groups, pages = needed.shape
        order = (~needed).byte().sort(dim=1, stable=True).indices
        held = torch.arange(pages, device=needed.device) < needed.sum(1)[:, None]
        self.indices[:groups, :-1].copy_(torch.where(held, order, -1))
        self.counts[:groups].copy_(needed.sum(1))


class LayerMasks:
    def __init__(self, masks, step):
        self.lists = {mask: Lists(mask, step) for mask in masks.values()}
        self.by_layer = {layer: self.lists[mask] for layer, mask in masks.items()}
        self.groups = 0

    def build(self, num_tokens):
        self.groups = num_tokens // Q_BLOCK
        for lists in self.lists.values():
            lists.write(num_tokens)

    def lists_of(self, layer):
        own = self.by_layer[layer]
        return PageLists(own.counts[: self.groups], own.indices[: self.groups], own.mask_mod)

"""Remedies for copies from the host to the device."""

from .remedy import TO_THE_HOST, UPLOADS, Remedy, UploadRemedy

INDEX_OF_THE_FORWARD_PASS = (
    "make the index of the forward pass on the device (torch.arange(n, device=x.device)), or "
    "upload it once: the gradient of x[index] uploads an index of the host again"
)
COPIES = r"(to|cuda|copy_|_to_copy|type|float|half|double|long|int|bool)\b.*"
"""A pattern for calls that copy between host and device."""
PINNED = "pin the source (pin_memory(), DataLoader(pin_memory=True))"

OF_UPLOADS = (
    Remedy(
        "self.register_buffer(name, tensor, persistent=False) in __init__: it moves with the "
        "module, and the call in forward copies nothing",
        (*UPLOADS, "pinned_upload"),
        call=COPIES,
        reads=r"\bself\.\w+\.(to|cuda|type_as)\(",
        form="in forward",
    ),
    UploadRemedy(
        INDEX_OF_THE_FORWARD_PASS,
        call=r"_?index_put_?(_impl_)?",
    ),
    Remedy(INDEX_OF_THE_FORWARD_PASS, UPLOADS, reads=r"\bbackward\(|\bautograd\.grad\("),
    Remedy(
        "torch.stack([...]): it puts the values together on the device",
        (*UPLOADS, *TO_THE_HOST),
        call=r"(tensor|as_tensor|asarray|new_tensor)\(list of tensors\)",
    ),
    UploadRemedy(
        "torch.full((), value, device=device): the number goes along with the launch",
        call=r"(tensor|as_tensor|asarray)\(number\)",
    ),
    Remedy(
        "make the tensor once, before the loop: its values never change (a module keeps it by "
        "register_buffer)",
        (*UPLOADS, "pinned_upload"),
        call=r"(tensor|as_tensor|asarray|new_tensor)\b.*",
        form="literal",
        of_steps=True,
    ),
    Remedy(
        "make the tensor once, before the loop: its values never change (a module keeps it by "
        "register_buffer)",
        (*UPLOADS, "pinned_upload"),
        call=COPIES,
        form="moves literal",
        of_steps=True,
    ),
    UploadRemedy(
        "x.new_full((), value): the number goes along with the launch",
        call=r"new_tensor\(number\)",
    ),
    UploadRemedy(
        "torch.tensor(values, pin_memory=True).to(x.device, non_blocking=True)",
        call=r"new_tensor\b.*",
    ),
    UploadRemedy(
        "upload the array once, before the loop, if it never changes; else "
        "torch.from_numpy(array).pin_memory().to(device, non_blocking=True)",
        call=r"(tensor|as_tensor|asarray)\(array\)",
        of_steps=True,
    ),
    UploadRemedy(
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        call=r"(tensor|as_tensor|asarray)\b.*",
        of_steps=True,
    ),
    # Indices and values that come from the host.
    Remedy(
        "upload the mask once, from pinned memory without blocking, and use it on the device",
        (*UPLOADS, *TO_THE_HOST),
        call=r"__[gs]etitem__\(.*mask on the host.*",
    ),
    UploadRemedy(
        "upload the index once: index = torch.from_numpy(index).to(device) before the loop, or "
        "pinned and with non_blocking=True where it changes",
        call=r"__[gs]etitem__\(.*\barray\b.*",
    ),
    UploadRemedy(
        "upload the index once: index = torch.tensor(index, device=device) before the loop, or "
        "pinned and with non_blocking=True where it changes",
        call=r"__[gs]etitem__\((.*, )?list\b.*",
    ),
    UploadRemedy(
        "make the index on the device: torch.{made}(..., device=x.device)",
        call=r"__[gs]etitem__\(.*index on the host.*",
        reads=r"\[[^\]]*\btorch\.(?P<made>arange|randperm|randint|zeros|ones|linspace)\(",
    ),
    UploadRemedy(
        "upload the index once, from pinned memory with non_blocking=True, and index with that",
        call=r"__[gs]etitem__\(.*index on the host.*",
    ),
    UploadRemedy(
        "x.index_put_((i, j), x.new_full((), value)): the number is made on the device",
        call=r"__setitem__\(.*\b(index|position on the device)\b.*number.*",
        form="many indices",
    ),
    UploadRemedy(
        "x.index_fill_(0, index, value): the number goes along with the launch",
        call=r"__setitem__\(.*\bindex\b.*number.*",
    ),
    UploadRemedy(
        "x[...].fill_(value): the number goes along with the launch",
        call=r"__setitem__\(.*number.*",
    ),
    UploadRemedy(
        "x[...].copy_(value, non_blocking=True), with the value in pinned memory",
        call=r"__setitem__\(.*value on the host.*",
    ),
    UploadRemedy(
        "write a Python number instead of a tensor on the CPU: it goes along with the launch",
        call=r"(?!to\b|cuda\b)\w+\(.*number on the host.*",
    ),
    UploadRemedy(
        "torch.full((), number, device=device): a number goes along with the launch",
        call=r"(to|cuda)\(.*number on the host.*",
    ),
    UploadRemedy(
        "make the other tensor on the device, or upload it once from pinned memory",
        call=r"(?!to\b|cuda\b)\w+\(.*value on the host.*",
    ),
    # Copies.
    Remedy(
        "convert on the device: source.to(device, non_blocking=True).to(dtype); converting before "
        "the upload takes new pageable memory",
        ("staged_upload",),
        call=r"\w+\(pinned(, holes)?, another dtype\)",
    ),
    Remedy(
        "make it contiguous in pinned memory (a pinned buffer of that shape, filled by copy_), or "
        "upload all of it and slice on the device: a copy of memory with holes goes through "
        "pageable memory",
        (*UPLOADS, "pinned_upload"),
        call=r"\w+\(.*pinned, holes.*",
    ),
    Remedy(
        "make it on the device: give the factory device=device instead of moving its result",
        (*UPLOADS, "pinned_upload"),
        call=COPIES,
        form="moves factory",
    ),
    UploadRemedy(
        "upload the array once, before the loop, if it never changes; else "
        "torch.from_numpy(array).pin_memory().to(device, non_blocking=True)",
        call=COPIES,
        form="moves array",
        of_steps=True,
    ),
    UploadRemedy(
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        call=COPIES,
        form="moves values",
        of_steps=True,
    ),
    UploadRemedy(
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        reads=r"\btorch\.cuda\.\w+Tensor\(",
    ),
    Remedy(
        PINNED + ": without that non_blocking=True doesn't help",
        ("staged_upload",),
        call=r"(to|cuda|copy_|type|float|half)\b.*",
        of_steps=True,
    ),
    UploadRemedy(
        PINNED + ", and add non_blocking=True; what never changes, move once before the loop",
        call=r"(to|cuda|type|float|half)\b.*",
        of_steps=True,
    ),
    UploadRemedy(
        "x.copy_(pinned, non_blocking=True) from pinned memory that you fill before",
        call=r"copy_\b.*",
        of_steps=True,
    ),
    UploadRemedy(
        "fill pinned, contiguous memory, and copy it with non_blocking=True",
        call=COPIES,
        of_steps=True,
    ),
    Remedy(
        "add non_blocking=True, record an event after the copy, and let the stream that uses the "
        "tensor wait for the event: a worker that waits is late with the next tensor",
        ("pinned_upload",),
        in_thread=True,
    ),
    Remedy(
        'torch.tensor(..., device="cpu", pin_memory=True).to(device, non_blocking=True): with a '
        "default device of CUDA torch.tensor uploads by itself, and waits",
        ("pinned_upload",),
        reads=r"pin_memory=True.*non_blocking=True",
    ),
    Remedy("add non_blocking=True: the memory is pinned already", ("pinned_upload",)),
)

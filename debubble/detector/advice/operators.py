"""Remedies for operators that wait for values or sizes."""

from __future__ import annotations

from ...timeline.holds import HoldKind
from .remedy import TO_THE_HOST, UPLOADS, Remedy

COUNTS: tuple[HoldKind, ...] = ("value", "download", "stream")
"""The kinds of waits of operators whose result has a size that the host has to know."""

OF_OPERATORS = (
    Remedy(
        "pass the length: repeat_interleave(..., output_size=n)",
        call=r"repeat_interleave",
    ),
    Remedy("pass the number of classes: one_hot(x, num_classes=n)", TO_THE_HOST, call=r"one_hot"),
    Remedy(
        "loop over all of them and mask, or torch.nonzero_static(mask, size=n) with a number that "
        "the host knows",
        call=r"nonzero|argwhere|where",
        form="for",
    ),
    Remedy(
        "stay with the mask (torch.where(mask, a, b)), or torch.nonzero_static(mask, size=n) with "
        "a number that the host knows",
        call=r"nonzero|argwhere|where",
    ),
    Remedy(
        "torch.where(mask, x, fill), or multiply by the mask: the size of the selection is read on "
        "the host",
        call=r"masked_select",
    ),
    Remedy(
        "torch.zeros(n, device=device).scatter_add_(0, ids, ones) with a number n of bins that the "
        "host knows",
        call=r"bincount",
    ),
    Remedy("pass the range: torch.histc(x, bins, min=low, max=high)", TO_THE_HOST, call=r"histc"),
    Remedy(
        "to count them for a log, torch.zeros(n, device=device).index_fill_(0, ids.flatten(), 1)"
        ".sum() of n possible values, every n steps; else sort and compare neighbours, which keeps "
        "the size, or find them on the host, if it made them",
        COUNTS,
        call=r"unique",
        reads=r"\bunique\((?!.*\bdim\b)",
    ),
    Remedy(
        "find the unique values on the host, if it made them, or sort and compare neighbours: that "
        "keeps the size",
        COUNTS,
        call=r"unique(_consecutive|_dim)?",
    ),
    Remedy(
        "torch.isclose(a, b, rtol=..., atol=...).all() stays on the device; read it later, or put "
        "the check into `with debubble.allow_host_sync():`",
        call=r"allclose",
    ),
    Remedy(
        "(a == b).all() stays on the device; read it later, or put the check into "
        "`with debubble.allow_host_sync():`",
        call=r"equal",
    ),
    Remedy(
        "print x.cpu(), which waits once: a printed tensor of the device is read part by part",
        call=r"__repr__|__str__",
        form="top level",
    ),
    Remedy("(x == value).any() stays on the device", TO_THE_HOST, call=r"__contains__"),
    Remedy(
        "torch.randn(shape, device=device) * std + mean: torch.normal reads std to check it",
        call=r"normal_?",
    ),
    Remedy(
        "torch.linalg.{call}_ex(..., check_errors=False): the form without _ex reads whether it "
        "failed",
        call=r"inv|linalg_inv|solve|linalg_solve|cholesky|linalg_cholesky|lu_factor|ldl_factor",
    ),
    Remedy(
        "torch.linalg.inv_ex(x): torch.inverse reads whether it failed",
        call=r"inverse",
    ),
    # Indexing.
    Remedy(
        "torch.where(mask, changed, x): the size of x[mask] is read on the host",
        call=r"__[gs]etitem__\(.*\bmask\b.*",
        form="augmented",
    ),
    Remedy(
        "torch.where(mask, value, x), or x.masked_scatter_(mask, values): the size of x[mask] is "
        "read on the host",
        call=r"__setitem__\(.*\bmask\b.*",
    ),
    Remedy(
        "torch.where(mask, value, x): the size of x[mask] is read on the host",
        call=r"__getitem__\(.*\bmask\b.*",
        reads=r"^\w[\w.]*\[.*?\] = ",
    ),
    Remedy(
        "(x * mask).sum() / mask.sum(): the size of x[mask] is read on the host",
        call=r"__getitem__\(.*\bmask\b.*",
        reads=r"\]\.(float\(\)\.)?(mean|sum)\(",
    ),
    Remedy(
        "torch.where(mask, x, fill), or multiply by the mask: the size of x[mask] is read on the "
        "host",
        call=r"__getitem__\(.*\bmask\b.*",
    ),
    Remedy(
        "c.index_put_((i, j), one, accumulate=True), with `one` made on the device before the loop",
        (*TO_THE_HOST, *UPLOADS),
        call=r"__[gs]etitem__\(.*position on the device.*",
        form="augmented",
    ),
    Remedy(
        "x.index_copy_(0, position.view(1), value[None]), or index_fill_ for a number: a tensor "
        "without dimensions is read on the host",
        call=r"__setitem__\(.*position on the device.*",
    ),
    Remedy(
        "x.index_select(0, position.view(1)): a tensor without dimensions is read on the host",
        call=r"__getitem__\(.*position on the device.*",
    ),
    Remedy(
        "x[torch.stack(positions)]: the list's tensors are read one by one",
        call=r"__[gs]etitem__\(.*list of positions.*",
    ),
    Remedy(
        "know the bound on the host, or keep the full length and mask: torch.arange(length) < n; "
        "index_select takes positions from the device",
        call=r"__[gs]etitem__\(.*bound on the device.*",
    ),
    Remedy(
        "know the number on the host, or make the largest size and mask the rest",
        call=r"\w+\(bound on the device\)",
    ),
    Remedy(
        "x.to(torch.bool), or .to(the type): `.type(torch.BoolTensor)` brings it to the host",
        (*TO_THE_HOST, "pageable_download"),
        call=r"type\b.*",
        reads=r"Tensor\b",
    ),
)

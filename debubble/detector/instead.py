"""Finds advice for a call that makes the host wait, by the call and the text of its statement."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ..contract.source_line import SourceLine
from ..timeline.holds import HoldKind
from .statements import Statement, statement_at


class Remedy(NamedTuple):
    """Advice for the holds that match all fields that are set. The strings other than `instead` and
    `form` are regular expressions."""

    instead: str
    """The advice, which may contain {call} and named groups of `reads`."""
    kinds: tuple[HoldKind, ...]
    call: str = ""
    """A pattern for PyTorch's whole call, as `rules.calls.describe` names it."""
    operator: str = ""
    """A pattern for the ATen operator's whole name."""
    inside: str = ""
    """A pattern to find in the last two lines of PyTorch or a library: `file:line: text`."""
    through: str = ""
    """A pattern to find in any line of a library between the caller's and the one that waits."""
    reads: str = ""
    """A pattern to find in the statement's text."""
    form: str = ""
    """One of the statement's forms, as listed in `statements.Statement`."""
    in_thread: bool = False
    """True if it applies only to threads other than the one that recorded."""
    of_steps: bool = False
    """True if it only helps a call that waits in each step. A call that waits once may wait."""


Apart = Literal["setup", "after", "once"] | None
"""The reason why a finding is none of the steps': set-up, after the last step, or seen once."""
UPLOADS: tuple[HoldKind, ...] = ("pageable_upload", "staged_upload")
TO_THE_HOST: tuple[HoldKind, ...] = ("value", "download")
COUNTS: tuple[HoldKind, ...] = ("value", "download", "stream")
"""The kinds of waits of operators whose result has a size that the host has to know."""
NUMBERS = r"item|__(int|float|index|bool|complex|format)__|tolist|_local_scalar_dense"
BRINGS = rf"{NUMBERS}|cpu|numpy|to\b.*"
"""A pattern for calls that bring values to the host."""
COPIES = r"(to|cuda|copy_|_to_copy|type|float|half|double|long|int|bool)\b.*"
"""A pattern for calls that copy between host and device."""
SIZED = r"arange|linspace|logspace|zeros|ones|full|empty|eye|randn?|randint|randperm|tri[lu]"
KNOWN = r"len|lengths|sizes|counts|num\w*|n_\w+|seq\w*|pos\w*|ids?|idx|indices|offsets?|cu_\w+"
"""A pattern for names of values that the host has usually made itself: lengths, positions, ids."""
SAVES = (
    r"\b(state_dict\(\)|torch\.save|save_pretrained|savez?\(|pickle\.dumps?|save_file|save_model"
    r"|save_checkpoint)"
)
ACTIONS = r"\bactions?\b.*=.*\.(cpu|numpy|item|tolist)\("
ENVIRONMENT = r"\benvs?\w*\.step\("
PICTURES = (
    r"\b(imsave|imshow|save_image|make_grid|norm_ip|plt\.\w+|ToPILImage|to_pil_image|add_images?)\("
)
LOGS = (
    r"\b(print|tqdm\.write|logg?(er|ing)?(\.\w+)?|wandb\.log|mlflow\.\w+|pprint)\("
    r"|\bstr\([^)]*(item|loss|acc)|[\"'](\.format\(| % )"
    r"|\.(add_scalars?|set_postfix(_str)?|set_description(_str)?|log_metrics?|log_dict)\("
)
THIN = r"nn/functional\.py|utils/tensorboard/"
"""A pattern for files of PyTorch that only pass the caller's values on."""
ACCELERATE_MOVES = r"accelerate/utils/operations\.py:\d+: .*tensor\.to\(device"
MASKS = r"transformers/(masking_utils|modeling_attn_mask_utils)\.py"
BINCOUNT = r"torchmetrics/utilities/data\.py:\d+: .*bincount"
MOVES = r"nn/modules/module\.py:\d+: .*\bt\.(to|cuda)\("
INDEX_OF_THE_FORWARD_PASS = (
    "make the index of the forward pass on the device (torch.arange(n, device=x.device)), or "
    "upload it once: the gradient of x[index] uploads an index of the host again"
)
COLLECTS = r"\.(append|extend)\(|\+= \["

SETUP = (
    "it is set-up and costs no step: leave it as it is, or put it into "
    "`with debubble.allow_host_sync():`"
)
AFTER = (
    "it comes after the last step and costs no step: leave it as it is, or put it into "
    "`with debubble.allow_host_sync():`"
)
ONCE = (
    "it comes once in this run and costs no step: leave it as it is, or put it into "
    "`with debubble.allow_host_sync():`"
)
OF_NO_STEP: dict[str, str] = {"setup": SETUP, "after": AFTER, "once": ONCE}
"""The advice for a call that belongs to no step, by the reason."""
LEAVE = "leave it: "
MEANT = "put it into `with debubble.allow_host_sync():` if it is meant: "
UNKNOWN = (
    "{what} waits each time, and no option against it is known here: call it more rarely, with "
    "several batches at once, or put the call into `with debubble.allow_host_sync():`"
)
LATER = "copy into pinned memory with non_blocking=True, record an event, and read it a step later"
PINNED = "pin the source (pin_memory(), DataLoader(pin_memory=True))"

OF_SETUP = (
    Remedy(
        "save more rarely (ModelCheckpoint(every_n_epochs=n)): what is saved has to come to the "
        "host",
        (*TO_THE_HOST, "pageable_download"),
        through=r"lightning/.*save_checkpoint",
    ),
    Remedy(
        LEAVE + "the trainer moves the module once, before its steps",
        (*UPLOADS, "pinned_upload"),
        inside=MOVES,
        through=r"lightning/|transformers/trainer|accelerate/",
    ),
    Remedy(
        MEANT + "a benchmark waits for what it measures",
        (*TO_THE_HOST, "device", "stream", "event"),
        reads=r"\bdo_bench\w*\(|\b(blocked_autorange|adaptive_autorange)\(",
    ),
    Remedy(
        "move the module once, before the steps: a move before them costs no step",
        (*UPLOADS, "pinned_upload"),
        of_steps=True,
        inside=MOVES,
    ),
    Remedy(
        MEANT + "what is saved has to come to the host; save rarely",
        (*TO_THE_HOST, "pageable_download"),
        reads=SAVES,
    ),
    Remedy(
        "load the weights once, before the steps; " + MEANT + "loading waits",
        (*UPLOADS, *TO_THE_HOST, "pageable_download", "pinned_upload"),
        inside=r"param\.copy_\(input_param\)|torch/serialization\.py|load_state_dict",
    ),
    Remedy(
        MEANT + "saved tensors have to come to the host; save rarely",
        (*TO_THE_HOST, "pageable_download"),
        inside=r"safetensors/",
    ),
    Remedy(
        "load once, outside of the steps; " + MEANT + "loading waits",
        UPLOADS,
        reads=r"\b(torch\.load|load_file|load_state_dict|from_pretrained)\(",
    ),
)

INSIDE_PYTORCH = (
    Remedy(
        "value_range=(low, high): normalize=True reads the least and the largest value without it",
        TO_THE_HOST,
        inside=r"torchvision/utils\.py:\d+: .*(min|max|norm_)",
    ),
    Remedy(
        "generate() does it once a call: leave it, or generate for several prompts at once",
        (*TO_THE_HOST, *UPLOADS),
        through=r"transformers/generation/utils\.py:\d+: .*(special|eos_token|pad_token|padding)"
        r"|masking_utils\.py:\d+: .*\[:, :q_length\]",
    ),
    Remedy(
        "generate for several prompts at once, or leave it: generate() reads after each token "
        "whether it may stop",
        TO_THE_HOST,
        through=r"transformers/generation/.*(stopping_criteria|unfinished_sequences)",
    ),
    Remedy(
        "leave it, or write the sampling loop yourself: the U-Net gets timesteps that were moved "
        "once, the scheduler those of the host",
        UPLOADS,
        inside=r"diffusers/.*\btimesteps?\b",
    ),
    Remedy(
        LEAVE + "Lightning moves everything to the host once, when it ends",
        (*TO_THE_HOST, "pageable_download"),
        through=r"lightning/.*teardown\(",
    ),
    Remedy(
        "self.log(..., prog_bar=False): what the progress bar shows has to come to the host",
        TO_THE_HOST,
        through=r"lightning/.*pbar",
    ),
    Remedy(
        "Trainer(log_every_n_steps=n, check_val_every_n_epoch=m), or logger=False: a logger gets "
        "numbers of the host",
        TO_THE_HOST,
        through=r"lightning/.*\blog_metrics\(",
    ),
    Remedy(
        "DataLoader(..., pin_memory=True): Lightning copies with non_blocking=True already",
        UPLOADS,
        through=r"lightning/.*batch_to_device",
    ),
    Remedy(
        LEAVE + "Lightning moves the sum of a logged name when that name is logged first",
        UPLOADS,
        through=r"lightning/.*logger_connector",
    ),
    Remedy(
        LEAVE + "DistributedDataParallel does it when it starts, and not in each step",
        (*UPLOADS, *TO_THE_HOST),
        inside=r"torch/(nn/parallel/distributed|distributed/utils)\.py",
    ),
    Remedy(
        "pass is_causal=True along with a causal mask, or is_causal=False: then PyTorch does not "
        "compare the mask with a causal one",
        TO_THE_HOST,
        inside=r"nn/modules/transformer\.py:\d+: make_causal",
    ),
    Remedy(
        "nn.TransformerEncoder(..., enable_nested_tensor=False): then the padding mask is not read",
        TO_THE_HOST,
        inside=r"nn/modules/transformer\.py:\d+: .*nested",
    ),
    Remedy(
        "pass validate_args=False: the checks of the parameters and of the values read the device",
        TO_THE_HOST,
        inside=r"torch/distributions/(?!.*(_rejection|von_mises|\.all\(\): break))",
    ),
    Remedy(
        "keep the optimizer's step counters on the host (don't move its state), or pass "
        "capturable=True",
        TO_THE_HOST,
        inside=r"torch/optim/\w+\.py:\d+: .*(_get_value|step|\.item\(\))|"
        r"torch/optim/optimizer\.py:\d+: ",
    ),
    Remedy(
        "use a fused optimizer (torch.optim.AdamW(..., fused=True)), which looks at found_inf on "
        "the device, or bfloat16, which needs no scaler",
        TO_THE_HOST,
        inside=r"torch/amp/grad_scaler\.py",
    ),
    Remedy(
        "leave out error_if_nonfinite, and look at the norm some steps later",
        TO_THE_HOST,
        inside=r"nn/utils/clip_grad\.py",
    ),
    Remedy(
        "sort the sequences by length on the host, and pass enforce_sorted=True: then no order is "
        "uploaded or read back",
        (*TO_THE_HOST, *UPLOADS),
        inside=r"nn/utils/rnn\.py:\d+: .*sorted_indices",
    ),
    Remedy(
        "pass the lengths as a tensor on the host, where packing needs them",
        (*TO_THE_HOST, "pageable_download"),
        inside=r"nn/utils/rnn\.py",
    ),
    Remedy(
        MEANT + "a comparison in a test reads its result",
        TO_THE_HOST,
        inside=r"torch/testing/",
    ),
    Remedy(
        "metric.cpu().compute() brings the rows over once, and update() takes several batches at "
        "once: a retrieval metric reads the device for each check and each query",
        (*TO_THE_HOST, *UPLOADS),
        inside=r"torchmetrics/retrieval/|_retrieval",
    ),
    Remedy(
        "pass validate_args=False to the metric: its checks of the inputs read the device",
        TO_THE_HOST,
        through=r"torchmetrics/.*(_validation\(|_validate)|torchmetrics/utilities/checks\.py",
    ),
    Remedy(
        "thresholds=n: with bins a curve's size is known, and no value is read for each class",
        TO_THE_HOST,
        inside=r"torchmetrics/functional/classification/(roc|precision_recall|auroc|average_).*"
        r"(\[-1\]|unique|cumsum|\[mask|isnan)",
    ),
    Remedy(
        "compute() rarely, with thresholds=n for a curve: it counts by bincount, which reads the "
        "largest value",
        TO_THE_HOST,
        inside=BINCOUNT,
        through=r"torchmetrics/.*\bcompute\(",
        of_steps=True,
    ),
    Remedy(
        "keep the predictions and labels on the device, and update() once with all of them: "
        "each update counts by bincount, which reads the largest value",
        TO_THE_HOST,
        inside=BINCOUNT,
    ),
    Remedy(
        "update() with several batches at once: the metric uploads a number or a list each time",
        UPLOADS,
        inside=r"torchmetrics/",
    ),
    Remedy(
        "TrainingArguments(logging_nan_inf_filter=False): the filter reads the loss in each step",
        TO_THE_HOST,
        inside=r"transformers/trainer\.py:\d+: (.*is(nan|inf)|if \($)",
    ),
    Remedy(
        LEAVE + "the trainer reads the last losses once, when it ends",
        TO_THE_HOST,
        through=r"transformers/trainer\.py:\d+: .*_finalize_training\(",
    ),
    Remedy(
        "log more rarely: TrainingArguments(logging_steps=n)",
        TO_THE_HOST,
        inside=r"transformers/trainer\.py:\d+: .*(nested_gather|\.item\(\))",
    ),
    Remedy(
        'generate(..., cache_implementation="static"), with which only the prompt\'s step reads '
        "whether the padding mask masks anything",
        TO_THE_HOST,
        inside=MASKS,
        through=r"transformers/generation/",
        of_steps=True,
    ),
    Remedy(
        "give the model a mask of 4 dimensions: of a padding mask SDPA's preparation reads whether "
        "it masks anything",
        TO_THE_HOST,
        inside=MASKS,
    ),
    Remedy(
        'TrainingArguments(accelerator_config={"non_blocking": True}), with '
        "dataloader_pin_memory=True (the default)",
        (*UPLOADS, "pinned_upload"),
        inside=ACCELERATE_MOVES,
        through=r"transformers/",
    ),
    Remedy(
        "print x.cpu(), which waits once: a printed tensor of the device is read part by part",
        TO_THE_HOST,
        call=r"__repr__|__str__",
        inside=r"accelerate/.*\bprint\(",
    ),
    Remedy(
        "DataLoader(..., pin_memory=True), together with "
        "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking=True))",
        (*UPLOADS, "pinned_upload"),
        inside=ACCELERATE_MOVES,
    ),
    Remedy(
        "evaluate more rarely (eval_steps=n): it comes once an evaluation",
        (*TO_THE_HOST, "pageable_download"),
        through=r"transformers/trainer.*nested_numpify",
    ),
    Remedy(
        "evaluate more rarely (eval_steps=n) or in larger batches: to gather what the ranks have, "
        "its shapes are read",
        TO_THE_HOST,
        inside=r"accelerate/utils/operations\.py",
    ),
)

OF_UPLOADS = (
    Remedy(
        "self.register_buffer(name, tensor, persistent=False) in __init__: it moves with the "
        "module, and the call in forward copies nothing",
        (*UPLOADS, "pinned_upload"),
        call=COPIES,
        reads=r"\bself\.\w+\.(to|cuda|type_as)\(",
        form="in forward",
    ),
    Remedy(
        INDEX_OF_THE_FORWARD_PASS,
        UPLOADS,
        call=r"_?index_put_?(_impl_)?",
    ),
    Remedy(INDEX_OF_THE_FORWARD_PASS, UPLOADS, reads=r"\bbackward\(|\bautograd\.grad\("),
    Remedy(
        "torch.stack([...]): it puts the values together on the device",
        (*UPLOADS, *TO_THE_HOST),
        call=r"(tensor|as_tensor|asarray|new_tensor)\(list of tensors\)",
    ),
    Remedy(
        "torch.full((), value, device=device): the number goes along with the launch",
        UPLOADS,
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
    Remedy(
        "x.new_full((), value): the number goes along with the launch",
        UPLOADS,
        call=r"new_tensor\(number\)",
    ),
    Remedy(
        "torch.tensor(values, pin_memory=True).to(x.device, non_blocking=True)",
        UPLOADS,
        call=r"new_tensor\b.*",
    ),
    Remedy(
        "upload the array once, before the loop, if it never changes; else "
        "torch.from_numpy(array).pin_memory().to(device, non_blocking=True)",
        UPLOADS,
        call=r"(tensor|as_tensor|asarray)\(array\)",
        of_steps=True,
    ),
    Remedy(
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        UPLOADS,
        call=r"(tensor|as_tensor|asarray)\b.*",
        of_steps=True,
    ),
    # Indices and values that come from the host.
    Remedy(
        "upload the mask once, from pinned memory without blocking, and use it on the device",
        (*UPLOADS, *TO_THE_HOST),
        call=r"__[gs]etitem__\(.*mask on the host.*",
    ),
    Remedy(
        "upload the index once: index = torch.from_numpy(index).to(device) before the loop, or "
        "pinned and with non_blocking=True where it changes",
        UPLOADS,
        call=r"__[gs]etitem__\(.*\barray\b.*",
    ),
    Remedy(
        "upload the index once: index = torch.tensor(index, device=device) before the loop, or "
        "pinned and with non_blocking=True where it changes",
        UPLOADS,
        call=r"__[gs]etitem__\((.*, )?list\b.*",
    ),
    Remedy(
        "make the index on the device: torch.{made}(..., device=x.device)",
        UPLOADS,
        call=r"__[gs]etitem__\(.*index on the host.*",
        reads=r"\[[^\]]*\btorch\.(?P<made>arange|randperm|randint|zeros|ones|linspace)\(",
    ),
    Remedy(
        "upload the index once, from pinned memory with non_blocking=True, and index with that",
        UPLOADS,
        call=r"__[gs]etitem__\(.*index on the host.*",
    ),
    Remedy(
        "x.index_put_((i, j), x.new_full((), value)): the number is made on the device",
        UPLOADS,
        call=r"__setitem__\(.*\b(index|position on the device)\b.*number.*",
        form="many indices",
    ),
    Remedy(
        "x.index_fill_(0, index, value): the number goes along with the launch",
        UPLOADS,
        call=r"__setitem__\(.*\bindex\b.*number.*",
    ),
    Remedy(
        "x[...].fill_(value): the number goes along with the launch",
        UPLOADS,
        call=r"__setitem__\(.*number.*",
    ),
    Remedy(
        "x[...].copy_(value, non_blocking=True), with the value in pinned memory",
        UPLOADS,
        call=r"__setitem__\(.*value on the host.*",
    ),
    Remedy(
        "write a Python number instead of a tensor on the CPU: it goes along with the launch",
        UPLOADS,
        call=r"(?!to\b|cuda\b)\w+\(.*number on the host.*",
    ),
    Remedy(
        "torch.full((), number, device=device): a number goes along with the launch",
        UPLOADS,
        call=r"(to|cuda)\(.*number on the host.*",
    ),
    Remedy(
        "make the other tensor on the device, or upload it once from pinned memory",
        UPLOADS,
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
    Remedy(
        "upload the array once, before the loop, if it never changes; else "
        "torch.from_numpy(array).pin_memory().to(device, non_blocking=True)",
        UPLOADS,
        call=COPIES,
        form="moves array",
        of_steps=True,
    ),
    Remedy(
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        UPLOADS,
        call=COPIES,
        form="moves values",
        of_steps=True,
    ),
    Remedy(
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
        UPLOADS,
        reads=r"\btorch\.cuda\.\w+Tensor\(",
    ),
    Remedy(
        PINNED + ": without that non_blocking=True doesn't help",
        ("staged_upload",),
        call=r"(to|cuda|copy_|type|float|half)\b.*",
        of_steps=True,
    ),
    Remedy(
        PINNED + ", and add non_blocking=True; what never changes, move once before the loop",
        UPLOADS,
        call=r"(to|cuda|type|float|half)\b.*",
        of_steps=True,
    ),
    Remedy(
        "x.copy_(pinned, non_blocking=True) from pinned memory that you fill before",
        UPLOADS,
        call=r"copy_\b.*",
        of_steps=True,
    ),
    Remedy(
        "fill pinned, contiguous memory, and copy it with non_blocking=True",
        UPLOADS,
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

OF_OPERATORS = (
    Remedy(
        "pass the length: repeat_interleave(..., output_size=n)",
        TO_THE_HOST,
        call=r"repeat_interleave",
    ),
    Remedy("pass the number of classes: one_hot(x, num_classes=n)", TO_THE_HOST, call=r"one_hot"),
    Remedy(
        "loop over all of them and mask, or torch.nonzero_static(mask, size=n) with a number that "
        "the host knows",
        TO_THE_HOST,
        call=r"nonzero|argwhere|where",
        form="for",
    ),
    Remedy(
        "stay with the mask (torch.where(mask, a, b)), or torch.nonzero_static(mask, size=n) with "
        "a number that the host knows",
        TO_THE_HOST,
        call=r"nonzero|argwhere|where",
    ),
    Remedy(
        "torch.where(mask, x, fill), or multiply by the mask: the size of the selection is read on "
        "the host",
        TO_THE_HOST,
        call=r"masked_select",
    ),
    Remedy(
        "torch.zeros(n, device=device).scatter_add_(0, ids, ones) with a number n of bins that the "
        "host knows",
        TO_THE_HOST,
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
        TO_THE_HOST,
        call=r"allclose",
    ),
    Remedy(
        "(a == b).all() stays on the device; read it later, or put the check into "
        "`with debubble.allow_host_sync():`",
        TO_THE_HOST,
        call=r"equal",
    ),
    Remedy(
        "print x.cpu(), which waits once: a printed tensor of the device is read part by part",
        TO_THE_HOST,
        call=r"__repr__|__str__",
        form="top level",
    ),
    Remedy("(x == value).any() stays on the device", TO_THE_HOST, call=r"__contains__"),
    Remedy(
        "torch.randn(shape, device=device) * std + mean: torch.normal reads std to check it",
        TO_THE_HOST,
        call=r"normal_?",
    ),
    Remedy(
        "torch.linalg.{call}_ex(..., check_errors=False): the form without _ex reads whether it "
        "failed",
        TO_THE_HOST,
        call=r"inv|linalg_inv|solve|linalg_solve|cholesky|linalg_cholesky|lu_factor|ldl_factor",
    ),
    Remedy(
        "torch.linalg.inv_ex(x): torch.inverse reads whether it failed",
        TO_THE_HOST,
        call=r"inverse",
    ),
    # Indexing.
    Remedy(
        "torch.where(mask, changed, x): the size of x[mask] is read on the host",
        TO_THE_HOST,
        call=r"__[gs]etitem__\(.*\bmask\b.*",
        form="augmented",
    ),
    Remedy(
        "torch.where(mask, value, x), or x.masked_scatter_(mask, values): the size of x[mask] is "
        "read on the host",
        TO_THE_HOST,
        call=r"__setitem__\(.*\bmask\b.*",
    ),
    Remedy(
        "torch.where(mask, value, x): the size of x[mask] is read on the host",
        TO_THE_HOST,
        call=r"__getitem__\(.*\bmask\b.*",
        reads=r"^\w[\w.]*\[.*?\] = ",
    ),
    Remedy(
        "(x * mask).sum() / mask.sum(): the size of x[mask] is read on the host",
        TO_THE_HOST,
        call=r"__getitem__\(.*\bmask\b.*",
        reads=r"\]\.(float\(\)\.)?(mean|sum)\(",
    ),
    Remedy(
        "torch.where(mask, x, fill), or multiply by the mask: the size of x[mask] is read on the "
        "host",
        TO_THE_HOST,
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
        TO_THE_HOST,
        call=r"__setitem__\(.*position on the device.*",
    ),
    Remedy(
        "x.index_select(0, position.view(1)): a tensor without dimensions is read on the host",
        TO_THE_HOST,
        call=r"__getitem__\(.*position on the device.*",
    ),
    Remedy(
        "x[torch.stack(positions)]: the list's tensors are read one by one",
        TO_THE_HOST,
        call=r"__[gs]etitem__\(.*list of positions.*",
    ),
    Remedy(
        "know the bound on the host, or keep the full length and mask: torch.arange(length) < n; "
        "index_select takes positions from the device",
        TO_THE_HOST,
        call=r"__[gs]etitem__\(.*bound on the device.*",
    ),
    Remedy(
        "know the number on the host, or make the largest size and mask the rest",
        TO_THE_HOST,
        call=r"\w+\(bound on the device\)",
    ),
    Remedy(
        "x.to(torch.bool), or .to(the type): `.type(torch.BoolTensor)` brings it to the host",
        (*TO_THE_HOST, "pageable_download"),
        call=r"type\b.*",
        reads=r"Tensor\b",
    ),
)

BY_THE_TEXT = (
    Remedy(
        "it is read every few steps only: raise that number, or leave it",
        TO_THE_HOST,
        call=rf"{BRINGS}|__repr__|__str__|__format__",
        form="every n",
    ),
    Remedy(
        "torch.maximum(a, b), or x.max(): Python's own max, min and sorted read each comparison",
        TO_THE_HOST,
        call=r"__bool__",
        reads=r"(?<![.\w])(max|min|sorted)\(",
    ),
    Remedy(
        "torch.maximum(a, b), or x.max(): Python's own max, min and sorted read each comparison",
        TO_THE_HOST,
        call=r"__(lt|gt|le|ge)__",
    ),
    Remedy(
        MEANT + "a test has to read what it checks",
        TO_THE_HOST,
        reads=r"^assert\b",
        form="in a test",
    ),
    Remedy(
        "torch._assert_async(condition) checks on the device; or check outside of the steps",
        TO_THE_HOST,
        call=NUMBERS,
        form="assert",
    ),
    Remedy(
        "run a fixed number of iterations with finished rows masked, or read the condition of the "
        "iteration before, from a pinned copy and after an event",
        TO_THE_HOST,
        call=NUMBERS,
        form="while",
    ),
    Remedy(
        "torch.where(condition, a, b)",
        TO_THE_HOST,
        call=r"__bool__",
        form="conditional",
    ),
    Remedy(
        "keep the flag on the device (torch.where(finite, x, 0)), and read it some steps later, "
        "from a pinned copy and after an event",
        TO_THE_HOST,
        call=NUMBERS,
        form="if",
        reads=r"isnan|isinf|isfinite|nan|finite",
    ),
    Remedy(
        "keep a flag of what is finished on the device, and read the flag of the step before, from "
        "a pinned copy and after an event; drop the extra step",
        TO_THE_HOST,
        call=NUMBERS,
        form="if",
        reads=r"\beos|eos_|\bstop|finished|\bdone\b|end_id|eot",
    ),
    Remedy(
        "keep the flag as a Python attribute as well, and test that: it changes once",
        TO_THE_HOST,
        call=NUMBERS,
        form="if",
        reads=r"\bself\.\w*(init|ready|started|first|built|calibrated)\w*\b(?!\()",
    ),
    Remedy(
        "torch.where(condition, a, b) or a mask on the device; if the host made the values, "
        "compare them there; to stop, read the condition of the step before, from a pinned copy "
        "and after an event",
        TO_THE_HOST,
        call=NUMBERS,
        form="if",
    ),
    Remedy(
        "leave out bool(), `not`, `and` and `or`, which read the value: torch.logical_not, & and | "
        "stay on the device",
        TO_THE_HOST,
        call=r"__bool__",
    ),
    Remedy(
        "copy the actions to the host once a step, as here, and queue other work first: the "
        "environment runs on the host; " + MEANT.removesuffix(": "),
        (*TO_THE_HOST, "pageable_download"),
        reads=ENVIRONMENT,
    ),
    Remedy(
        MEANT + "an environment on the host needs the action of this step",
        (*TO_THE_HOST, "pageable_download"),
        reads=ACTIONS,
    ),
    Remedy(
        MEANT + "a picture has to come to the host; make one rarely",
        (*TO_THE_HOST, "pageable_download"),
        reads=PICTURES,
    ),
    Remedy(
        "if the host made these numbers, take their {sum} there, before they are uploaded; else "
        "work with a bound that the host knows",
        TO_THE_HOST,
        call=NUMBERS,
        reads=rf"\b({KNOWN}|\w+_({KNOWN})|\w*(lens|lengths|sizes|counts|ids|positions))"
        r"(\[[^\]]*\])?\.(?P<sum>max|amax|min|amin|sum)\(\)",
    ),
    Remedy(
        "keep x.detach() in the list, and copy all of them at once after the loop: "
        "torch.stack(values).tolist(), torch.cat(rows).cpu()",
        (*TO_THE_HOST, "pageable_download"),
        call=BRINGS,
        reads=COLLECTS,
    ),
    Remedy(
        "add it up on the device: give the meter x.detach(), and read its sum every n steps",
        TO_THE_HOST,
        call=BRINGS,
        reads=r"\.(update|add)\(",
    ),
    Remedy(
        "keep the table on the device: c.index_put_((i, j), one, accumulate=True), with `one` made "
        "there before the loop",
        TO_THE_HOST,
        call=r"item|__(int|index)__",
        form="augmented",
        reads=r"^\w+\[.*(\.item\(\)|int\().*\] \+=",
    ),
    Remedy(
        "add it up on the device (total += x.detach()), and read the sum where it is needed: after "
        "the loop, or every n steps",
        TO_THE_HOST,
        call=BRINGS,
        form="augmented",
    ),
    Remedy(
        "it is the result, which has to come to the host: leave it, or keep several results on the "
        "device and bring them over together",
        (*TO_THE_HOST, "pageable_download"),
        call=BRINGS,
        reads=r"\b(generate|predict|decode)\(",
    ),
    Remedy(
        "take whole tensors to the host once, before the loop (rows = x.tolist()), and print from "
        "those",
        TO_THE_HOST,
        call=NUMBERS,
        reads=r"\b(print|format|write)\(.*\w\[\w+\].*,.*\w\[\w+\]",
    ),
    Remedy(
        "log every n steps, and bring all numbers at once: torch.stack([a, b]).tolist()",
        TO_THE_HOST,
        call=BRINGS,
        reads=rf"({LOGS}).*(\.item\(\).*\.item\(\)|float\(.*float\()",
    ),
    Remedy(
        "log every n steps, or what a pinned copy brought some steps ago",
        TO_THE_HOST,
        call=rf"{BRINGS}|__repr__|__str__",
        reads=LOGS,
    ),
    Remedy(
        "log every n steps, or what a pinned copy brought some steps ago",
        TO_THE_HOST,
        call=r"__repr__|__str__|__format__",
    ),
    Remedy(
        "take all of them to the host once, before the loop (for y in labels.tolist()): a list or "
        "a set of Python's needs numbers of the host",
        TO_THE_HOST,
        call=NUMBERS,
        reads=r"\.(remove|index|count|discard)\(.*(\.item\(|\bint\()",
    ),
    Remedy(
        "x.tolist(), or torch.stack(values).tolist(), waits once instead of once a value; or know "
        "the numbers on the host",
        TO_THE_HOST,
        call=r"item|__(int|float|index)__",
        form="comprehension",
    ),
    Remedy(
        "torch's function of that name stays on the device: torch.exp, torch.sqrt; read the result "
        "later",
        TO_THE_HOST,
        call=r"__(float|int|index)__|item",
        reads=r"\bmath\.\w+\(",
    ),
    Remedy(
        "know the number on the host (a shape, a length that it made): a size, a range and a bound "
        "have to be Python numbers",
        TO_THE_HOST,
        call=r"__index__|__int__|item|tolist",
        reads=rf"\b(range|split|view|reshape|expand|{SIZED}|narrow|chunk|islice)\(",
    ),
    Remedy(
        "make the list a tensor on the device, and index that with the tensor: a Python list is "
        "indexed on the host",
        TO_THE_HOST,
        call=r"__index__",
        reads=r"\w\[",
    ),
    Remedy(
        "count it on the device (correct += (prediction == label).sum()), and read the sum once, "
        "after the loop",
        TO_THE_HOST,
        reads=r"\b\w*(correct|acc(uracy)?|hits?)\w*\s*[+:]?=[^=]",
    ),
    Remedy(
        "return the tensor (x.detach()), and read it where it is printed, every n steps",
        TO_THE_HOST,
        call=NUMBERS,
        form="return",
    ),
    Remedy(
        "keep it on the device (x.detach()), add it up there, and read it every n steps",
        TO_THE_HOST,
        call=rf"{NUMBERS}|cpu|numpy",
        reads=r"\b\w*(loss|metric|norm|entropy|kl|reward|error)\w*\b",
    ),
    Remedy(
        "keep the tokens on the device for the next step, and read them after the loop, or a step "
        "later from a pinned copy and after an event",
        (*TO_THE_HOST, "pageable_download"),
        call=BRINGS,
        reads=r"token|multinomial|sampled?\b|next_id|generated|output_ids",
    ),
    Remedy(
        "keep it on the device (x.detach()): operators take a tensor without dimensions as it is; "
        "for a log bring it with the other numbers every n steps: torch.stack([a, b]).tolist()",
        ("value",),
        call=NUMBERS.replace("|tolist", ""),
    ),
    Remedy(
        "keep the lengths on the host as well, where packing needs them",
        TO_THE_HOST,
        call=r"cpu|to\b.*|tolist",
        reads=r"pack_padded_sequence\(|\bpack_sequence\(",
    ),
    Remedy(
        "draw on the device (torch.multinomial(probabilities, 1)), and bring the tokens over after "
        "the loop",
        (*TO_THE_HOST, "pageable_download"),
        call=BRINGS,
        reads=r"\bexp\(\)\.(cpu|numpy)\(",
    ),
    Remedy(
        "copy all of them into pinned memory with non_blocking=True, and wait once, for an event "
        "after the last copy",
        TO_THE_HOST,
        call=r"cpu|numpy|to\b.*",
        form="comprehension",
    ),
    Remedy(
        "compute with torch on the device, and bring the result alone; or " + LATER,
        TO_THE_HOST,
        call=r"cpu|numpy|__array__",
        reads=r"numpy\(\)|\bnp\.",
    ),
    Remedy(
        LATER,
        TO_THE_HOST,
        call=r"cpu|tolist|numpy|to\b.*|copy_\b.*|__array__",
    ),
)

OTHERS = (
    Remedy(
        MEANT + "graphs are captured before the steps, and a capture waits for the device",
        ("device", "stream"),
        form="in a capture",
    ),
    Remedy(
        "make the target contiguous in pinned memory: a copy to memory with holes goes through "
        "pageable memory",
        ("pageable_download",),
        call=r"\w+\(.*pinned, holes.*",
    ),
    Remedy(
        "copy into pinned memory with non_blocking=True, record an event, and read the memory "
        "after the event",
        ("pageable_download",),
    ),
    Remedy(
        "capture before the steps: a capture always waits for the device",
        ("device", "stream"),
        reads=r"\b(cuda\.graph|make_graphed_callables|CUDAGraph|capture_begin|capture)\(",
    ),
    Remedy(
        "leave it out, or time with events: torch.cuda.Event(enable_timing=True), read later",
        ("device",),
    ),
    Remedy(
        "other.wait_stream(stream): it orders the streams without the host",
        ("stream",),
        operator="$",
    ),
    Remedy(
        LEAVE + "a barrier waits for all processes; in a step collectives are ordered on the "
        "device without it",
        ("stream",),
        inside=r"torch/distributed/distributed_c10d\.py:\d+: .*barrier",
    ),
    Remedy("event.query() to ask, event.wait() to order streams", ("event",)),
)
REMEDIES = (
    *OF_SETUP,
    *INSIDE_PYTORCH,
    *OF_UPLOADS,
    *OF_OPERATORS,
    *BY_THE_TEXT,
    *OTHERS,
)
"""All remedies. The first that matches is used."""


def may_stay(instead: str | None) -> bool:
    """Returns True if advice says that a wait is mostly meant, or that it happens once."""
    stays = OF_NO_STEP.values()
    return instead is not None and (
        MEANT in instead or instead.startswith(LEAVE) or instead in stays
    )


def is_of_libraries(remedy: Remedy) -> bool:
    """Returns True if a remedy is for lines of PyTorch or a library, and not of the caller."""
    return bool(remedy.inside or remedy.through)


def instead_of(
    kind: HoldKind,
    call: str | None,
    operator: str | None,
    source: SourceLine | None,
    apart: Apart = None,
    in_thread: bool = False,
) -> str | None:
    """Returns what to write instead, or None if no specific advice is known. `apart` says that the
    call belongs to no step, or happened once in a run of several steps. Of a library's line the
    user can't change the text, so advice by its words is left out."""
    inside = [line.in_library for line in source.inside] if source else []
    code = source.outside_pytorch if source else None
    library = code.inside[-1] if code and code.inside else None
    statement = statement_at(library or code)
    own = statement_at(code._replace(inside=())).text if library and code else ""
    # The text of PyTorch's own code says nothing about the user's, so only remedies with `inside`
    # apply to a wait in it. A wait in a thin wrapper still counts as the caller's.
    by_pytorch = bool(source and source != code) and not re.search(THIN, inside[-1])
    for remedy in REMEDIES:
        if (
            kind not in remedy.kinds
            or (by_pytorch and not is_of_libraries(remedy) and remedy not in OF_SETUP)
            or (library and not is_of_libraries(remedy) and not may_stay(remedy.instead))
            or (remedy.form and remedy.form not in statement.forms)
            or (remedy.through and not re.search(remedy.through, "\n".join(inside)))
            or (remedy.in_thread and not in_thread)
        ):
            continue
        read = re.search(remedy.reads, statement.text) or re.search(remedy.reads, own)
        if (
            read
            and (not remedy.call or re.fullmatch(remedy.call, call or operator or ""))
            and (not remedy.operator or re.fullmatch(remedy.operator, operator or ""))
            and (not remedy.inside or any(re.search(remedy.inside, line) for line in inside[-2:]))
        ):
            if apart and _is_no_use(remedy, apart, statement):
                return OF_NO_STEP[apart]
            names = {"call": (call or "").removeprefix("linalg_"), **read.groupdict()}
            return _filled(remedy.instead, names)
    if apart:
        return OF_NO_STEP[apart]
    if source and source.inside:
        return UNKNOWN.format(what=_library_call(library or source.inside[-1]))
    return None


def _library_call(line: SourceLine) -> str:
    library = line.in_library.partition("/")[0].partition(":")[0]
    return f"`{line.function.partition('.<locals>')[0]}` of {library}"


def _is_no_use(remedy: Remedy, apart: str, statement: Statement) -> bool:
    """Returns True if a remedy helps steps only, and the call belongs to none. A sum that grows
    outside of the set-up counts as one of a loop's, which may have run once."""
    if may_stay(remedy.instead) or (apart != "setup" and "augmented" in statement.forms):
        return False
    return apart == "after" or remedy.of_steps or remedy in BY_THE_TEXT


def _filled(advice: str, names: dict[str, str]) -> str:
    """Returns the advice with the values of its {names}. Other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda name: names[name[1]], advice)

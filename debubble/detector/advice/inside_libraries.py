"""Remedies for waits in the lines of PyTorch and of other libraries."""

from .remedy import LEAVE, MEANT, TO_THE_HOST, UPLOADS, Remedy, UploadRemedy

ACCELERATE_MOVES = r"accelerate/utils/operations\.py:\d+: .*tensor\.to\(device"
MASKS = r"transformers/(masking_utils|modeling_attn_mask_utils)\.py"
BINCOUNT = r"torchmetrics/utilities/data\.py:\d+: .*bincount"

INSIDE_PYTORCH = (
    Remedy(
        "value_range=(low, high): normalize=True reads the least and the largest value without it",
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
        through=r"transformers/generation/.*(stopping_criteria|unfinished_sequences)",
    ),
    UploadRemedy(
        "leave it, or write the sampling loop yourself: the U-Net gets timesteps that were moved "
        "once, the scheduler those of the host",
        inside=r"diffusers/.*\btimesteps?\b",
    ),
    Remedy(
        LEAVE + "Lightning moves everything to the host once, when it ends",
        (*TO_THE_HOST, "pageable_download"),
        through=r"lightning/.*teardown\(",
    ),
    Remedy(
        "self.log(..., prog_bar=False): what the progress bar shows has to come to the host",
        through=r"lightning/.*pbar",
    ),
    Remedy(
        "Trainer(log_every_n_steps=n, check_val_every_n_epoch=m), or logger=False: a logger gets "
        "numbers of the host",
        through=r"lightning/.*\blog_metrics\(",
    ),
    UploadRemedy(
        "DataLoader(..., pin_memory=True): Lightning copies with non_blocking=True already",
        through=r"lightning/.*batch_to_device",
    ),
    UploadRemedy(
        LEAVE + "Lightning moves the sum of a logged name when that name is logged first",
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
        inside=r"nn/modules/transformer\.py:\d+: make_causal",
    ),
    Remedy(
        "nn.TransformerEncoder(..., enable_nested_tensor=False): then the padding mask is not read",
        inside=r"nn/modules/transformer\.py:\d+: .*nested",
    ),
    Remedy(
        "pass validate_args=False: the checks of the parameters and of the values read the device",
        inside=r"torch/distributions/(?!.*(_rejection|von_mises|\.all\(\): break))",
    ),
    Remedy(
        "keep the optimizer's step counters on the host (don't move its state), or pass "
        "capturable=True",
        inside=r"torch/optim/\w+\.py:\d+: .*(_get_value|step|\.item\(\))|"
        r"torch/optim/optimizer\.py:\d+: ",
    ),
    Remedy(
        "use a fused optimizer (torch.optim.AdamW(..., fused=True)), which looks at found_inf on "
        "the device, or bfloat16, which needs no scaler",
        inside=r"torch/amp/grad_scaler\.py",
    ),
    Remedy(
        "leave out error_if_nonfinite, and look at the norm some steps later",
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
        through=r"torchmetrics/.*(_validation\(|_validate)|torchmetrics/utilities/checks\.py",
    ),
    Remedy(
        "thresholds=n: with bins a curve's size is known, and no value is read for each class",
        inside=r"torchmetrics/functional/classification/(roc|precision_recall|auroc|average_).*"
        r"(\[-1\]|unique|cumsum|\[mask|isnan)",
    ),
    Remedy(
        "compute() rarely, with thresholds=n for a curve: it counts by bincount, which reads the "
        "largest value",
        inside=BINCOUNT,
        through=r"torchmetrics/.*\bcompute\(",
        of_steps=True,
    ),
    Remedy(
        "keep the predictions and labels on the device, and update() once with all of them: "
        "each update counts by bincount, which reads the largest value",
        inside=BINCOUNT,
    ),
    UploadRemedy(
        "update() with several batches at once: the metric uploads a number or a list each time",
        inside=r"torchmetrics/",
    ),
    Remedy(
        "TrainingArguments(logging_nan_inf_filter=False): the filter reads the loss in each step",
        inside=r"transformers/trainer\.py:\d+: (.*is(nan|inf)|if \($)",
    ),
    Remedy(
        LEAVE + "the trainer reads the last losses once, when it ends",
        through=r"transformers/trainer\.py:\d+: .*_finalize_training\(",
    ),
    Remedy(
        "log more rarely: TrainingArguments(logging_steps=n)",
        inside=r"transformers/trainer\.py:\d+: .*(nested_gather|\.item\(\))",
    ),
    Remedy(
        'generate(..., cache_implementation="static"), with which only the prompt\'s step reads '
        "whether the padding mask masks anything",
        inside=MASKS,
        through=r"transformers/generation/",
        of_steps=True,
    ),
    Remedy(
        "give the model a mask of 4 dimensions: of a padding mask SDPA's preparation reads whether "
        "it masks anything",
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
        inside=r"accelerate/utils/operations\.py",
    ),
)

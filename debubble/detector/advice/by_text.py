"""Remedies for values that are read, by the text of the statement."""

from .remedy import MEANT, NUMBERS, TO_THE_HOST, Remedy

BRINGS = rf"{NUMBERS}|cpu|numpy|to\b.*"
"""A pattern for calls that bring values to the host."""
SIZED = r"arange|linspace|logspace|zeros|ones|full|empty|eye|randn?|randint|randperm|tri[lu]"
KNOWN = r"len|lengths|sizes|counts|num\w*|n_\w+|seq\w*|pos\w*|ids?|idx|indices|offsets?|cu_\w+"
"""A pattern for names of values that the host has usually made itself: lengths, positions, ids."""
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
COLLECTS = r"\.(append|extend)\(|\+= \["

LATER = "copy into pinned memory with non_blocking=True, record an event, and read it a step later"

BY_THE_TEXT = (
    Remedy(
        "it is read every few steps only: raise that number, or leave it",
        call=rf"{BRINGS}|__repr__|__str__|__format__",
        form="every n",
    ),
    Remedy(
        "torch.maximum(a, b), or x.max(): Python's own max, min and sorted read each comparison",
        call=r"__bool__",
        reads=r"(?<![.\w])(max|min|sorted)\(",
    ),
    Remedy(
        "torch.maximum(a, b), or x.max(): Python's own max, min and sorted read each comparison",
        call=r"__(lt|gt|le|ge)__",
    ),
    Remedy(
        MEANT + "a test has to read what it checks",
        reads=r"^assert\b",
        form="in a test",
    ),
    Remedy(
        "torch._assert_async(condition) checks on the device; or check outside of the steps",
        call=NUMBERS,
        form="assert",
    ),
    Remedy(
        "run a fixed number of iterations with finished rows masked, or read the condition of the "
        "iteration before, from a pinned copy and after an event",
        call=NUMBERS,
        form="while",
    ),
    Remedy(
        "torch.where(condition, a, b)",
        call=r"__bool__",
        form="conditional",
    ),
    Remedy(
        "keep the flag on the device (torch.where(finite, x, 0)), and read it some steps later, "
        "from a pinned copy and after an event",
        call=NUMBERS,
        form="if",
        reads=r"isnan|isinf|isfinite|nan|finite",
    ),
    Remedy(
        "keep a flag of what is finished on the device, and read the flag of the step before, from "
        "a pinned copy and after an event; drop the extra step",
        call=NUMBERS,
        form="if",
        reads=r"\beos|eos_|\bstop|finished|\bdone\b|end_id|eot",
    ),
    Remedy(
        "keep the flag as a Python attribute as well, and test that: it changes once",
        call=NUMBERS,
        form="if",
        reads=r"\bself\.\w*(init|ready|started|first|built|calibrated)\w*\b(?!\()",
    ),
    Remedy(
        "torch.where(condition, a, b) or a mask on the device; if the host made the values, "
        "compare them there; to stop, read the condition of the step before, from a pinned copy "
        "and after an event",
        call=NUMBERS,
        form="if",
    ),
    Remedy(
        "leave out bool(), `not`, `and` and `or`, which read the value: torch.logical_not, & and | "
        "stay on the device",
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
        call=BRINGS,
        reads=r"\.(update|add)\(",
    ),
    Remedy(
        "keep the table on the device: c.index_put_((i, j), one, accumulate=True), with `one` made "
        "there before the loop",
        call=r"item|__(int|index)__",
        form="augmented",
        reads=r"^\w+\[.*(\.item\(\)|int\().*\] \+=",
    ),
    Remedy(
        "add it up on the device (total += x.detach()), and read the sum where it is needed: after "
        "the loop, or every n steps",
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
        call=NUMBERS,
        reads=r"\b(print|format|write)\(.*\w\[\w+\].*,.*\w\[\w+\]",
    ),
    Remedy(
        "log every n steps, and bring all numbers at once: torch.stack([a, b]).tolist()",
        call=BRINGS,
        reads=rf"({LOGS}).*(\.item\(\).*\.item\(\)|float\(.*float\()",
    ),
    Remedy(
        "log every n steps, or what a pinned copy brought some steps ago",
        call=rf"{BRINGS}|__repr__|__str__",
        reads=LOGS,
    ),
    Remedy(
        "log every n steps, or what a pinned copy brought some steps ago",
        call=r"__repr__|__str__|__format__",
    ),
    Remedy(
        "take all of them to the host once, before the loop (for y in labels.tolist()): a list or "
        "a set of Python's needs numbers of the host",
        call=NUMBERS,
        reads=r"\.(remove|index|count|discard)\(.*(\.item\(|\bint\()",
    ),
    Remedy(
        "x.tolist(), or torch.stack(values).tolist(), waits once instead of once a value; or know "
        "the numbers on the host",
        call=r"item|__(int|float|index)__",
        form="comprehension",
    ),
    Remedy(
        "torch's function of that name stays on the device: torch.exp, torch.sqrt; read the result "
        "later",
        call=r"__(float|int|index)__|item",
        reads=r"\bmath\.\w+\(",
    ),
    Remedy(
        "know the number on the host (a shape, a length that it made): a size, a range and a bound "
        "have to be Python numbers",
        call=r"__index__|__int__|item|tolist",
        reads=rf"\b(range|split|view|reshape|expand|{SIZED}|narrow|chunk|islice)\(",
    ),
    Remedy(
        "make the list a tensor on the device, and index that with the tensor: a Python list is "
        "indexed on the host",
        call=r"__index__",
        reads=r"\w\[",
    ),
    Remedy(
        "count it on the device (correct += (prediction == label).sum()), and read the sum once, "
        "after the loop",
        reads=r"\b\w*(correct|acc(uracy)?|hits?)\w*\s*[+:]?=[^=]",
    ),
    Remedy(
        "return the tensor (x.detach()), and read it where it is printed, every n steps",
        call=NUMBERS,
        form="return",
    ),
    Remedy(
        "keep it on the device (x.detach()), add it up there, and read it every n steps",
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
        call=r"cpu|numpy|to\b.*",
        form="comprehension",
    ),
    Remedy(
        "compute with torch on the device, and bring the result alone; or " + LATER,
        call=r"cpu|numpy|__array__",
        reads=r"numpy\(\)|\bnp\.",
    ),
    Remedy(
        LATER,
        call=r"cpu|tolist|numpy|to\b.*|copy_\b.*|__array__",
    ),
)

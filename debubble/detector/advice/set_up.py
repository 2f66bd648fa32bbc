"""Remedies for what is done once: modules that move, weights that are loaded, what is saved."""

from .remedy import LEAVE, MEANT, TO_THE_HOST, UPLOADS, Remedy, UploadRemedy

SAVES = (
    r"\b(state_dict\(\)|torch\.save|save_pretrained|savez?\(|pickle\.dumps?|save_file|save_model"
    r"|save_checkpoint)"
)
MOVES = r"nn/modules/module\.py:\d+: .*\bt\.(to|cuda)\("

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
    UploadRemedy(
        "load once, outside of the steps; " + MEANT + "loading waits",
        reads=r"\b(torch\.load|load_file|load_state_dict|from_pretrained)\(",
    ),
)

"""The contenders that serve the checkpoint: this engine with and without its optimisations, and
transformers.

`python -m solutions.models.measure.contenders NAME FOLDER LOAD` measures one in this process
and prints the result as a line of JSON.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from debubble.accelerator import Accelerator, current
from solutions.engine.optimizations import Optimizations
from solutions.engine.requests.request import SamplingParams

from ..checkpoints.folder import CheckpointFolder
from ..pretrained import from_pretrained


class Load(NamedTuple):
    """The sizes of the batch that each contender serves, and how often it is measured."""

    batch: int = 8
    prompt_tokens: int = 512
    new_tokens: int = 128
    runs: int = 3


@dataclass(frozen=True)
class Served:
    """The figures of one contender. Those of answers are medians of the runs."""

    load_s: float
    """Seconds until all weights are on the device."""
    ready_s: float
    """Seconds until the contender can serve, graphs included."""
    first_answer_s: float
    """Seconds from `ready_s` until the first batch is answered, with all that this compiles."""
    load_gb_per_s: float
    peak_host_gb: float
    """Gigabytes of host memory that loading takes at its peak, beyond what the process had
    before."""
    first_token_ms: float
    """Milliseconds from the arrival of the prompts until the first token of each is known."""
    tokens_per_s: float
    """Tokens of answers a second; the time includes the prompts."""
    decode_tokens_per_s: float
    """Tokens after each answer's first one, in the seconds after all first tokens."""
    first_tokens: list[int]
    """The first token of each answer in the first run that is measured, to compare contenders."""
    device: str


class Contender(Protocol):
    """A server that loads a checkpoint when it is made, and answers a batch of prompts greedily."""

    loaded_at: float
    """The time.perf_counter() at which all weights were on the device."""

    def answer(self, prompts: np.ndarray, new_tokens: int) -> tuple[float, list[int]]:
        """Returns the seconds until the first token of each prompt [batch, tokens] was known, and
        those tokens. Returns when all answers are complete."""


class Ours:
    def __init__(
        self, folder: Path, accelerator: Accelerator, load: Load, optimizations: Optimizations
    ) -> None:
        length = load.prompt_tokens + load.new_tokens
        together = load.batch * load.prompt_tokens
        self.accelerator = accelerator

        def note(done: int, total: int) -> None:
            if done == total:
                accelerator.synchronize()
                self.loaded_at = time.perf_counter()

        self.engine = from_pretrained(
            folder,
            optimizations,
            progress=note,
            max_num_seqs=load.batch,
            max_num_batched_tokens=together,
            max_model_len=length,
            # Twice the blocks of a run, so that a run needs none of the previous run's.
            num_gpu_blocks=1 + 2 * load.batch * -(-length // 16),
            capture_sizes=(load.batch,),
            prefill_sizes=(together,),
        )

    def answer(self, prompts: np.ndarray, new_tokens: int) -> tuple[float, list[int]]:
        self.engine.reset_prefix_cache()
        self.accelerator.synchronize()
        started, first = time.perf_counter(), 0.0
        names = [
            self.engine.add_request(prompt.tolist(), SamplingParams(max_tokens=new_tokens))
            for prompt in prompts
        ]
        requests = [self.engine.request(name) for name in names]
        while self.engine.has_work:
            self.engine.step()
            if not first and all(request.generated for request in requests):
                first = time.perf_counter() - started
        return first, [request.generated[0] for request in requests]


class Transformers:
    """The contender that calls `generate` of transformers: eager, or with a static cache, for which
    it compiles."""

    def __init__(self, folder: Path, accelerator: Accelerator, load: Load, compiled: bool) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.set_verbosity_error()
        self.device = "cpu" if accelerator.modelled else "cuda"
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", local_files_only=True
        )
        self.model = model.to(self.device).eval()
        accelerator.synchronize()
        self.loaded_at = time.perf_counter()
        self.options = {"cache_implementation": "static"} if compiled else {}

    @torch.inference_mode()
    def answer(self, prompts: np.ndarray, new_tokens: int) -> tuple[float, list[int]]:
        ids = torch.from_numpy(prompts).to(self.device)
        started = time.perf_counter()
        watch = _FirstToken(started)
        answers = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
            logits_processor=[watch],
            **self.options,
        )
        first = answers[:, prompts.shape[1]].tolist()
        return watch.seconds, first


class _FirstToken:
    """A logits processor that notes the time of the first logits, and changes none."""

    def __init__(self, started: float) -> None:
        self.started, self.seconds = started, 0.0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not self.seconds:
            scores.argmax(-1).tolist()  # The host has the first token now.
            self.seconds = time.perf_counter() - self.started
        return scores


Make = Callable[[Path, Accelerator, Load], Contender]
CONTENDERS: dict[str, Make] = {
    "all": lambda folder, accelerator, load: Ours(folder, accelerator, load, Optimizations()),
    "none": lambda folder, accelerator, load: Ours(folder, accelerator, load, Optimizations.none()),
    "transformers": lambda folder, accelerator, load: Transformers(
        folder, accelerator, load, compiled=False
    ),
    "transformers, compiled": lambda folder, accelerator, load: Transformers(
        folder, accelerator, load, compiled=True
    ),
}
"""Functions that load a contender, by the contender's name."""


def measure(name: str, folder: Path, load: Load, accelerator: Accelerator) -> Served:
    """Loads the contender `name` and measures its answers, after a first run to warm up. The
    prompts are the same for all contenders."""
    nbytes = sum(tensor.nbytes for tensor in CheckpointFolder.read(folder).tensors.values())
    vocab_size = json.loads((folder / "config.json").read_text())["vocab_size"]
    torch.ones(1, device=accelerator.device)  # Creates the device's context first.
    accelerator.synchronize()
    before, started = _peak_host_bytes(), time.perf_counter()
    contender = CONTENDERS[name](folder, accelerator, load)
    accelerator.synchronize()
    ready, peak = time.perf_counter() - started, _peak_host_bytes() - before
    seconds = contender.loaded_at - started
    firsts, totals, first_answer = [], [], 0.0
    first_tokens: list[int] = []
    for run in range(load.runs + 1):
        random = np.random.default_rng(run)
        prompts = random.integers(1, vocab_size, (load.batch, load.prompt_tokens))
        started = time.perf_counter()
        first, tokens = contender.answer(prompts, load.new_tokens)
        accelerator.synchronize()
        if not run:
            first_answer = time.perf_counter() - started
        else:
            firsts.append(first)
            totals.append(time.perf_counter() - started)
            first_tokens = first_tokens or tokens
    first, total = statistics.median(firsts), statistics.median(totals)
    return Served(
        load_s=seconds,
        ready_s=ready,
        first_answer_s=first_answer,
        load_gb_per_s=nbytes / seconds / 1e9,
        peak_host_gb=peak / 1e9,
        first_token_ms=first * 1e3,
        tokens_per_s=load.batch * load.new_tokens / total,
        decode_tokens_per_s=load.batch * (load.new_tokens - 1) / max(total - first, 1e-9),
        first_tokens=first_tokens,
        device=accelerator.description,
    )


def _peak_host_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    name, folder, load = sys.argv[1:]
    served = measure(name, Path(folder), Load(*json.loads(load)), current())
    print(json.dumps(asdict(served)), flush=True)


if __name__ == "__main__":
    main()

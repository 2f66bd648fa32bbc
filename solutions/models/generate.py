"""Prints a checkpoint's answer to a prompt: `python -m solutions.models.generate FOLDER
"prompt"`."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from debubble.accelerator import current
from solutions.engine.engine import Engine
from solutions.engine.optimizations import NAMES, Optimizations
from solutions.engine.requests.new_request import new_request, seeds_apart
from solutions.engine.requests.request import Request

from .checkpoints.generation import sampling_of
from .pretrained import config_of, from_pretrained
from .text.stream import checked_stop, stream_text
from .text.tokenizer import Encoding, Prompt, Tokenizer

WISHES = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "seed": int,
    "presence_penalty": float,
    "frequency_penalty": float,
    "repetition_penalty": float,
}
"""Fields of SamplingParams that are options of the same names, with their types."""
SIZES: dict[str, Any] = {"max_num_seqs": 1, "capture_sizes": (1,)}
"""Sizes of an engine that serves one request at a time."""


def main(arguments: list[str] | None = None) -> int:
    """Answers a prompt on the command line. Returns its exit status: 0, 130 after Ctrl-C, or 1 for
    an error, with a sentence on stderr unless the reader has closed the pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An answer may have any character, and a terminal may know ASCII alone.
        sys.stdout.reconfigure(errors="backslashreplace")
    console = Console(stderr=True)
    try:
        try:
            _run(_options(arguments), console)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Python must not flush the rest at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, ImportError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(options: argparse.Namespace, console: Console) -> None:
    """Checks the whole request, loads the checkpoint, then answers."""
    if options.n < 1:
        raise ValueError(f"-n is {options.n}: ask for at least 1 answer")
    wishes = {name: getattr(options, name) for name in WISHES}
    given = {name: value for name, value in wishes.items() if value is not None}
    folder = Path(options.folder).expanduser()
    sampling = replace(sampling_of(folder), max_tokens=options.max_tokens, **given)
    samplings = seeds_apart(sampling, options.n)
    checked_stop(options.stop)
    sizes: dict[str, Any] = {"num_drafts": options.drafts, **SIZES}
    if options.max_model_len is not None:
        sizes["max_model_len"] = options.max_model_len
    config = config_of(options.folder, **sizes)
    tokenizer = Tokenizer(folder)
    prompt: Prompt = options.prompt
    if tokenizer.has_chat_template() and not options.plain:
        prompt = [{"role": "user", "content": options.prompt}]
    how = Encoding(chat_template_kwargs=options.chat_template_kwargs)
    ids = tokenizer.encode(prompt, how)
    for number, each in enumerate(samplings):
        new_request(str(number), ids, (), each, config)
    switched_on = [name for name in NAMES if name not in options.without]
    engine = _loaded(options.folder, sizes, Optimizations.only(switched_on), console)
    for each in samplings:
        served: list[Request] = []
        parts = stream_text(engine, tokenizer, prompt, each, options.stop, served, how)
        _answer(engine, parts, served, console)
    console.print(str(engine.stats()), style="dim", soft_wrap=True)


def _loaded(
    folder: str, sizes: dict[str, Any], optimizations: Optimizations, console: Console
) -> Engine:
    columns = (TextColumn("loading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)

        def advance(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        started = time.perf_counter()
        engine = from_pretrained(folder, optimizations, progress=advance, **sizes)
        current().synchronize()
    seconds = time.perf_counter() - started
    console.print(f"ready after {seconds:.1f} s, with {optimizations}", style="dim", soft_wrap=True)
    return engine


def _answer(engine: Engine, parts: Iterator[str], served: list[Request], console: Console) -> None:
    """Prints the parts of an answer as they come, and its speed; `served` has its request then."""
    started, first = time.perf_counter(), None
    before = engine.served.num_drafted, engine.served.num_accepted
    for part in parts:
        if first is None:
            first = time.perf_counter()
        sys.stdout.write(part)
        sys.stdout.flush()
    ended = time.perf_counter()
    sys.stdout.write("\n")
    sys.stdout.flush()
    num_tokens = sum(len(request.generated) for request in served)
    drafted = engine.served.num_drafted - before[0]
    accepted = engine.served.num_accepted - before[1]
    if first is None or num_tokens < 2 or ended == first:
        return
    console.print(
        f"{num_tokens} tokens; the first text after {(first - started) * 1e3:.0f} ms, then "
        f"{(num_tokens - 1) / (ended - first):.1f} tokens/s"
        + (" (sim computes on the CPU: a GPU is faster)" if current().modelled else "")
        + (f"; {accepted} of {drafted} drafts were right" if drafted else ""),
        style="dim",
        soft_wrap=True,
    )


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m solutions.models.generate", description=__doc__
    )
    parser.add_argument("folder", help="folder with config.json, safetensors, tokenizer.json")
    parser.add_argument("prompt")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--max-model-len", type=int, help="the most tokens of prompt and answer")
    parser.add_argument(
        "--chat-template-kwargs",
        type=_object,
        default={},
        metavar="JSON",
        help="arguments of the chat template, as '{\"enable_thinking\": false}'",
    )
    parser.add_argument("--plain", action="store_true", help="use no chat template")
    parser.add_argument("--stop", action="append", default=[], help="a text that ends the answer")
    parser.add_argument(
        "--drafts",
        type=int,
        default=0,
        metavar="N",
        help="tokens that n-gram speculation guesses in each step; the answer is the same",
    )
    parser.add_argument("-n", type=int, default=1, help="number of answers")
    for name, kind in WISHES.items():
        own = "by default that of the checkpoint's generation_config.json, if it has one"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=own)
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=NAMES,
        help="switch one of the five optimisations off",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

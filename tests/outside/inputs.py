"""Makes what a program would download: `python inputs.py NAME`, in the program's folder. The data
are random numbers from a seed, and so are the weights."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from array import array
from itertools import islice
from pathlib import Path


def numbers(seed: str, count: int, below: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(below) for _ in range(count)]


def save(name: str, content: bytes | str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def tokens() -> None:
    for part, count in (("train", 8192), ("val", 2048)):
        save(f"data/tiny/{part}.bin", array("H", numbers(part, count, 64)).tobytes())


def words() -> None:
    for part, count in (("train", 4000), ("valid", 800), ("test", 800)):
        text = " ".join(f"word{number}" for number in numbers(part, count, 60))
        save(f"data/tiny/{part}.txt", text)


def word_model() -> None:
    """Trains the LSTM from which the language model generates words."""
    words()
    sizes = ["--epochs=1", "--emsize=32", "--nhid=32", "--bptt=8", "--dry-run"]
    command = [sys.executable, "main.py", "--data=data/tiny", "--save=words.pt", *sizes]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def mnist(folder: str = "../data/MNIST/raw") -> None:
    for part, count in (("train", 192), ("t10k", 192)):
        images = struct.pack(">4i", 2051, count, 28, 28) + bytes(numbers(part, count * 784, 256))
        labels = struct.pack(">2i", 2049, count) + bytes(numbers(part, count, 10))
        save(f"{folder}/{part}-images-idx3-ubyte", images)
        save(f"{folder}/{part}-labels-idx1-ubyte", labels)


def fashion_mnist() -> None:
    mnist("data/fashion_mnist/FashionMNIST/raw")


def cora() -> None:
    """Makes a graph of 1700 papers with 40 words and 7 classes, and 5000 citations."""
    has = iter(numbers("words", 1700 * 40, 2))
    papers = ([paper, *islice(has, 40), f"class{paper % 7}"] for paper in range(1700))
    save("cora/cora.content", "\n".join("\t".join(map(str, paper)) for paper in papers))
    ends = zip(numbers("from", 5000, 1700), numbers("to", 5000, 1700), strict=True)
    save("cora/cora.cites", "\n".join(f"{one}\t{other}" for one, other in ends))


def gpt_fast() -> None:
    """Saves weights for the model of 15 million parameters, and a tokenizer of 32000 characters."""
    import torch
    from model import Transformer
    from sentencepiece import SentencePieceTrainer

    letters = map(chr, (*range(0x4E00, 0x9FA6), *range(0xAC00, 0xD7A4)))
    lines = iter(lambda: "".join(islice(letters, 64)), "")
    save("checkpoints/stories15M/text", "\n".join(lines))
    SentencePieceTrainer.train(
        input="checkpoints/stories15M/text",
        model_prefix="checkpoints/stories15M/tokenizer",
        model_type="char",
        vocab_size=32000,
        character_coverage=1.0,
        normalization_rule_name="identity",
        minloglevel=1,
    )
    torch.manual_seed(0)
    state = Transformer.from_name("stories15M").state_dict()
    state = {name: 0.02 * torch.randn_like(weight).bfloat16() for name, weight in state.items()}
    torch.save(state, "checkpoints/stories15M/model.pth")


def dit() -> None:
    """Saves a DiT-S/8, the two autoencoders of 8 channels, and 8 images of two classes."""
    import torch
    from diffusers import AutoencoderKL
    from models import DiT_models
    from PIL import Image

    torch.manual_seed(0)
    torch.save(DiT_models["DiT-S/8"](input_size=32).state_dict(), "dit.pt")
    vae = AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        block_out_channels=[8] * 4,
        norm_num_groups=4,
    )
    for name in ("mse", "ema"):
        vae.save_pretrained(f"stabilityai/sd-vae-ft-{name}")
    for image in range(8):
        path = Path(f"images/{image % 2}/{image}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (64, 64), bytes(numbers(path.name, 64 * 64 * 3, 256))).save(path)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

"""Prompts with images, Gemma-3-shaped: the same tokens as transformers."""

import shutil

import pytest
import torch

from solutions.engine import NAMES, Optimizations, SamplingParams
from solutions.models import ServedModel, from_pretrained

from .tiny import make, prompt_of

pytestmark = pytest.mark.deep
"""All tests of this file are deep: a vision tower of transformers takes minutes on two cores."""

pytest.importorskip("transformers")
IMAGE = [91, *[90] * 4, 92]
"""The ids of an image as a processor inserts them: a begin id, one id for each image token, an end
id."""
SIZES = {"max_model_len": 64, "max_num_seqs": 2, "max_num_batched_tokens": 16}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make("gemma3", tmp_path_factory.mktemp("gemma3"))


def pixels(count, seed=0):
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def right_answer(checkpoint, ids, images, num_tokens):
    types = torch.tensor([[int(token == 90) for token in ids]])
    model = checkpoint.model
    answer = model.generate(
        torch.tensor([ids]),
        pixel_values=images,
        token_type_ids=types,
        max_new_tokens=num_tokens,
        do_sample=False,
    )
    return answer[0, len(ids) :].tolist()


def answer(model, ids, images, num_tokens):
    prompt = model.image_prompt(ids, images)
    sampling = SamplingParams(max_tokens=num_tokens)
    name = model.engine.add_request(
        prompt.tokens, sampling, images=prompt.images, image_names=prompt.image_names
    )
    (output,) = (each for each in model.engine.run() if each.request_id == name)
    return output


@pytest.mark.deep(3)
@pytest.mark.parametrize(
    "optimizations", [Optimizations(), *(Optimizations(**{name: False}) for name in NAMES[:2])],
    ids=str,
)  # fmt: skip
def test_a_prompt_with_images_is_answered_as_by_transformers(
    accelerator, checkpoint, optimizations
):
    """A prompt with two images has the same answer as by transformers, also if it is longer than
    the attention window and an image crosses the edge of a window."""
    model = ServedModel(
        checkpoint.folder, from_pretrained(checkpoint.folder, optimizations, **SIZES)
    )
    ids = [*prompt_of(7), *IMAGE, *prompt_of(5, 1), *IMAGE, *prompt_of(4, 2)]
    images = pixels(2)
    right = right_answer(checkpoint, ids, images, 8)
    assert answer(model, ids, images, 8).token_ids == right
    assert right != right_answer(checkpoint, ids, pixels(2, 5), 8), "images matter"


LAYOUTS = {
    "before 4.52": ("language_model.model.", "vision_tower.vision_model.", ""),
    "4.52 to 4.57": ("model.language_model.", "model.vision_tower.vision_model.", "model."),
    "5": ("model.language_model.", "model.vision_tower.", "model."),
}
"""The prefixes of tensor names of the decoder, the vision tower and the projector, by version of
transformers."""


@pytest.mark.parametrize("age", LAYOUTS)
def test_each_layout_of_tensors_is_served(accelerator, checkpoint, tmp_path, age):
    safetensors = pytest.importorskip("safetensors.torch")
    language, vision, projector = LAYOUTS[age]
    renamed = {}
    for name, tensor in safetensors.load_file(checkpoint.folder / "model.safetensors").items():
        part, _, rest = name.removeprefix("model.").partition(".")
        if part == "language_model":
            renamed[language + rest.removeprefix("model.")] = tensor
        elif part == "vision_tower":
            renamed[vision + rest.removeprefix("vision_model.")] = tensor
        else:
            renamed[f"{projector}{part}.{rest}"] = tensor
    shutil.copy(checkpoint.folder / "config.json", tmp_path)
    safetensors.save_file(renamed, tmp_path / "model.safetensors")
    model = ServedModel(tmp_path, from_pretrained(tmp_path, **SIZES))
    ids, images = [*prompt_of(3), *IMAGE, *prompt_of(2, 1)], pixels(1)
    assert answer(model, ids, images, 2).token_ids == right_answer(checkpoint, ids, images, 2)


def test_an_image_that_is_known_is_found_and_another_in_its_place_is_not(accelerator, checkpoint):
    model = ServedModel(checkpoint.folder, from_pretrained(checkpoint.folder, **SIZES))
    tower = model.images
    tower._first_ids = tower._first_ids[:1]
    ids = [*prompt_of(3), *IMAGE, *prompt_of(20, 1)]
    first = answer(model, ids, pixels(1), 4)
    again = answer(model, ids, pixels(1), 4)
    assert (first.num_cached, again.num_cached) == (0, 16)
    assert again.token_ids == first.token_ids == right_answer(checkpoint, ids, pixels(1), 4)
    other = answer(model, ids, pixels(1, 7), 4)
    assert other.num_cached == 0
    assert other.token_ids == right_answer(checkpoint, ids, pixels(1, 7), 4)
    prompt = model.image_prompt(ids, pixels(1, 7))
    sampling = SamplingParams(max_tokens=4)
    model.engine.add_request(
        prompt.tokens, sampling, images=prompt.images, image_names=prompt.image_names
    )
    with pytest.raises(ValueError, match="1 images are in use"):
        model.image_prompt(ids, pixels(1, 8))
    model.engine.run()


def test_what_does_not_fit_is_refused(accelerator, checkpoint):
    model = ServedModel(checkpoint.folder, from_pretrained(checkpoint.folder, **SIZES))
    with pytest.raises(ValueError, match=r"1 images for runs of \[3\] image tokens"):
        model.image_prompt([1, 90, 90, 90, 2], pixels(1))
    with pytest.raises(ValueError, match=r"2 images for runs of \[4\]"):
        model.image_prompt(IMAGE, pixels(2))

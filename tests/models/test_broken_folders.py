"""Broken checkpoint folders: each is refused with one sentence that names the fault, and leaves
nothing on the device."""

import gc
import json
import os

import numpy as np
import pytest
import torch

from solutions.engine import SamplingParams
from solutions.models import from_pretrained
from solutions.models.checkpoints import to_device

from .plain_folder import PlainFolder, packed

Q_PROJ = "model.layers.0.self_attn.q_proj.weight"
INDEX = "model.safetensors.index.json"
BROKEN = {}
"""All broken folders, as {name: (function that changes a folder, words that the error
contains)}."""


def broken(*said):
    def keep(change):
        BROKEN[change.__name__.replace("_", " ")] = (change, said)
        return change

    return keep


def field(name, value, *said):
    """Adds a broken folder to BROKEN, in whose config.json the field `name` has this value, or is
    missing if `value` is MISSING. The error contains "config.json" and `said`."""

    def change(folder):
        if value is MISSING:
            del folder.config[name]
        else:
            folder.config[name] = value
        folder.write()

    BROKEN[f"{name} is {'missing' if value is MISSING else json.dumps(value)}"] = (
        change,
        ("config.json", *said),
    )


MISSING = object()
field("architectures", MISSING, "architectures")
field("architectures", [], "architectures")
field("architectures", "LlamaForCausalLM", "architectures")
field("architectures", ["GPT2LMHeadModel"], "GPT2LMHeadModel", "Qwen3NextForCausalLM")
field("hidden_size", MISSING, "hidden_size")
field("hidden_size", "32", "hidden_size", '"32"')
field("hidden_size", 0, "hidden_size", "0")
field("hidden_size", True, "hidden_size", "true")
field("num_hidden_layers", 1.5, "num_hidden_layers", "1.5")
field("num_key_value_heads", 3, "4 heads for 3 KV heads")
field("head_dim", 15, "head")
field("head_dim", 8, "heads of 8 numbers", "16")
field("model_type", "mistral", "model_type", "mistral", "llama")
field("sliding_window", 16, "sliding_window", "16")
field("layer_types", ["sliding_attention"], "layer_types", "sliding_attention", "layer 0")
field("is_causal", False, "is_causal")
field("per_layer_config", {"0": {"intermediate_size": 8}}, "per_layer_config")
field("rms_norm_eps", 0, "rms_norm_eps")
field("hidden_act", "relu", "hidden_act", "relu", "silu")
field("attention_bias", True, "attention_bias")
field("dtype", "float64", "dtype", "float64")
field("quantization_config", {"quant_method": "fp8"}, "quantization_config")
field("rope_parameters", {"rope_type": "longrope"}, "rope_type", "longrope", "llama3")
field("rope_parameters", {"rope_type": "llama3", "factor": 8.0}, "low_freq_factor")
field("rope_scaling", {"type": "linear"}, "rope_scaling", "factor")
field("rope_scaling", 8, "rope_scaling", "8")
field("rope_theta", -1, "rope_theta", "-1")
field("partial_rotary_factor", 0.01, "partial_rotary_factor")
field("tie_word_embeddings", "yes", "tie_word_embeddings")
field("tie_word_embeddings", True, "lm_head.weight", "differs from model.embed_tokens.weight")
field("num_attention_heads", MISSING, "leaves out", "num_attention_heads 32")
field("rope_parameters", {"full_attention": {"rope_theta": 1e6}}, "full_attention")
field("max_position_embeddings", 16, "max_model_len 64", "max_position_embeddings 16")


@broken("config.json", "save_pretrained")
def no_config(folder):
    folder.write()
    (folder.path / "config.json").unlink()


@broken("config.json", "no JSON", "line 2")
def a_config_that_is_no_json(folder):
    folder.write()
    (folder.path / "config.json").write_text("{\n oh")


@broken("config.json", "list")
def a_config_that_is_no_object(folder):
    folder.write()
    (folder.path / "config.json").write_text("[]")


@broken("config.json", "can't be read")
def a_config_in_no_encoding(folder):
    folder.write()
    (folder.path / "config.json").write_bytes(b"\xff\xfe\x00")


@broken("no weights", "model.safetensors")
def no_weights(folder):
    folder.write()
    (folder.path / "model.safetensors").unlink()


@broken("pytorch_model.bin", "safe_serialization")
def pickled_weights(folder):
    no_weights(folder)
    (folder.path / "pytorch_model.bin").write_bytes(b"")


@broken("part-1.safetensors", "index")
def several_files_without_an_index(folder):
    folder.write("part-1.safetensors")


@broken("model.safetensors", "0 bytes")
def an_empty_file(folder):
    folder.write()
    (folder.path / "model.safetensors").write_bytes(b"")


@broken("model.safetensors", "no safetensors file")
def a_file_of_another_kind(folder):
    folder.write()
    (folder.path / "model.safetensors").write_bytes(b"PK\x03\x04" * 100)


@broken("model.safetensors", "not whole", Q_PROJ)
def a_file_that_ends_early(folder):
    folder.write()
    os.truncate(folder.path / "model.safetensors", 20_000)


@broken("model.safetensors", "header", "no JSON")
def a_header_that_is_no_json(folder):
    folder.write()
    (folder.path / "model.safetensors").write_bytes((4).to_bytes(8, "little") + b"oh no")


@broken("model.safetensors", "header", "no object")
def a_header_that_is_no_object(folder):
    folder.header = [1]
    folder.write()


@broken("model.norm.weight", "data_offsets")
def a_tensor_without_offsets(folder):
    del folder.header["model.norm.weight"]["data_offsets"]
    folder.write()


@broken("model.norm.weight", "F31")
def a_tensor_of_no_type(folder):
    folder.header["model.norm.weight"]["dtype"] = "F31"
    folder.write()


@broken("model.norm.weight", "-1")
def a_tensor_of_no_shape(folder):
    folder.header["model.norm.weight"]["shape"] = [-1]
    folder.write()


@broken("model.norm.weight", "F32 [33]")
def a_tensor_with_too_few_bytes(folder):
    folder.header["model.norm.weight"]["shape"] = [33]
    folder.write()


@broken("lm_head.weight", "overlaps")
def tensors_that_overlap(folder):
    begin, end = folder.header["lm_head.weight"]["data_offsets"]
    folder.header["lm_head.weight"]["data_offsets"] = [begin - 8, end - 8]
    folder.write()


@broken(Q_PROJ, "missing")
def a_tensor_is_missing(folder):
    del folder.header[Q_PROJ]
    folder.write()


@broken(Q_PROJ, "[32, 64]", "[64, 32]")
def a_tensor_is_turned(folder):
    folder.header[Q_PROJ]["shape"] = [32, 64]
    folder.write()


@broken(Q_PROJ, "I32", "BF16")
def a_tensor_of_integers(folder):
    folder.header[Q_PROJ]["dtype"] = "I32"
    folder.write()


@broken("model.layers.0.self_attn.q_proj.bias", "no place")
def a_tensor_that_nobody_needs(folder):
    folder.add("model.layers.0.self_attn.q_proj.bias", np.zeros(64, "<f4"))
    folder.write()


@broken("model.layers.1.input_layernorm.weight", "no place")
def a_layer_more_than_the_config_has(folder):
    folder.add("model.layers.1.input_layernorm.weight", np.zeros(32, "<f4"))
    folder.write()


def with_index(folder, places):
    folder.write("one.safetensors")
    contents = json.dumps({"weight_map": places})
    (folder.path / INDEX).write_text(contents)


def all_in(file, folder):
    return dict.fromkeys(folder.header, file)


@broken(INDEX, "weight_map")
def an_index_without_a_map(folder):
    folder.write("one.safetensors")
    (folder.path / INDEX).write_text("{}")


@broken(INDEX, "empty")
def an_index_of_nothing(folder):
    with_index(folder, {})


@broken(INDEX, "no JSON")
def an_index_that_is_no_json(folder):
    folder.write("one.safetensors")
    (folder.path / INDEX).write_text("{")


@broken("two.safetensors is not in")
def an_index_names_a_file_that_is_not_there(folder):
    with_index(folder, all_in("one.safetensors", folder) | {"lm_head.weight": "two.safetensors"})


@broken("more.weight is not in one.safetensors", INDEX)
def an_index_names_a_tensor_that_is_not_there(folder):
    with_index(folder, all_in("one.safetensors", folder) | {"more.weight": "one.safetensors"})


@broken(INDEX, "'../one.safetensors'", "name of a file")
def an_index_leaves_the_folder(folder):
    with_index(folder, all_in("../one.safetensors", folder))


@broken("model.norm.weight", "one.safetensors", "two.safetensors")
def a_tensor_in_two_files(folder):
    with_index(
        folder,
        all_in("one.safetensors", folder) | {"model.norm.weight": "two.safetensors"},
    )
    entry = {"dtype": "F32", "shape": [32], "data_offsets": [0, 128]}
    data = packed({"model.norm.weight": entry}, bytes(128))
    (folder.path / "two.safetensors").write_bytes(data)


@pytest.fixture(scope="module", autouse=True)
def what_is_there_already():
    """Keeps the garbage collector from all objects made before these tests: it takes most of their
    time."""
    gc.collect()
    gc.freeze()


def on_the_device(accelerator):
    gc.collect()
    kind = accelerator.device.type
    tensors = (each for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
    return sum(each.device.type == kind for each in tensors)


def test_a_copy_of_the_embedding_may_be_stored_as_the_head(accelerator, tmp_path):
    folder = PlainFolder.of(tmp_path / "folder")
    folder.config["tie_word_embeddings"] = True
    begin, end = folder.header["model.embed_tokens.weight"]["data_offsets"]
    first = folder.header["lm_head.weight"]["data_offsets"][0]
    folder.data = folder.data[:first] + folder.data[begin:end]
    model = from_pretrained(folder.write(), max_model_len=64).model
    assert model.lm_head.data_ptr() == model.embedding.data_ptr()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_refused_in_a_sentence(accelerator, tmp_path, name):
    change, said = BROKEN[name]
    change(PlainFolder.of(tmp_path / "folder"))
    before = on_the_device(accelerator)
    with pytest.raises(ValueError) as refusal:
        from_pretrained(tmp_path / "folder", max_model_len=64)
    sentence = str(refusal.value)
    assert all(part in sentence for part in said), sentence
    assert "\n" not in sentence and len(sentence) < 400
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    del refusal
    assert on_the_device(accelerator) == before


def test_there_are_many_kinds():
    assert len(BROKEN) >= 50


@pytest.mark.parametrize("path", [3, None, ["folder"]], ids=repr)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError, match="path of a checkpoint's folder"):
        from_pretrained(path)


def test_a_folder_that_is_not_there_and_a_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match="nowhere is not there"):
        from_pretrained(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is a file"):
        from_pretrained(tmp_path / "file")


def test_sizes_that_nothing_has_are_refused_by_name(tmp_path):
    folder = PlainFolder.of(tmp_path / "folder").write()
    with pytest.raises(TypeError, match=r"max_length.*max_model_len"):
        from_pretrained(folder, max_length=64)
    with pytest.raises(ValueError, match="max_num_seqs 0"):
        from_pretrained(folder, max_num_seqs=0)


def test_a_file_that_shrinks_while_it_is_read_leaves_nothing(accelerator, tmp_path, monkeypatch):
    folder = PlainFolder.of(tmp_path / "folder").write()
    file = folder / "model.safetensors"
    open_file = to_device.TensorStream._open

    def shrink(self, path):
        open_file(self, path)
        if self.num_bytes > 20_000:
            os.truncate(file, 30_000)

    monkeypatch.setattr(to_device.TensorStream, "_open", shrink)
    before = on_the_device(accelerator)
    with pytest.raises(ValueError, match=r"ends at byte 30000, within tensor .* shorter"):
        from_pretrained(folder, max_model_len=64)
    assert on_the_device(accelerator) == before
    monkeypatch.undo()
    PlainFolder.of(folder).write()
    assert len(from_pretrained(folder).generate([[1, 2]], SamplingParams(max_tokens=2))[0])

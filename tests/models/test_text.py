"""Text in and text out: streamed parts that are certain, stop strings, and the command."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from solutions.engine import SamplingParams
from solutions.models import ServedModel, config_of, from_pretrained
from solutions.models.checkpoints.generation import sampling_of
from solutions.models.generate import main
from solutions.models.text.answer import AnswerText
from solutions.models.text.stream import stream_text
from solutions.models.text.tokenizer import Encoding, Tokenizer

from .plain_folder import PlainFolder, write_words
from .tiny import make

README = Path(__file__).parents[2] / "solutions" / "models" / "README.md"
WORDS = [f"w{number}" for number in range(90)]
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] != 'user' %}{{ raise_exception('only users') }}"
    "{% endif %}w1 {{ m['content'] }} w2{% endfor %}"
)

THINKS = (
    "{% for m in messages %}w1 {{ m['content'] }} w2{% endfor %}"
    "{% if enable_thinking is defined and enable_thinking is false %} w3 w4{% endif %}"
)


class Bytes:
    """A stand-in for a tokenizer, whose ids are bytes of UTF-8."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", errors="replace")


def said(data, stop=(), size=1):
    text = AnswerText(Bytes(), stop)
    parts = [text.add(data[at : at + size]) for at in range(0, len(data), size)]
    return [*parts, text.end()], text.stopped_by


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_half_characters_wait_for_their_other_half(size):
    data = "häßlich → 漢字 🙂!".encode()
    parts, _ = said(data, size=size)
    assert "".join(parts) == data.decode()
    assert not any("\ufffd" in part for part in parts)


def test_what_stays_half_at_the_end_is_said_as_it_is():
    parts, _ = said("a→".encode()[:-1])
    assert "".join(parts) == "a\ufffd"


class Counting(Bytes):
    """Bytes, of which those from 128 to 143 have no text, as special tokens don't. Counts the ids
    that it decodes."""

    decoded = 0

    def decode(self, ids):
        self.decoded += len(ids)
        return super().decode([each for each in ids if not 128 <= each < 144])


@pytest.mark.parametrize("broken", [200, 130, 255], ids=["half", "textless", "never"])
def test_ids_that_never_become_characters_are_decoded_a_bounded_number_of_times(broken):
    tokenizer = Counting()
    text = AnswerText(tokenizer)
    parts = [text.add([each]) for each in [*b"on ", *[broken] * 3000, *" ö!".encode()]]
    assert "".join([*parts, text.end()]) == "on " + "\ufffd" * (broken != 130) * 3000 + " ö!"
    assert tokenizer.decoded < 100 * 3000


@pytest.mark.parametrize("size", [1, 5, 20])
@pytest.mark.parametrize("seed", range(4))
def test_broken_bytes_anywhere_are_said_as_they_are(size, seed):
    random = np.random.default_rng(seed)
    data = bytearray("häßlich → 漢字 🙂! ".encode() * 20)
    for at in random.integers(0, len(data), 40):
        broken = random.integers(144, 256, int(random.integers(0, 30)))
        data[at : at + 1] = bytes(broken.tolist())
    parts, _ = said(bytes(data), size=size)
    assert "".join(parts) == data.decode(errors="replace")


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize(
    "text, stop, right, stopped",
    [
        ("one. two. three", ["two"], "one. ", "two"),
        ("aab aaab", ["aaab"], "aab ", "aaab"),
        ("ababac!", ["abac", "c!"], "ab", "abac"),
        ("no end</e", ["</end>"], "no end</e", None),
        ("x\n\ny", ["\n\n", "y"], "x", "\n\n"),
    ],
)
def test_nothing_of_a_stop_string_is_said_and_nothing_else_is_kept_back(
    size, text, stop, right, stopped
):
    parts, by = said(text.encode(), stop, size)
    assert ("".join(parts), by) == (right, stopped)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = PlainFolder.of(tmp_path_factory.mktemp("text") / "checkpoint")
    folder.config["eos_token_id"] = 95
    folder.write()
    write_words(folder.path, WORDS, TEMPLATE)
    return folder.path


@pytest.fixture(scope="module")
def model(accelerator, folder):
    return ServedModel(folder, from_pretrained(folder, max_model_len=48, max_num_seqs=2))


def test_a_stream_says_what_generate_answers(model):
    ids = model.engine.generate([[5, 6, 7]], SamplingParams(max_tokens=6))[0]
    parts = list(model.stream("w5 w6 w7", SamplingParams(max_tokens=6)))
    assert len(parts) > 1
    assert "".join(parts).split() == model.tokenizer.decode(ids).split()
    assert not model.engine.requests and model.engine.step() == []


def test_messages_go_through_the_chat_template(model):
    right = list(model.stream("w1 w9 w2", SamplingParams(max_tokens=3)))
    messages = [{"role": "user", "content": "w9"}]
    assert list(model.stream(messages, SamplingParams(max_tokens=3))) == right
    with pytest.raises(ValueError, match=r"chat template of .* fails: only users"):
        next(model.stream([{"role": "system", "content": "w9"}]))


def test_a_prompt_may_be_ids_and_a_text_begins_once(model, monkeypatch):
    tokenizer = model.tokenizer
    monkeypatch.setattr(type(tokenizer._tokenizer), "bos_token_id", 8, raising=False)
    encode = tokenizer._tokenizer.encode
    monkeypatch.setattr(
        tokenizer._tokenizer,
        "encode",
        lambda text, add_special_tokens: [8] * add_special_tokens + encode(text),
    )
    assert tokenizer.encode("w5 w6") == tokenizer.encode("w8 w5 w6") == [8, 5, 6]
    assert tokenizer.encode("w5 w6", Encoding(special_tokens=False)) == [5, 6]
    assert tokenizer.encode([5, 6]) == tokenizer.encode(np.array([5, 6])) == [5, 6]
    three = SamplingParams(max_tokens=3)
    assert [*model.stream([5, 6], three)] == [*model.stream("w5 w6", three, special_tokens=False)]


def test_arguments_of_the_chat_template_reach_it(tmp_path, folder, capsys):
    """The template of a checkpoint of Qwen3's kind switches thoughts on and off."""
    path = PlainFolder.of(tmp_path / "thinks").write()
    write_words(path, WORDS, THINKS)
    messages = [{"role": "user", "content": "w5"}]
    for arguments, ids in (({}, [1, 5, 2]), ({"enable_thinking": False}, [1, 5, 2, 3, 4])):
        how = Encoding(chat_template_kwargs=arguments)
        assert Tokenizer(path).encode(messages, how) == ids
    off = ["--chat-template-kwargs", '{"enable_thinking": false}']
    assert main([str(path), "w5", "--max-tokens", "2", *off]) == 0
    assert "first token after" in capsys.readouterr().err


@pytest.mark.deep
def test_the_readme_s_example_runs_on_a_checkpoint_of_qwen3_s_kind(
    accelerator, tmp_path, monkeypatch, capsys
):
    """It samples as its generation_config.json says, with thoughts and without."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    folder = make("qwen3", tmp_path / "Qwen3-0.6B").folder
    write_words(folder, WORDS, THINKS)
    write_generation(folder, do_sample=True, temperature=0.6, top_k=20, top_p=0.95)
    prompts, sampled = [], []
    encode = Tokenizer.encode

    def noted(tokenizer, prompt, how):
        prompts.append(encode(tokenizer, prompt, how))
        return prompts[-1]

    monkeypatch.setattr(Tokenizer, "encode", noted)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "solutions.models.served_model.stream_text",
        lambda engine, tokenizer, prompt, sampling, *rest, **named: (
            sampled.append(sampling),
            stream_text(engine, tokenizer, prompt, sampling, *rest, **named),
        )[1],
    )
    exec(code, {})
    assert "first token after" in capsys.readouterr().out
    assert [ids[-2:] for ids in prompts] == [[90, 2], [3, 4]]
    assert {(each.temperature, each.top_k, each.top_p) for each in sampled} == {(0.6, 20, 0.95)}


def write_generation(folder, **values):
    (folder / "generation_config.json").write_text(json.dumps(values))
    return sampling_of(folder)


def test_a_checkpoint_samples_as_its_generation_config_says(accelerator, tmp_path, capsys):
    path = PlainFolder.of(tmp_path / "samples").write()
    assert sampling_of(path) == SamplingParams()
    assert write_generation(path, temperature=0.6, top_k=20) == SamplingParams()
    own = {"temperature": 0.6, "top_k": 20, "top_p": 0.95}
    assert write_generation(path, do_sample=True, **own) == SamplingParams(**own)
    assert write_generation(path, do_sample=True) == SamplingParams(temperature=1.0)
    assert write_generation(path, do_sample=True, temperature=0) == SamplingParams()
    assert write_generation(path, do_sample=True, min_p=0) == SamplingParams(temperature=1.0)
    model = ServedModel(path, from_pretrained(path, max_model_len=32, max_num_seqs=1))
    assert model.sampling(max_tokens=3) == SamplingParams(temperature=1.0, max_tokens=3)
    with pytest.raises(ValueError, match=r"generation_config\.json: top_k is"):
        write_generation(path, do_sample=True, top_k="many")


def test_a_stop_string_ends_an_answer_and_its_request(model):
    words = "".join(model.stream("w5 w6 w7", SamplingParams(max_tokens=6))).split()
    stop = words[3]
    text = "".join(model.stream("w5 w6 w7", SamplingParams(max_tokens=6), stop=[stop]))
    assert text.split() == words[: words.index(stop)]
    assert not model.engine.requests


def test_who_stops_to_read_cancels_and_others_are_reported(model):
    other = model.engine.add_request([3, 4], SamplingParams(max_tokens=2))
    parts = model.stream("w5", SamplingParams(max_tokens=30))
    next(parts)
    parts.close()
    assert [request.request_id for request in model.engine.requests] in ([], [other])
    assert [output.request_id for output in model.engine.run()] == [other]


@pytest.mark.parametrize(
    "stop, error", [("end", TypeError), ([3], TypeError), ([""], ValueError)], ids=repr
)
def test_what_are_no_stop_strings_is_refused(model, stop, error):
    with pytest.raises(error, match="stop"):
        next(model.stream("w5", stop=stop))
    assert not model.engine.requests


@pytest.mark.parametrize("contents", [None, "{", '{"model": 3}'], ids=str)
def test_a_broken_tokenizer_is_refused_by_its_file(accelerator, tmp_path, contents):
    pytest.importorskip("transformers")
    folder = PlainFolder.of(tmp_path / "folder").write()
    if contents is not None:
        (folder / "tokenizer.json").write_text(contents)
    model = ServedModel(folder, from_pretrained(folder, max_model_len=32, max_num_seqs=1))
    with pytest.raises(ValueError, match=r"tokenizer\.json") as refusal:
        model.stream("hello").__next__()
    assert "\n" not in str(refusal.value)
    assert model.engine.generate([[1]], SamplingParams(max_tokens=1))


def test_the_command_answers_with_any_switch_and_says_what_is_wrong(folder, capsys):
    words = [str(folder), "w9", "--max-tokens", "4", "--max-model-len", "32"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out.strip() and "ready after" in said.err
    assert main([*words, "--without", "sync_free", "--without", "flex_full_graph"]) == 0
    assert capsys.readouterr().out == said.out
    assert main([*words, "--drafts", "3"]) == 0
    drafted = capsys.readouterr()
    assert drafted.out == said.out
    assert drafted.err.strip().count("\n") == 2, "no line is broken"


REFUSED = {
    "-n 0": "-n is 0",
    "--temperature -1": "temperature is -1.0",
    f"--seed {2**63 - 1} -n 2 --max-tokens 8": f"seed is {2**63}",
    "--max-tokens 0": "asks for 0 tokens",
    "--max-tokens 126": "has 3 tokens and asks for 126",
    "--max-model-len 0": "max_model_len",
    "--max-model-len 129": "max_position_embeddings 128",
    "--drafts 200": "num_drafts 200",
    "--stop=": "stop has an empty text",
}


@pytest.fixture
def nothing_loads(monkeypatch):
    def load(*_):
        pytest.fail("weights were loaded for a request that is refused")

    monkeypatch.setattr("solutions.models.pretrained.load_model", load)


@pytest.mark.parametrize("options", REFUSED)
def test_a_request_that_is_refused_loads_nothing(folder, nothing_loads, capsys, options):
    assert main([str(folder), "w9", *options.split()]) == 1
    said = capsys.readouterr()
    assert not said.out
    assert REFUSED[options] in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(
    "lacks, prompt, sentence",
    [
        ("nothing", "", "has no tokens"),
        ("nothing", "w92", "has id 92 at position 0"),
        ("tokenizer.json", "w9", "has no tokenizer.json"),
        ("config.json", "w9", "config.json"),
        ("model.safetensors", "w9", "safetensors"),
        ("the folder", "w9", "is not there"),
    ],
)
def test_a_folder_or_prompt_that_is_refused_loads_nothing(
    nothing_loads, tmp_path, capsys, lacks, prompt, sentence
):
    folder = PlainFolder.of(tmp_path / "folder")
    folder.config["vocab_size"] = 92
    write_words(folder.write(), [f"w{number}" for number in range(94)], "")
    if lacks == "the folder":
        folder.path = tmp_path / "nowhere"
    elif lacks != "nothing":
        (folder.path / lacks).unlink()
    assert main([str(folder.path), prompt, "--plain"]) == 1
    said = capsys.readouterr()
    assert not said.out
    assert sentence in said.err and said.err.count("\n") == 1


def test_the_config_of_an_engine_is_known_before_it_is_loaded(folder, model):
    assert config_of(folder, max_model_len=48, max_num_seqs=2) == model.engine.config

"""A layer that runs step by step, compared with one that gets whole sequences, token by token."""

from dataclasses import dataclass, replace

import pytest
import torch

from solutions.gdn import each_layer
from solutions.gdn.model.config import GDNConfig
from solutions.gdn.model.layer import GDNLayer, GDNState
from solutions.sync_free.model.conv_chunks import PAD_SLOT
from tests.common import claims
from tests.common.refusals import expect_refused

from .batches import TABLES, Requests, build
from .oracle import relative_error
from .reference_layer import ReferenceLayer

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
"""The largest relative error of one request's outputs. It is larger in bfloat16 because the norm
after the rule enlarges the rounding of small outputs; float32 shows that it is only rounding."""
EACH_WAY = pytest.mark.parametrize(
    ("tables", "dtype"),
    [*((tables, torch.float32) for tables in TABLES), ("host", torch.bfloat16)],
    ids=str,
)
DRAFTS = 3
"""The most draft tokens of a request. Each needs a slot besides the request's own."""


def make_layer(accelerator, dtype=torch.float32, **changes):
    config = replace(GDNConfig.small(), dtype=dtype, **changes)
    torch.manual_seed(config.seed)
    return GDNLayer(config, accelerator.device)


def random_hidden(config, num_tokens, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_tokens, config.hidden_size, generator=generator).to(config.dtype)


@dataclass(frozen=True)
class Part:
    """The part of a sequence that a step runs: its next `length` tokens, or one token and `drafts`
    draft tokens. Of these, the first `accepted` (the token included) are the sequence's next
    tokens."""

    sequence: int
    length: int = 1
    drafts: int = -1
    accepted: int = 0


class Served:
    """Sequences that a layer serves step by step. Each output is compared with the reference."""

    def __init__(self, accelerator, layer, lengths, tables="host"):
        self.accelerator, self.layer, self.tables = accelerator, layer, tables
        self.state = GDNState.zeros(layer.config, accelerator.device)
        # A slot holds what its previous request left there.
        for states in (self.state.conv_states, self.state.ssm_states):
            states.fill_(7.0)
        self.hidden = [
            random_hidden(layer.config, length, seed) for seed, length in enumerate(lengths)
        ]
        self.right = [ReferenceLayer(layer).run(hidden) for hidden in self.hidden]
        self.done = [0] * len(lengths)
        self.accepted = [1] * len(lengths)

    def slots(self, sequence):
        """Returns the slots of the sequence, one for each token of a speculative step. They are in
        no order, and no two sequences share one."""
        last = self.layer.config.num_slots - 1
        return [last - sequence - len(self.hidden) * column for column in range(1 + DRAFTS)]

    def requests(self, parts, padding=0):
        """Returns the Requests of a step with these parts. A speculative request always has all its
        slots, since it may continue from the slot of a draft even if this step has fewer drafts
        than the last one."""
        requests = Requests.of(
            [part.length if part.drafts < 0 else 1 + part.drafts for part in parts],
            [self.done[part.sequence] for part in parts],
            drafts=[part.drafts for part in parts],
            padding=padding,
        )
        rows = [self.slots(part.sequence) for part in parts]
        for row, part in zip(rows, parts, strict=True):
            if part.drafts < 0:
                row[1:] = [PAD_SLOT] * DRAFTS
        rows += [[PAD_SLOT] * (1 + DRAFTS)] * padding
        accepted = [self.accepted[part.sequence] for part in parts] + [0] * padding
        return replace(requests, slots=rows, accepted=accepted)

    def hidden_of(self, part):
        """Returns the input hidden states of a part; those of rejected drafts are random."""
        done, hidden = self.done[part.sequence], self.hidden[part.sequence]
        if part.drafts < 0:
            return hidden[done : done + part.length]
        rejected = random_hidden(self.layer.config, 1 + part.drafts - part.accepted, seed=99)
        return torch.cat([hidden[done : done + part.accepted], rejected])

    def batch(self, parts, padding_rows=0):
        """Returns the input hidden states of a step, [T, hidden_size] on the device, with
        `padding_rows` further rows."""
        rows = [self.hidden_of(part) for part in parts]
        padding = random_hidden(self.layer.config, padding_rows, seed=98)
        return torch.cat([*rows, padding]).to(self.accelerator.device)

    def step(self, *parts, padding=0, padding_rows=0):
        metadata = build(self.accelerator, self.requests(parts, padding), self.tables)
        hidden = self.batch(parts, padding_rows)
        output = self.layer.forward(hidden, metadata, self.state)
        assert output.shape == hidden.shape
        assert output.dtype == hidden.dtype
        self.expect(output.cpu(), parts)

    def expect(self, output, parts):
        """Checks the outputs of all tokens except rejected drafts, and that the rows after the
        batch are zeros."""
        row = 0
        for part in parts:
            taken = part.length if part.drafts < 0 else part.accepted
            done = self.done[part.sequence]
            right = self.right[part.sequence][0][done : done + taken]
            self.expect_same(output[row : row + taken], right)
            self.done[part.sequence] += taken
            self.accepted[part.sequence] = max(part.accepted, 1)
            row += part.length if part.drafts < 0 else 1 + part.drafts
        assert not output[row:].any()

    def expect_states(self):
        """Checks the pools after all steps: each sequence's state after its last token, and that
        unused slots are unchanged."""
        used = []
        for sequence, (_, conv_state, ssm_state) in enumerate(self.right):
            assert self.done[sequence] == len(self.hidden[sequence])
            slot = self.slots(sequence)[self.accepted[sequence] - 1]
            self.expect_same(self.state.conv_states[slot], conv_state)
            self.expect_same(self.state.ssm_states[slot], ssm_state)
            used += self.slots(sequence)
        unused = sorted({*range(self.layer.config.num_slots)} - {*used})
        for states in (self.state.conv_states, self.state.ssm_states):
            assert (states.cpu()[unused] == 7.0).all()

    def expect_same(self, found, right):
        if right.numel():
            assert relative_error(found, right) < TOLERANCE[self.layer.config.dtype]


@EACH_WAY
def test_prompts_at_once(accelerator, tables, dtype):
    served = Served(accelerator, make_layer(accelerator, dtype), [70, 1, 9], tables)
    served.step(Part(0, 70), Part(1, 1), Part(2, 9), padding=1)
    served.expect_states()


@pytest.mark.parametrize("first", [2, 64])
def test_a_prompt_in_two_steps_is_the_prompt_at_once(accelerator, first):
    served = Served(accelerator, make_layer(accelerator), [67])
    served.step(Part(0, first))
    served.step(Part(0, 67 - first))
    served.expect_states()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_decodes_go_on_from_the_prompts(accelerator, dtype):
    served = Served(accelerator, make_layer(accelerator, dtype), [9, 6])
    served.step(Part(0, 4), Part(1, 1))
    for _ in range(5):
        served.step(Part(0), Part(1))
    served.expect_states()


def test_decodes_beside_a_prompt(accelerator):
    served = Served(accelerator, make_layer(accelerator), [5, 6, 69])
    served.step(Part(0, 3), Part(1, 4))
    served.step(Part(0), Part(1), Part(2, 65))
    served.step(Part(1), Part(0), Part(2, 4))
    served.expect_states()


@pytest.mark.parametrize("accepted", [[1, 1, 1], [2, 4, 1, 3]], ids=str)
def test_rejected_drafts_leave_no_trace(accelerator, accepted):
    served = Served(accelerator, make_layer(accelerator), [5 + sum(accepted)])
    served.step(Part(0, 5))
    for count in accepted:
        served.step(Part(0, drafts=DRAFTS, accepted=count))
    served.expect_states()


def test_speculative_requests_of_their_own_lengths(accelerator):
    served = Served(accelerator, make_layer(accelerator), [6, 4, 3])
    served.step(Part(0, 2), Part(1, 1), Part(2, 1))
    served.step(
        Part(2, drafts=1, accepted=1), Part(0, drafts=3, accepted=3), Part(1, drafts=0, accepted=1)
    )
    served.step(
        Part(0, drafts=2, accepted=1), Part(1, drafts=3, accepted=2), Part(2, drafts=0, accepted=1)
    )
    served.expect_states()


@EACH_WAY
def test_speculative_requests_beside_all_others(accelerator, tables, dtype):
    """Outputs are right for steps with speculative requests, decodes and prefills: the outputs of
    each kind return to their places in the batch."""
    served = Served(accelerator, make_layer(accelerator, dtype), [7, 4, 12, 8], tables)
    served.step(Part(0, 2), Part(1, 2), Part(3, 2))
    served.step(
        Part(0, drafts=2, accepted=2),
        Part(1),
        Part(2, 11),
        Part(3, drafts=3, accepted=3),
        padding=2,
    )
    served.step(
        Part(2),
        Part(3, drafts=3, accepted=3),
        Part(1),
        Part(0, drafts=3, accepted=3),
        padding_rows=2,
    )
    served.expect_states()


@pytest.mark.parametrize(
    "parts",
    [
        [Part(0), Part(1)],
        [Part(0, drafts=2, accepted=1), Part(1, drafts=0, accepted=1)],
        [Part(0), Part(1, 1)],
    ],
    ids=["decodes", "speculative", "prompts"],
)
def test_rows_behind_the_batch_are_zeros_and_change_nothing(accelerator, parts):
    served = Served(accelerator, make_layer(accelerator), [3, 3])
    served.step(Part(0, 2), Part(1, 2), padding_rows=3)
    served.step(*parts, padding=2, padding_rows=5)
    served.expect_states()


def test_an_empty_batch_is_nothing(accelerator):
    served = Served(accelerator, make_layer(accelerator), [])
    served.step()
    served.step(padding=2)
    served.step(padding_rows=2)
    served.expect_states()


def test_several_key_heads(accelerator):
    layer = make_layer(accelerator, num_k_heads=2, num_v_heads=4, conv_width=3)
    served = Served(accelerator, layer, [9])
    served.step(Part(0, 7))
    served.step(Part(0))
    served.step(Part(0, drafts=1, accepted=1))
    served.expect_states()


@pytest.mark.gpu
def test_heads_as_large_as_a_models(accelerator):
    heads = {"num_k_heads": 16, "num_v_heads": 32, "head_k_dim": 128, "head_v_dim": 128}
    layer = make_layer(accelerator, torch.bfloat16, hidden_size=256, **heads)
    served = Served(accelerator, layer, [7, 4, 300])
    served.step(Part(0, 3), Part(1, 4))
    served.step(Part(0, drafts=3, accepted=2), Part(2, 200))
    served.step(Part(0, drafts=3, accepted=2), Part(2, 100))
    served.expect_states()


def test_nan_stays_in_its_sequence_and_is_seen_there(accelerator):
    served = Served(accelerator, make_layer(accelerator), [6, 9, 5])
    served.step(Part(0, 5), Part(2, 4))
    parts = [Part(0), Part(1, 9), Part(2)]
    for sequence, first_row in ((0, 0), (1, 1)):
        state = GDNState(served.state.conv_states.clone(), served.state.ssm_states.clone())
        hidden = served.batch(parts)
        hidden[first_row] = torch.nan
        metadata = build(accelerator, served.requests(parts))
        output = served.layer.forward(hidden, metadata, state).cpu()
        rows = {0: slice(0, 1), 1: slice(1, 10), 2: slice(10, 11)}
        assert output[rows.pop(sequence)].isnan().all()
        for other, its_rows in rows.items():
            done, length = served.done[other], its_rows.stop - its_rows.start
            served.expect_same(output[its_rows], served.right[other][0][done : done + length])


BATCHES = {
    "decodes": [Part(0), Part(1)],
    "prompts": [Part(2, 3), Part(3, 5)],
    "decodes and prompts": [Part(0), Part(2, 3)],
    "drafts": [Part(0, drafts=2, accepted=1), Part(1, drafts=0, accepted=1)],
    "drafts and all others": [Part(0, drafts=2, accepted=1), Part(1), Part(2, 3)],
    "nobody": [],
}


@pytest.mark.parametrize(
    ("kind", "tables"),
    [*((kind, "host") for kind in BATCHES), ("prompts", "device"), ("prompts", None)],
)
def test_a_forward_neither_waits_nor_uploads(accelerator, kind, tables):
    served = Served(accelerator, make_layer(accelerator), [3, 4, 5, 5], tables)
    served.step(Part(0, 2), Part(1, 2))
    metadata = build(accelerator, served.requests(BATCHES[kind], padding=1), tables)
    hidden = served.batch(BATCHES[kind], padding_rows=2)
    call = lambda: served.layer.forward(hidden, metadata, served.state)
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)


@pytest.mark.parametrize("kind", ["decodes", "drafts"])
def test_a_step_of_decodes_is_seven_launches(accelerator, kind):
    """A step of decodes, with or without drafts, takes seven kernels: three products, the gates,
    the convolution, the delta rule, and the norm."""
    served = Served(accelerator, make_layer(accelerator), [3, 4])
    served.step(Part(0, 2), Part(1, 2))
    metadata = build(accelerator, served.requests(BATCHES[kind]))
    hidden = served.batch(BATCHES[kind])
    call = lambda: served.layer.forward(hidden, metadata, served.state)
    assert claims.counts_of(accelerator, call)["kernels"] == 7


def capture(accelerator, served, parts):
    """Captures a step of these parts without slots, so that no state changes. Returns (graph,
    metadata, hidden, output)."""
    metadata, hidden = build(accelerator, served.requests(parts)), served.batch(parts)
    for slots in (metadata.non_spec_state_indices, metadata.spec_state_indices):
        if slots is not None:
            slots.fill_(PAD_SLOT)
    call = lambda: served.layer.forward(hidden, metadata, served.state)
    graph, output = claims.captured(accelerator, call)
    return graph, metadata, hidden, output


def test_a_captured_step_of_decodes_serves_other_requests(accelerator):
    """A captured step of decodes gives right outputs when it is replayed with other requests, fewer
    of them and in different slots: all are read on the device."""
    served = Served(accelerator, make_layer(accelerator), [4, 3, 4])
    served.step(Part(0, 2), Part(1, 2), Part(2, 2))
    graph, metadata, hidden, output = capture(accelerator, served, [Part(0), Part(1), Part(2)])
    for replayed in ([Part(2), Part(0)], [Part(1), Part(2), Part(0)]):
        padding = 3 - len(replayed)
        others = build(accelerator, served.requests(replayed, padding))
        for name in ("non_spec_query_start_loc", "non_spec_state_indices"):
            getattr(metadata, name).copy_(getattr(others, name))
        hidden.copy_(served.batch(replayed, padding_rows=padding))
        graph.replay()
        served.expect(output.cpu(), replayed)
    served.expect_states()


def test_a_captured_step_of_drafts_serves_other_requests(accelerator):
    served = Served(accelerator, make_layer(accelerator), [5, 7])
    served.step(Part(0, 2), Part(1, 4))
    captured = [Part(0, drafts=2, accepted=1), Part(1, drafts=2, accepted=1)]
    graph, metadata, hidden, output = capture(accelerator, served, captured)
    for replayed in (
        [Part(1, drafts=2, accepted=1), Part(0, drafts=1, accepted=2)],
        [Part(0, drafts=0, accepted=1), Part(1, drafts=2, accepted=2)],
    ):
        others = build(accelerator, served.requests(replayed))
        for name in ("spec_query_start_loc", "spec_state_indices", "num_accepted_tokens"):
            getattr(metadata, name).copy_(getattr(others, name))
        hidden.copy_(served.batch(replayed, padding_rows=6 - others.num_actual_tokens))
        graph.replay()
        served.expect(output.cpu(), replayed)
    served.expect_states()


def test_the_chunked_rule_gets_the_tables_of_the_step(accelerator):
    layer = make_layer(accelerator)
    served, given = Served(accelerator, layer, [3, 70]), {}
    ours = layer.chunk_gated_delta_rule
    layer.chunk_gated_delta_rule = lambda **arguments: given.update(arguments) or ours(**arguments)
    served.step(Part(0, 2))
    parts = [Part(0), Part(1, 70)]
    metadata = build(accelerator, served.requests(parts))
    layer.forward(served.batch(parts), metadata, served.state)
    assert given["cu_seqlens"] is metadata.prefill_query_start_loc
    assert given["chunk_indices"] is metadata.chunk_indices
    assert given["chunk_offsets"] is metadata.chunk_offsets
    assert given["q"].shape == (1, 70, 1, 16)


def test_before_gives_the_same(accelerator):
    """The version before the change gives right outputs too. It makes its tables again in each
    layer, from the same starts."""
    layer = make_layer(accelerator)
    layer.chunk_gated_delta_rule = each_layer.chunk_gated_delta_rule
    served = Served(accelerator, layer, [70, 5])
    served.step(Part(0, 66), Part(1, 4))
    served.step(Part(1), Part(0, 4))
    served.expect_states()


def test_what_does_not_fit_is_refused(accelerator):
    served = Served(accelerator, make_layer(accelerator), [3])
    metadata = build(accelerator, served.requests([Part(0, 3)]))
    hidden = served.batch([Part(0, 3)])
    states = (served.state.conv_states, served.state.ssm_states)
    for bad, message in (
        (hidden[:, :8], r"hidden of shape \[3, 8\]: make it \[num_tokens, 32\]"),
        (hidden[:2], "2 rows of hidden for 3 tokens"),
    ):
        call = lambda bad=bad: served.layer.forward(bad, metadata, served.state)
        expect_refused(accelerator, call, message, unchanged=states)


def test_value_heads_are_shared_out_evenly():
    with pytest.raises(ValueError, match="3 value heads for 2 key heads"):
        replace(GDNConfig.small(), num_k_heads=2, num_v_heads=3)


def test_the_large_config_has_the_shapes_of_its_model():
    config = GDNConfig.qwen3_next_like()
    assert (config.num_layers, config.hidden_size, config.conv_dim) == (24, 2048, 8192)

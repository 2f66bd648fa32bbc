"""Guarded buffers report how far beside them a write went."""

import pytest

from debubble.exercises.teaching.guarded_buffer import BAND, UNTOUCHED, guarded_buffer

in_each_place = pytest.mark.parametrize("place", ["device", "pinned"])


@in_each_place
def test_it_is_zero_and_lies_where_it_was_asked_for(accelerator, place):
    buffer = guarded_buffer(accelerator, 24, place)
    assert buffer.nbytes == 24
    assert buffer.tensor.cpu().tolist() == [0] * 24
    assert buffer.address == buffer.tensor.data_ptr()
    assert buffer.address % 16 == 0
    assert buffer.tensor.device.type == ("cpu" if place == "pinned" else accelerator.device.type)
    assert place == "device" or buffer.tensor.is_pinned()


@in_each_place
@pytest.mark.parametrize("nbytes", [0, 1, 24])
def test_what_is_written_inside_is_fine(accelerator, place, nbytes):
    buffer = guarded_buffer(accelerator, nbytes, place)
    buffer.tensor.fill_(7)
    assert buffer.overrun() == ""


@in_each_place
@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (slice(-8, -4), "wrote up to 8 bytes before its start"),
        (slice(-1, 3), "wrote up to 1 byte before its start"),
        (slice(24, 25), "wrote up to 1 byte after its end"),
        (slice(20, 40), "wrote up to 16 bytes after its end"),
        (slice(-BAND, 24 + BAND), "up to 4096 bytes before its start and up to 4096 bytes after"),
    ],
)
def test_what_is_written_beside_it_is_told(accelerator, place, written, sentence):
    buffer = guarded_buffer(accelerator, 24, place)
    buffer.memory[BAND + written.start : BAND + written.stop] = UNTOUCHED ^ 1
    assert sentence in buffer.overrun()


def test_it_waits_for_what_other_streams_write(accelerator):
    buffer = guarded_buffer(accelerator, 24)
    with accelerator.stream():
        accelerator.sleep(20.0)
        buffer.memory[BAND + 24 : BAND + 32] = 0
    assert buffer.overrun() == "wrote up to 8 bytes after its end"


def test_wrong_arguments_are_sentences(accelerator):
    with pytest.raises(ValueError, match="place 'host' is unknown: choose 'device' or 'pinned'"):
        guarded_buffer(accelerator, 24, "host")
    with pytest.raises(ValueError, match="a buffer has 0 bytes or more, not -1"):
        guarded_buffer(accelerator, -1)

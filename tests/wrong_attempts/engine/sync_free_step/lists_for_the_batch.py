"""Gives `copy_batch` lists of addresses, which it does not take.

fails: test_chapter_05_a_prefix_is_loaded_by_one_batch
fails: test_chapter_05_others_compute_beside_a_load
fails: test_chapter_05_a_step_waits_for_the_blocks_that_it_reads
fails: test_chapter_05_a_load_waits_for_the_last_owner_of_its_blocks
fails: test_altogether_the_host_never_waits
fails: test_the_cache_has_the_keys_and_states_of_the_plain_model
fails: test_two_loads_may_come_before_a_step
fails: test_a_load_and_its_step_go_by_the_current_stream
says: must be a numpy array of int64
"""


def copy_pieces(pieces):
    current().copy_batch(*map(list, zip(*pieces, strict=True)))

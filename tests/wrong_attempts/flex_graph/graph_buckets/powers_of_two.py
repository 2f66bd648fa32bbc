"""Takes powers of two whatever the padding may be: up to half of the rows are padding.

fails: test_no_step_is_padded_more_than_allowed
fails: test_there_are_no_more_sizes_than_needed
fails: test_every_step_fits_into_a_size
says: rows of padding
says: a row of padding costs as much as a real one
"""


def bucket_sizes(most, percent):
    return [1 << n for n in range((most - 1).bit_length() + 1)]

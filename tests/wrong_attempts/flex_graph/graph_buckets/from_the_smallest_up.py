"""Goes up from a size of 1, as far as the padding allows, and adds the largest step's size.

fails: test_there_are_no_more_sizes_than_needed
says: begin at `most`, and go down
"""


def bucket_sizes(most, percent):
    sizes = [1]
    while sizes[-1] < most:
        size = sizes[-1] + 1
        while size < most and fewest_rows_in(size + 1, percent) <= sizes[-1] + 1:
            size += 1
        sizes.append(size)
    return sizes

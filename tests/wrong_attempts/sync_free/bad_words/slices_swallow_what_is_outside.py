"""Fills a slice for each match, and leaves the check out since a slice raises nothing.

fails: test_an_id_that_the_vocabulary_lacks_is_refused
says: the slice `[-1:0]` is empty
"""


def matches(words, pasts):
    return [
        (row, word[-1])
        for row, of_row in words.items()
        for word in of_row
        if list(pasts[row])[len(pasts[row]) - len(word) + 1 :] == list(word[:-1])
    ]


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    for row, token_id in matches(bad_words_token_ids, past_tokens_ids):
        logits[row, token_id : token_id + 1] = float("-inf")

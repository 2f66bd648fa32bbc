"""Compares `past[-0:]`, which is all of the past, where a word has a single id.

fails: test_a_word_forbids_its_last_id_behind_the_others
says: `past[-0:]` is all of `past`
"""


def check(words, vocab_size):
    for sequences in words.values():
        for token_id in [i for sequence in sequences for i in sequence]:
            if not 0 <= token_id < vocab_size:
                raise ValueError(f"token id {token_id}: there are {vocab_size}")


def apply_bad_words(logits, bad_words_token_ids, past_tokens_ids):
    check(bad_words_token_ids, logits.shape[1])
    for row, of_row in bad_words_token_ids.items():
        for word in of_row:
            newest = past_tokens_ids[row][-(len(word) - 1) :]
            if newest == word[:-1]:
                logits[row, word[-1] : word[-1] + 1] = float("-inf")

"""Keeps the uploaded temperatures of each number of requests, and uses them again.

fails: test_steps_one_after_another
says: two steps of one size have different numbers
"""

COLUMNS = {}


def scale_rows(scores, temperatures):
    if len(temperatures) not in COLUMNS:
        divisors = [temperature or 1.0 for temperature in temperatures]
        column = torch.tensor(divisors, dtype=scores.dtype, pin_memory=current().pin_memory)
        COLUMNS[len(temperatures)] = column.to(current().device, non_blocking=True)[:, None]
    return scores / COLUMNS[len(temperatures)].to(scores.dtype)

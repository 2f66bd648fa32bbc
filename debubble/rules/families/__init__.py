"""The rules of operators by what they compute; `operators` has the table that lists them."""

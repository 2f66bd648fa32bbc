"""N-gram speculation: a step also computes drafts, which are guesses of a request's next tokens,
and keeps the correct ones. Drafts are copied from the request's own earlier tokens."""

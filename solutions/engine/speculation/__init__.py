"""N-gram speculation: a step computes drafts too, which are guesses of what a request says next,
and keeps those that are right. Drafts come from what the request has said before."""

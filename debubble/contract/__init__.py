"""The base that every other folder may use: the protocol of an accelerator, the errors that both
accelerators raise, and finding the line of code that is running."""

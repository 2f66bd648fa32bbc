"""The common checks of all katas' tests, each on the inputs that a kata's test gives."""

"""The pieces as they were."""

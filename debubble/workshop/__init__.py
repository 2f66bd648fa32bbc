"""The katas' machinery: catalogue, stubs, the pytest plugin, and the sentences that teach."""

from .diagnosis import Diagnosis, KataFailure
from .expectation import expect
from .values import expect_equal

__all__ = ["Diagnosis", "KataFailure", "expect", "expect_equal"]

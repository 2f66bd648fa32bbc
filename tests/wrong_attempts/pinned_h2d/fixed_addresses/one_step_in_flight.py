"""Has one pinned buffer and its event, however many steps may be in flight.

fails: test_as_many_steps_as_are_in_flight_wait_for_nothing
says: Expected no host syncs. Your code made 1 host sync. At
"""


class PrefixRangeBuffer(PrefixRangeBuffer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options | {"steps_in_flight": 1})

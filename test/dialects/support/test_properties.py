"""Properties that are computed once."""

import threading

from stepwell.dialects.support.properties import cached_property


class Counted:
    def __init__(self) -> None:
        self.count = 0

    @cached_property
    def value(self) -> int:
        """What it is."""
        self.count += 1
        return self.count


class Waiting:
    begun, go_on = threading.Event(), threading.Event()

    def __init__(self, wait: bool) -> None:
        self.wait = wait

    @cached_property
    def value(self) -> str:
        if self.wait:
            self.begun.set()
            assert self.go_on.wait(60)
        return "computed"


def test_a_property_is_computed_once_for_each_instance() -> None:
    one, other = Counted(), Counted()
    assert [one.value, one.value, one.count, other.count] == [1, 1, 1, 0]
    del one.value
    assert one.value == 2
    assert Counted.value.__doc__ == "What it is."


def test_no_instance_waits_for_another() -> None:
    """As with a lock they would, in a forked process for good."""
    slow = Waiting(wait=True)
    values: list[str] = []
    threads = [threading.Thread(target=lambda one=one: values.append(one.value), daemon=True) for one in (slow, Waiting(wait=False))]
    threads[0].start()
    assert Waiting.begun.wait(60)
    threads[1].start()
    threads[1].join(20)
    assert values == ["computed"]
    Waiting.go_on.set()
    threads[0].join(60)
    assert values == ["computed"] * 2

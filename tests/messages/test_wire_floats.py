"""Floats on the wire: exact, and as long as any other."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.messages import EvaluateReply, Reply, wire


@given(st.floats(allow_nan=False))
def test_a_message_is_as_long_whatever_its_numbers(loss: float) -> None:
    message = Reply(1, 2, (EvaluateReply(3, 1, loss),))
    assert wire.size(message) == wire.size(Reply(1, 2, (EvaluateReply(3, 1, 0.0),))) == len(wire.encode(message))
    [answer] = wire.decode(wire.encode(message)).answers  # type: ignore[union-attr]
    assert answer.loss == loss
    assert math.copysign(1, answer.loss) == math.copysign(1, loss)


@pytest.mark.parametrize("text", ['"00"', '"zz00000000000000"', '""', "5", "null", '["0000000000000000"]'])
def test_what_is_not_a_float_is_refused(text: str) -> None:
    blob = wire.pack([1.5])
    whole = b'\\"3ff8000000000000\\"'
    assert whole in blob
    changed = blob.replace(whole, text.replace('"', '\\"').encode().ljust(len(whole)))
    with pytest.raises(wire.WireError):
        wire.unpack(changed)

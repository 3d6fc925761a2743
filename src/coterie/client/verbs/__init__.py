"""What a client does when it is asked: a module per verb, of the same name as in `coterie.messages.verbs`.

Each has one public function, ``answer(handler, verb)``. One that has to train, or to make a sketch, yields what is to
be done, and is sent the outcome.
"""

from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any

from coterie.client.request_handler import RequestHandler
from coterie.messages import VERBS, Answer, Verb
from coterie.similarity import Sketched, Sketching
from coterie.training import Diverged, Job, Outcome

Work = Job | Sketching
"""What may be done for several clients at the same time."""
Done = Outcome | Diverged | Sketched
Answering = Generator[Work, Done, Answer]
Handler = Callable[[RequestHandler, Any], Answer | Answering]

HANDLERS: dict[type[Verb], Handler] = {
    verb: import_module(f"{__name__}.{verb.__module__.rpartition('.')[2]}").answer for verb in VERBS
}

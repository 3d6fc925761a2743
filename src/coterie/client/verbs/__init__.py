"""What a client does when it is asked: a module per verb, of the same name as in `coterie.messages.verbs`.

Each has one public function, ``answer(handler, verb)``.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from coterie.client.request_handler import RequestHandler
from coterie.messages import VERBS, Answer, Verb

Handler = Callable[[RequestHandler, Any], Answer]

HANDLERS: dict[type[Verb], Handler] = {
    verb: import_module(f"{__name__}.{verb.__module__.rpartition('.')[2]}").answer for verb in VERBS
}

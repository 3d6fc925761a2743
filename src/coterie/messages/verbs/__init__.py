"""What a client may be asked, a closed list: a module per verb.

Each holds the question, the answer, what makes an answer invalid, and how large an answer can be. What the client does
is in the module of the same name in `coterie.client.verbs`.

A verb names models; a name is one of the request's own models, or one of these:

    own       what the client kept after its last training (``initial`` if it never trained)
    initial   the common start, which every client can make from the model's specification and the seed
    trained   the result of the ``Train`` before it in the same request
    epoch 1   what that ``Train`` noted on the way, after the epochs that its plan has as snapshots
    best      the winner of the ``Losses`` before it in the same request
"""

from coterie.messages.envelope import Verb
from coterie.messages.verbs.agree import Agree
from coterie.messages.verbs.class_counts import ClassCounts
from coterie.messages.verbs.evaluate import Evaluate
from coterie.messages.verbs.input_moments import InputMoments
from coterie.messages.verbs.keys import Keys
from coterie.messages.verbs.losses import Losses
from coterie.messages.verbs.masked_train import MaskedTrain
from coterie.messages.verbs.moments import Moments
from coterie.messages.verbs.prune import Prune
from coterie.messages.verbs.shares import Shares
from coterie.messages.verbs.signature import Signature
from coterie.messages.verbs.train import Train
from coterie.messages.verbs.unmask import Unmask

SECURE: tuple[type[Verb], ...] = (Keys, Shares, MaskedTrain, Agree, Unmask)
"""The steps of a secure sum, in order."""
VERBS: tuple[type[Verb], ...] = (
    *(Train, Evaluate, Losses, Signature, ClassCounts, Prune, Moments, InputMoments),
    *SECURE,
)
"""The one list of verbs: the wire, the checks of requests and replies, and the client go by it."""

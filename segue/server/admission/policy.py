"""Everything the server refuses or bounds, as one value that the command line fills in."""

from dataclasses import dataclass, field

from segue.dialects.fields.defaults import Defaults
from segue.server.admission.bodies import DEFAULT_BODY_TIMEOUT_S, DEFAULT_MAX_BODY_BYTES
from segue.server.admission.cors import Origins
from segue.server.admission.hosts import Hosts
from segue.server.admission.keys import Keyring
from segue.server.admission.limits import Limits
from segue.server.admission.request_caps import Caps

DEFAULT_REQUEST_TIMEOUT_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Policy:
    keys: Keyring | None = None  # None: no key is needed
    hosts: Hosts | None = None  # None: any Host is accepted
    origins: Origins = field(default_factory=Origins)
    limits: Limits = field(default_factory=Limits)
    caps: Caps = field(default_factory=Caps)
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    body_timeout_s: float = DEFAULT_BODY_TIMEOUT_S
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S  # 0: none
    client_keep_alive: bool = True  # whether a request may set its model's keep-alive
    heeds_priorities: bool = False  # also those in a header
    stream_interval: int = 1  # tokens of a stream's chunk, at least
    ping_interval_s: float = 0  # of silence in a stream until a comment; 0 or less: never
    fim_only: bool = False  # refuse a suffix if the model has no FIM tokens
    log_prompts: bool = False
    defaults: Defaults = field(default_factory=dict)  # for sampling fields that are left out

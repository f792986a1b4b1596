"""Who may use the server, and how much of it: the policy, from the settings."""

import logging

from segue.config import Settings
from segue.dialects import DIALECTS
from segue.dialects.fields.defaults import Defaults, read_defaults
from segue.dialects.fields.token_fields import SHIFTS
from segue.server.admission.cors import Origins
from segue.server.admission.hosts import Hosts, is_loopback
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from segue.server.admission.policy import Policy
from segue.server.admission.request_caps import Caps
from segue.unix_socket import path_of

log = logging.getLogger("segue")


def build_policy(settings: Settings) -> Policy:
    """Access control and limits, from the settings."""
    keys = None
    if settings.api_keys or settings.api_key_file is not None:
        keys = Keyring(map(parse_key, settings.api_keys), settings.api_key_file)
    return Policy(
        keys=keys,
        hosts=Hosts(settings.host, settings.allowed_hosts),
        origins=Origins(settings.cors_origins),
        limits=Limits(
            max_queue=settings.max_queue,
            max_concurrent=settings.max_concurrent,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        ),
        caps=Caps(
            n=settings.max_n,
            best_of=settings.max_best_of,
            prompts=settings.max_prompts,
            choices=settings.max_choices,
            stops=settings.max_stops,
            logprobs=settings.max_logprobs,
            logit_bias=settings.max_logit_bias,
            grammar_chars=settings.max_grammar_chars,
            total_tokens=settings.max_total_tokens,
        ),
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout_s,
        request_timeout_s=settings.request_timeout_s,
        heeds_priorities=_scheduling_policy(settings) == "priority",
        stream_interval=settings.stream_interval,
        ping_interval_s=settings.sse_ping_interval,
        fim_only=settings.infill == "fim-only",
        client_keep_alive=keys is None
        if settings.client_keep_alive is None
        else settings.client_keep_alive,
        log_prompts=settings.log_prompts,
        defaults=_defaults(settings),
    )


def _scheduling_policy(settings: Settings) -> str:
    """vLLM's option of that name counts before ours, as it does in its engine."""
    chosen: str = settings.scheduling_policy
    for option in settings.vllm_options:
        name, _, text = option.partition("=")
        if name.strip().replace("-", "_") == "scheduling_policy":
            chosen = text.strip('" ')
    return chosen


def _defaults(settings: Settings) -> Defaults:
    tables = [operation.table for dialect in DIALECTS for operation in dialect.operations]
    read = read_defaults(settings.defaults, tables)
    shifts = settings.context_shift and settings.engine == "segue"
    return {**read, SHIFTS: True} if shifts else read


def warn_of_port(settings: Settings) -> None:
    """Log that a port was given beside a Unix socket."""
    if "port" in settings.origins and path_of(settings.host) is not None:
        log.warning("%s has no effect: a Unix socket has no port", settings.origin("port"))


def warn_if_open(settings: Settings) -> None:
    """Log loudly that the network can use this server without a key."""
    has_keys = settings.api_keys or settings.api_key_file is not None
    if not has_keys and path_of(settings.host) is None and not is_loopback(settings.host):
        log.warning("ANYBODY WHO REACHES %s CAN USE THIS SERVER: give it --api-key", settings.host)

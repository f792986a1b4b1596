"""Messages for a prompt that is too long. Clients recognise this error by each system's own words."""

from segue.errors import PromptTooLong, SegueError


def as_openai(error: SegueError) -> str:
    """The message of OpenAI and vLLM. Other errors keep theirs."""
    if not isinstance(error, PromptTooLong):
        return error.message
    figures = error.details
    if not {"n_ctx", "n_prompt_tokens"} <= figures.keys():
        return f"This model's maximum context length is exceeded: {error.message}."
    num_prompt, num_answer = figures["n_prompt_tokens"], figures.get("n_answer", 1)
    which = f"prompt {figures['prompt']}" if "prompt" in figures else "the prompt"
    fewest = "" if figures.get("is_counted", 1) else "at least "
    return (
        f"This model's maximum context length is {figures['n_ctx']} tokens. However, you requested "
        f"{num_prompt + num_answer} tokens ({fewest}{num_prompt} in {which}, {num_answer} in the completion). "
        "Please reduce the length of the prompt."
    )


def as_llamacpp(error: SegueError) -> str:
    """The message of llama.cpp's server, and of Ollama, which runs it."""
    if not isinstance(error, PromptTooLong):
        return error.message
    return f"the request exceeds the available context size: {error.message}"


def figures_of(error: SegueError) -> dict[str, int]:
    """What llama.cpp's server puts beside the message."""
    return {
        name: error.details[name] for name in ("n_prompt_tokens", "n_ctx") if name in error.details
    }

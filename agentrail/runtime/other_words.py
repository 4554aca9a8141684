"""What options are called elsewhere: who comes from another library, or from a vendor's, is told the word that is ours.

What may not enter: words that are near to ours, which are found by their letters; and a second name for anything, because none
of these is taken.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _of_the_model(name: str) -> str:
    return f"it is the provider's: provider_opts={{{name!r}: …}}"


def _of_prompts_too(name: str) -> str:
    return f"{_of_the_model(name)}, or for one prompt session.prompt(…, settings={{{name!r}: …}})"


_IS_SYSTEM_PROMPT: Final = "it is system_prompt=… here"
_IS_MESSAGES: Final = "it is messages=[…] here"
_IS_MAX_TURNS: Final = "it is max_turns=… here"
_IS_OUTPUT: Final = "a type is asked for with each prompt: session.ask(…, output=…)"
_IS_PLUGIN: Final = "what watches and steers a session is a plugin: plugins=[…]"
_IS_AGENTS: Final = "who works for the session stands in agents=[Agent(…), …]"
_IS_BUDGET: Final = "it is budget=Budget(max_cost_usd=…, max_total_tokens=…) here"

OTHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "instructions": _IS_SYSTEM_PROMPT,
        "system": _IS_SYSTEM_PROMPT,
        "system_message": _IS_SYSTEM_PROMPT,
        "prompt": "the system prompt is system_prompt=…; what is asked goes to session.ask(…)",
        "history": _IS_MESSAGES,
        "message_history": _IS_MESSAGES,
        "functions": "it is tools=[…] here",
        "allowed_tools": "a session has the tools that it is given: tools=[…]",
        "context": "what tools work with is deps=…; data that is written down is user_data={…}",
        "cwd": "it is working_dir=… here",
        "api_key": _of_the_model("api_key"),
        "base_url": _of_the_model("base_url"),
        "api_base": _of_the_model("base_url"),
        "headers": _of_the_model("headers"),
        "extra_body": _of_the_model("extra_body"),
        "tool_choice": _of_the_model("tool_choice"),
        "temperature": _of_prompts_too("temperature"),
        "top_p": _of_prompts_too("top_p"),
        "stop": _of_prompts_too("stop"),
        "reasoning": _of_prompts_too("reasoning"),
        "reasoning_effort": _of_prompts_too("reasoning"),
        "thinking": _of_prompts_too("reasoning"),
        "model_settings": "they are provider_opts={…}, or for one prompt session.prompt(…, settings={…})",
        "timeout": f"of requests {_of_the_model('timeout')}; of tools tool_timeout_seconds=…",
        "max_tokens": "it is max_output_tokens=… for each response; budget=Budget(max_total_tokens=…) bounds them all",
        "max_steps": _IS_MAX_TURNS,
        "max_iterations": _IS_MAX_TURNS,
        "recursion_limit": _IS_MAX_TURNS,
        "parallel_tool_calls": "it is max_parallel_tools=… here, 1 for one after the other",
        "output": _IS_OUTPUT,
        "output_type": _IS_OUTPUT,
        "result_type": _IS_OUTPUT,
        "response_model": _IS_OUTPUT,
        "output_schema": "it is response_format={…} here, a JSON Schema; for a type session.ask(…, output=…)",
        "stream": "what comes is read from session.stream(…) or session.subscribe()",
        "middleware": _IS_PLUGIN,
        "hooks": _IS_PLUGIN,
        "callbacks": _IS_PLUGIN,
        "guardrails": _IS_PLUGIN,
        "handoffs": _IS_AGENTS,
        "subagents": _IS_AGENTS,
        "max_cost": _IS_BUDGET,
        "max_budget": _IS_BUDGET,
        "usage_limits": _IS_BUDGET,
    }
)
"""By the word, what to write in its place."""

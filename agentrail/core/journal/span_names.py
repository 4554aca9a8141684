"""The OpenTelemetry names that spans use, of the first release of the GenAI conventions' own repository. Pure.

A test compares them with its registry. The release has no schema URL, so spans have none.
"""

from typing import Final

CONVENTIONS: Final = "semantic-conventions-genai v0.1.0, read on 2026-11-25"
"""The release that the names are from."""

GEN_AI_AGENT: Final = "gen_ai.agent.name"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
CALL_RESULT: Final = "gen_ai.tool.call.result"
CONVERSATION: Final = "gen_ai.conversation.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
MCP_METHOD: Final = "mcp.method.name"
OPERATION: Final = "gen_ai.operation.name"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
USAGE_INPUT: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT: Final = "gen_ai.usage.output_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"

ERROR_TYPE: Final = "error.type"
"""Of the general conventions, stable there."""

OTHER_ERROR: Final = "_OTHER"
"""The conventions' value for an unknown error or name."""

PROVIDER_NAMES: Final = {"google": "gcp.gemini", "openai-chat": "openai"}
"""Values of `gen_ai.provider.name` for providers that have another name here."""

DATASTORES: Final = frozenset({"kb_list", "kb_read", "kb_search", "recall"})
"""Tools of ours whose `gen_ai.tool.type` is `datastore`."""

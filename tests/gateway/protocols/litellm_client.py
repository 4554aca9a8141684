"""LiteLLM as a client of ours, in the environment of its own. In: TALK, JSON {base, model}. Out: JSON."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before it is loaded: nothing is downloaded

import litellm

talk = json.loads(os.environ["TALK"])
given = {"model": talk["model"], "api_base": talk["base"], "api_key": "none", "max_retries": 0}
parameters = {"type": "object", "properties": {"at": {"type": "string"}}}
tool = {"type": "function", "function": {"name": "show", "description": "Show.", "parameters": parameters}}

shown: list[str] = []
messages = [{"role": "user", "content": "Show them."}]
while True:
    is_stream = len(shown) == 1
    asked = litellm.completion(messages=messages, tools=[tool], stream=is_stream, **given)
    whole = litellm.stream_chunk_builder([*asked], messages=messages) if is_stream else asked
    message = whole.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        shown.append(json.loads(call.function.arguments)["at"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "seen"})

response = litellm.responses(input="And?", store=False, **given)
said = [part.text for item in response.output if item.type == "message" for part in item.content]
streamed = [
    event.delta
    for event in litellm.responses(input="Or?", store=False, stream=True, **given)
    if event.type == "response.output_text.delta"
]
failed = ""
try:
    litellm.completion(messages=messages[:1], **{**given, "model": "openai/nobody"})
except litellm.exceptions.NotFoundError as error:
    failed = type(error).__name__
told = {"shown": shown, "text": message.content, "response": "".join(said), "streamed": "".join(streamed)}
print(json.dumps({**told, "failed": failed}))  # noqa: T201 - read by the test
